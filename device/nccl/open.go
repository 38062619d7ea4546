//go:build linux && (amd64 || arm64)

package nccl

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"diskgnn/internal/fault"
)

var openOnce = sync.OnceValues(func() (api, error) { return open(paths()) })

// open opens the first of some libraries that is one.
func open(paths []string) (api, error) {
	var errs []error
	for _, path := range paths {
		handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err == nil {
			var l *library
			if l, err = bind(path, handle); err == nil {
				return l, nil
			}
		}
		errs = append(errs, err)
	}
	return nil, fault.New(ErrNoLibrary, "no NCCL (DISKGNN_NCCL may name it): %w", errors.Join(errs...))
}

// library is the api by the addresses of its functions.
type library struct {
	name                                              string
	number                                            int32
	getUniqueID, initRank, getState                   uintptr
	reduce, broadcastTo, abortComm, finish, destroyed uintptr
	getLastError                                      uintptr
}

// bind finds the functions. Of a library that is too old it has the version alone.
func bind(path string, handle uintptr) (*library, error) {
	l := &library{name: path}
	getVersion, err := purego.Dlsym(handle, "ncclGetVersion")
	if err != nil {
		return nil, fmt.Errorf("%s: not NCCL: %w", path, err)
	}
	if s := call(getVersion, uintptr(unsafe.Pointer(&l.number))); s != Success {
		return nil, fmt.Errorf("%s: ncclGetVersion: %w", path, s)
	}
	if l.number < leastVersion {
		return l, nil
	}
	for _, f := range []struct {
		name string
		to   *uintptr
	}{
		{"ncclGetUniqueId", &l.getUniqueID}, {"ncclCommInitRankScalable", &l.initRank}, {"ncclCommGetAsyncError", &l.getState},
		{"ncclAllReduce", &l.reduce}, {"ncclBroadcast", &l.broadcastTo}, {"ncclCommAbort", &l.abortComm},
		{"ncclCommFinalize", &l.finish}, {"ncclCommDestroy", &l.destroyed}, {"ncclGetLastError", &l.getLastError},
	} {
		if *f.to, err = purego.Dlsym(handle, f.name); err != nil {
			return nil, fmt.Errorf("%s: NCCL %s lacks %s: %w", path, versionText(l.number), f.name, err)
		}
	}
	return l, nil
}

// vectors has memory for arguments, which would be allocated for each call.
var vectors = sync.Pool{New: func() any { return new([7]uintptr) }}

func call(f uintptr, args ...uintptr) Status {
	v := vectors.Get().(*[7]uintptr)
	n := copy(v[:], args)
	r, _, _ := purego.SyscallN(f, v[:n]...)
	vectors.Put(v)
	return Status(int32(r))
}

func (l *library) version() int32 { return l.number }
func (l *library) path() string   { return l.name }

func (l *library) uniqueID(id *ID) Status {
	defer runtime.KeepAlive(id)
	return call(l.getUniqueID, uintptr(unsafe.Pointer(id)))
}

func (l *library) join(c *comm, world, rank int32, id *ID, o *config) Status {
	defer func() { runtime.KeepAlive(c); runtime.KeepAlive(id); runtime.KeepAlive(o) }()
	return call(l.initRank, uintptr(unsafe.Pointer(c)), uintptr(world), uintptr(rank), 1, uintptr(unsafe.Pointer(id)), uintptr(unsafe.Pointer(o)))
}

func (l *library) state(c comm, s *Status) Status {
	defer runtime.KeepAlive(s)
	return call(l.getState, uintptr(c), uintptr(unsafe.Pointer(s)))
}

func (l *library) allReduce(x uintptr, count int, dtype, op int32, c comm, stream uintptr) Status {
	return call(l.reduce, x, x, uintptr(count), uintptr(dtype), uintptr(op), uintptr(c), stream)
}

func (l *library) broadcast(x uintptr, count int, dtype, root int32, c comm, stream uintptr) Status {
	return call(l.broadcastTo, x, x, uintptr(count), uintptr(dtype), uintptr(root), uintptr(c), stream)
}

func (l *library) abort(c comm) Status    { return call(l.abortComm, uintptr(c)) }
func (l *library) finalize(c comm) Status { return call(l.finish, uintptr(c)) }
func (l *library) destroy(c comm) Status  { return call(l.destroyed, uintptr(c)) }

// longest is the most bytes of the library's text that is read.
const longest = 1 << 10

func (l *library) lastError(c comm) string {
	if l.getLastError == 0 {
		return ""
	}
	r, _, _ := purego.SyscallN(l.getLastError, uintptr(c))
	if r == 0 {
		return ""
	}
	var b strings.Builder
	for p := *(*unsafe.Pointer)(unsafe.Pointer(&r)); b.Len() < longest; p = unsafe.Add(p, 1) {
		ch := *(*byte)(p)
		if ch == 0 {
			break
		}
		b.WriteByte(ch)
	}
	return strings.TrimSpace(b.String())
}
