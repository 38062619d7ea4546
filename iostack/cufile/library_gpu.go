//go:build gpu && cgo && linux && amd64

package cufile

// #include <stdlib.h>
// #include "library_gpu.h"
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"unsafe"

	"diskgnn/device/cuda"
)

// libcufile is the library, through its C interface.
type libcufile struct {
	functions C.fileLibrary
	name      string
	once      func() error
}

// libraryPaths returns the paths at which to try the library, best first.
func libraryPaths() []string {
	names := []string{"libcufile.so.0", "libcufile.so"}
	return cuda.LibraryPaths("DISKGNN_CUFILE", names, names[:1])
}

// loadLibrary finds the library, once for the process; tests put another in its place.
var loadLibrary = sync.OnceValues(func() (library, error) {
	var errs []error
	for _, path := range libraryPaths() {
		l, err := openLibrary(path)
		if err == nil {
			return l, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("no libcufile (DISKGNN_CUFILE may name it): %w", errors.Join(errs...))
})

func openLibrary(path string) (library, error) {
	l := &libcufile{name: path}
	c := C.CString(path)
	defer C.free(unsafe.Pointer(c))
	if why := C.fileOpen(&l.functions, c); why != nil {
		return nil, errors.New(C.GoString(why))
	}
	l.once = sync.OnceValue(l.openDriver)
	return l, nil
}

func (l *libcufile) path() string { return l.name }

func (l *libcufile) forbidCompatibility() (bool, error) {
	if l.functions.setBool == nil {
		return false, nil
	}
	return true, check("cuFileSetParameterBool", C.fileForbidCompatibility(&l.functions))
}

func (l *libcufile) open() error { return l.once() }

func (l *libcufile) openDriver() error {
	s := C.fileDriverOpen(&l.functions)
	const alreadyOpen = 5026
	if s.err == alreadyOpen { // by another part of this process
		return nil
	}
	return check("cuFileDriverOpen", s)
}

func (l *libcufile) properties() (properties, error) {
	var p C.fileProperties
	err := check("cuFileDriverGetProperties", C.fileDriverProperties(&l.functions, &p))
	return properties{Major: int(p.nvfs.major), Minor: int(p.nvfs.minor), Status: uint32(p.nvfs.status)}, err
}

func (l *libcufile) register(fd int) (uintptr, error) {
	var h C.uintptr_t
	err := check("cuFileHandleRegister", C.fileRegister(&l.functions, C.int(fd), &h))
	return uintptr(h), err
}

func (l *libcufile) deregister(h uintptr) { C.fileDeregister(&l.functions, C.uintptr_t(h)) }

func (l *libcufile) pin(address uint64, bytes int64) error {
	return check("cuFileBufRegister", C.filePin(&l.functions, C.uint64_t(address), C.size_t(bytes)))
}

func (l *libcufile) unpin(address uint64) error {
	return check("cuFileBufDeregister", C.fileUnpin(&l.functions, C.uint64_t(address)))
}

func (l *libcufile) read(h uintptr, base uint64, bytes int, offset, at int64) (int, error) {
	n, err := C.fileRead(&l.functions, C.uintptr_t(h), C.uint64_t(base), C.size_t(bytes), C.int64_t(offset), C.int64_t(at))
	if n >= 0 {
		return int(n), nil
	}
	errno, _ := err.(syscall.Errno)
	return 0, readStatus(int(n), errno)
}

func check(call string, s C.fileStatus) error { return statusOf(call, int(s.err), int(s.cuda)) }
