// Package mapped maps files read-only into memory, for topology that is read at random and may exceed
// RAM.
//
// If a mapped file shrinks or its disk fails, an access to the mapping is a memory fault. Guard turns this
// fault into an error of kind fault.ErrCorrupt, on the goroutine that accessed the memory.
//
// Other changes cause no fault: if a file shrinks within its last page, the rest reads as zeros, and
// writes are visible in the mapping. So a File keeps its descriptor, and the size, the time of the last
// write and the inode at the time of mapping. Guard compares size and time after each function, so that
// no data from a changed file leaves it. Unchanged compares the path as well, before a result is
// committed.
package mapped

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
)

// Advice is the way in which a mapping will be read.
type Advice int

// Ways of reading, as for madvise(2).
const (
	Normal     Advice = Advice(unix.MADV_NORMAL)
	Random     Advice = Advice(unix.MADV_RANDOM)
	Sequential Advice = Advice(unix.MADV_SEQUENTIAL)
	WillNeed   Advice = Advice(unix.MADV_WILLNEED)
)

// File is a read-only mapping of a whole file.
type File struct {
	file *os.File
	fd   int   // descriptor of file
	seen stamp // metadata at the time of mapping
	data []byte
}

// stamp is the metadata of a file that changes with its content, or when another file gets its name.
type stamp struct {
	size, seconds, nanoseconds int64
	device, inode              uint64
}

func stampOf(st *unix.Stat_t) stamp {
	return stamp{st.Size, int64(st.Mtim.Sec), int64(st.Mtim.Nsec), uint64(st.Dev), uint64(st.Ino)}
}

// Open maps a file. An empty file has an empty mapping. The caller must Close the File.
func Open(name string) (*File, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	f := &File{file: file, fd: int(file.Fd())}
	if err := f.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("map %s: %w", name, err), file.Close())
	}
	return f, nil
}

func (f *File) open() (err error) {
	var st unix.Stat_t
	if err := unix.Fstat(f.fd, &st); err != nil {
		return err
	}
	f.seen = stampOf(&st)
	if f.seen.size == 0 {
		return nil
	}
	f.data, err = unix.Mmap(f.fd, 0, int(f.seen.size), unix.PROT_READ, unix.MAP_SHARED)
	return err
}

// Handle returns the open file. Close closes it.
func (f *File) Handle() *os.File { return f.file }

// Data returns the mapping. It is valid until Close, must not be written to, and should be read under
// Guard only.
func (f *File) Data() []byte { return f.data }

// Advise passes a hint about the reads of the mapping to the kernel, and ignores errors.
func (f *File) Advise(a Advice) {
	if len(f.data) > 0 {
		_ = unix.Madvise(f.data, int(a))
	}
}

// Close unmaps the file and closes it.
func (f *File) Close() error {
	b := f.data
	f.data = nil
	err := f.file.Close()
	if b != nil {
		err = errors.Join(unix.Munmap(b), err)
	}
	return err
}

// content returns an error of kind fault.ErrCorrupt if the file has changed since it was mapped.
func (f *File) content() error {
	var st unix.Stat_t
	if err := unix.Fstat(f.fd, &st); err != nil {
		return fmt.Errorf("look at %s: %w", f.file.Name(), err)
	}
	now := stampOf(&st)
	switch {
	case now.size != f.seen.size:
		return fault.New(fault.ErrCorrupt, "%s has %d bytes, and had %d when it was opened: it was changed while it was in use", f.file.Name(), now.size, f.seen.size)
	case now != f.seen:
		return fault.New(fault.ErrCorrupt, "%s was written to while it was in use", f.file.Name())
	}
	return nil
}

// Unchanged returns an error of kind fault.ErrCorrupt if a file has changed since it was mapped, or if its
// name now belongs to another file or to none. Call it before you commit a result that was read from
// mappings.
func Unchanged(files ...*File) error {
	for _, f := range files {
		if err := f.content(); err != nil {
			return err
		}
		var st unix.Stat_t
		err := unix.Stat(f.file.Name(), &st)
		if err != nil || stampOf(&st) != f.seen {
			return fault.New(fault.ErrCorrupt, "%s was removed or replaced while it was in use: run the command again", f.file.Name())
		}
	}
	return nil
}

// Guard runs fn, which reads the files' mappings, and returns its error. If a mapping can no longer be
// read, or if a file has changed meanwhile, Guard returns an error of kind fault.ErrCorrupt that names the
// file, in place of fn's result. This includes a runtime panic of fn caused by a changed offset or node
// id. Other panics continue.
func Guard(fn func() error, files ...*File) (err error) {
	if before := observer.Load(); before != nil {
		(*before)(files)
	}
	old := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(old)
	defer func() {
		r := recover()
		if r != nil {
			err = faulted(r, files)
		}
		if _, ok := r.(runtime.Error); ok || r == nil {
			err = cmp.Or(changed(files), err)
		}
		if r != nil && err == nil {
			panic(r)
		}
	}()
	return fn()
}

// Observe calls before ahead of every Guard, with its files, until restore is called: a moment at which tests can
// change a file that is mapped and will be read. It is called concurrently. No two may be in force at once.
func Observe(before func(files []*File)) (restore func()) {
	observer.Store(&before)
	return func() { observer.Store(nil) }
}

// observer is called ahead of every Guard, unless it is nil.
var observer atomic.Pointer[func(files []*File)]

// changed returns the error of the first file with changed content.
func changed(files []*File) error {
	for _, f := range files {
		if err := f.content(); err != nil {
			return err
		}
	}
	return nil
}

// faulted returns the error for a panic by a memory fault in a mapping, or nil for other panics.
func faulted(r any, files []*File) error {
	a, ok := r.(interface{ Addr() uintptr })
	if !ok {
		return nil
	}
	for _, f := range files {
		if len(f.data) == 0 {
			continue
		}
		base := uintptr(unsafe.Pointer(unsafe.SliceData(f.data)))
		if off := a.Addr() - base; a.Addr() >= base && off < uintptr(len(f.data)) {
			return fault.New(fault.ErrCorrupt, "%s: byte %d can no longer be read: the file shrank or its disk failed", f.file.Name(), off)
		}
	}
	return nil
}
