// Package mapped maps files read-only into memory, for topology that is read at
// random and may exceed RAM.
//
// A file that shrinks or a disk that fails turns an access to a mapping into a
// memory fault. Guard turns that fault into an error of kind fault.ErrCorrupt,
// on the goroutine that touched the memory.
//
// Other changes cause no fault: a file that shrinks inside its last page reads as zeros
// there, and a write shows in the mapping. So a File keeps its descriptor, and the size, the
// time of the last write and the inode that it was mapped with. Guard compares size and time
// after each function that it runs: nothing that was read from a changed file leaves it.
// Unchanged compares the path as well, for the moment before a result is committed.
package mapped

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
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
	file *os.File
	fd   int   // of it
	seen stamp // when it was mapped
	data []byte
}

// stamp is a file's metadata that changes with its content, or if another file takes its name.
type stamp struct {
	size, seconds, nanoseconds int64
	device, inode              uint64
}

func stampOf(st *unix.Stat_t) stamp {
	return stamp{st.Size, int64(st.Mtim.Sec), int64(st.Mtim.Nsec), uint64(st.Dev), uint64(st.Ino)}
}

// Open maps a file. An empty file has an empty mapping.
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

// Handle returns the open file, which is closed with the mapping.
func (f *File) Handle() *os.File { return f.file }

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

// content returns an error of kind fault.ErrCorrupt if the file is not as it was mapped.
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

// Unchanged returns an error of kind fault.ErrCorrupt if a file is not as it was mapped, or if its
// name belongs to another file or to none. Call it before you commit a result that was read from
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

// Guard runs fn, which reads the files' mappings, and returns its error. It returns an error of
// kind fault.ErrCorrupt that names the file instead where a mapping can no longer be read, or
// where a file was changed meanwhile: whatever fn made of it, also a panic of the runtime's by
// an offset or a node id that was fine before. Other panics go on.
func Guard(fn func() error, files ...*File) (err error) {
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

// changed returns the error of the first file with changed content.
func changed(files []*File) error {
	for _, f := range files {
		if err := f.content(); err != nil {
			return err
		}
	}
	return nil
}

// faulted returns the error for a panic of a memory fault in a mapping, or nil.
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
