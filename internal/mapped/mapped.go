// Package mapped maps files read-only into memory, for topology that is read at
// random and may exceed RAM.
//
// A file that shrinks or a disk that fails turns an access to a mapping into a
// memory fault. Guard turns that fault into an error of kind fault.ErrCorrupt,
// on the goroutine that touched the memory.
package mapped

import (
	"fmt"
	"os"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
)

// Advice says how a mapping will be read.
type Advice int

// The ways of reading that the kernel distinguishes.
const (
	Normal     Advice = Advice(unix.MADV_NORMAL)
	Random     Advice = Advice(unix.MADV_RANDOM)
	Sequential Advice = Advice(unix.MADV_SEQUENTIAL)
	WillNeed   Advice = Advice(unix.MADV_WILLNEED)
)

// File is a read-only mapping of a whole file.
type File struct {
	name string
	data []byte
}

// Open maps a file. An empty file has an empty mapping.
func Open(name string) (*File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Map(f)
}

// Map maps an open file as Open does. The file remains the caller's, who may close it while
// it is mapped.
func Map(f *os.File) (*File, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() == 0 {
		return &File{name: f.Name()}, nil
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", f.Name(), err)
	}
	return &File{f.Name(), b}, nil
}

// Data returns the mapping. It is valid until Close, must not be written to,
// and should be touched under Guard only.
func (f *File) Data() []byte { return f.data }

// Advise tells the kernel how the mapping will be read. It is a hint: an error
// would change nothing for the caller.
func (f *File) Advise(a Advice) {
	if len(f.data) > 0 {
		_ = unix.Madvise(f.data, int(a))
	}
}

// Close unmaps the file.
func (f *File) Close() error {
	if f.data == nil {
		return nil
	}
	b := f.data
	f.data = nil
	return unix.Munmap(b)
}

// Guard runs fn and turns a memory fault inside any of the files' mappings into
// an error that names the file and the offset. Other panics go on.
func Guard(fn func() error, files ...*File) (err error) {
	old := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(old)
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		a, ok := r.(interface{ Addr() uintptr })
		if !ok {
			panic(r)
		}
		for _, f := range files {
			if len(f.data) == 0 {
				continue
			}
			base := uintptr(unsafe.Pointer(unsafe.SliceData(f.data)))
			if off := a.Addr() - base; a.Addr() >= base && off < uintptr(len(f.data)) {
				err = fault.New(fault.ErrCorrupt, "%s: byte %d can no longer be read: the file shrank or its disk failed", f.name, off)
				return
			}
		}
		panic(r)
	}()
	return fn()
}
