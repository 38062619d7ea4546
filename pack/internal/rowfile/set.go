package rowfile

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"diskgnn/internal/binio"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// mostFiles bounds the files of a Set that are open at a time, each with two descriptors. Files are written
// group by group, range after range, so that more open files would not help.
const mostFiles = 128

// Set is the files that a packing writes: any number, with a limited number open at a time. To make room,
// the file with the oldest last write is made durable and closed; the next write opens it again. Its
// methods may be called concurrently.
type Set struct {
	Dir   *stage.Dir
	most  int
	clock atomic.Int64 // of writes

	mu   sync.Mutex
	open map[*File]struct{}
	err  error // the first of a file that could not be made durable
}

// NewSet returns a set without files. most is the limit of the files open at a time, at least one; 0: a
// limit that follows from the process's limit.
func NewSet(dir *stage.Dir, most int) *Set {
	if most <= 0 {
		most = mostFiles
		var limit unix.Rlimit
		if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Cur < 8*mostFiles {
			most = max(int(limit.Cur)/8, 4) // the rest is for samples, the table and others
		}
	}
	return &Set{Dir: dir, most: most, open: map[*File]struct{}{}}
}

// File is a file of a Set. Whole pages are written with direct I/O if the file system supports it, the rest
// through the page cache.
type File struct {
	set  *Set
	name string
	used atomic.Int64 // clock of the last write

	// use is held for reading during every write, for writing to open and to close.
	use   sync.RWMutex
	h     *handle     // nil while it is not open
	dirty atomic.Bool // it was written to since it was last made durable
}

// Create creates a file of the given size, all zeros, and reserves its space if the file system supports
// it. Size 0 means that the size is not known yet.
func (s *Set) Create(name string, size int64) (*File, error) {
	f, err := s.Dir.FS().Create(s.Dir.File(name))
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", s.Dir.File(name), err)
	}
	if size > 0 {
		if err := vfs.Reserve(f, size); err != nil {
			return nil, errors.Join(fmt.Errorf("size %s: %w", f.Name(), err), f.Close())
		}
	}
	o := s.File(name)
	o.dirty.Store(true) // its size, too, is to be durable
	o.use.Lock()
	defer o.use.Unlock()
	if err := s.makeRoom(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return o, o.take(f)
}

// File returns an existing file of the directory, to be written again.
func (s *Set) File(name string) *File { return &File{set: s, name: s.Dir.File(name)} }

// take takes over an open file. The lock of f is held.
func (f *File) take(file vfs.File) error {
	h, err := newHandle(f.set.Dir.FS(), file)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.h = h
	f.set.mu.Lock()
	defer f.set.mu.Unlock()
	f.set.open[f] = struct{}{}
	return nil
}

// hold returns the open file, which stays open until written.
func (f *File) hold() (*handle, error) {
	for {
		f.use.RLock()
		if f.h != nil {
			f.used.Store(f.set.clock.Add(1))
			return f.h, nil
		}
		f.use.RUnlock()
		if err := f.reopen(); err != nil {
			return nil, err
		}
	}
}

// written ends a use that hold began, and marks the file as not durable. It does so after the write: a sync
// during the write may have missed it.
func (f *File) written() {
	f.dirty.Store(true)
	f.use.RUnlock()
}

func (f *File) reopen() error {
	f.use.Lock()
	defer f.use.Unlock()
	if f.h != nil {
		return nil
	}
	if err := f.set.makeRoom(); err != nil {
		return err
	}
	file, err := f.set.Dir.FS().OpenReadWrite(f.name)
	if err != nil {
		return fmt.Errorf("open %s: %w", f.name, err)
	}
	return f.take(file)
}

// makeRoom closes files that are not being written to until another one may be opened.
func (s *Set) makeRoom() error {
	for {
		f, err := s.victim()
		if f == nil || err != nil {
			return err
		}
		err = f.shut()
		f.use.Unlock()
		if err != nil {
			return err
		}
	}
}

// victim removes from the set, and locks, the file with the oldest last write among the files without a
// write under way. It returns nil if no file need or can be closed.
func (s *Set) victim() (*File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || len(s.open) < s.most {
		return nil, s.err
	}
	var oldest *File
	for f := range s.open {
		if (oldest == nil || f.used.Load() < oldest.used.Load()) && f.use.TryLock() {
			if oldest != nil {
				oldest.use.Unlock()
			}
			oldest = f
		}
	}
	delete(s.open, oldest)
	return oldest, nil
}

// shut makes a file, which is locked and no longer in the set, durable and closes it.
func (f *File) shut() error {
	err := f.durable()
	h := f.h
	f.h = nil
	return errors.Join(err, h.Close())
}

// durable syncs the file if it was written to since the last sync. The lock is held.
func (f *File) durable() error {
	if f.h == nil || !f.dirty.Swap(false) {
		return nil
	}
	if err := f.h.Sync(); err != nil {
		err = fmt.Errorf("sync %s: %w", f.name, err)
		f.set.mu.Lock()
		defer f.set.mu.Unlock()
		if f.set.err == nil {
			f.set.err = err
		}
		return err
	}
	return nil
}

// Sync makes all bytes durable that were written to the files before the call. Bytes written during the
// call may or may not be durable.
func (s *Set) Sync(files []*File) error {
	for _, f := range files {
		f.use.RLock()
		err := f.durable()
		f.use.RUnlock()
		if err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err // of a file that was closed already
}

// write writes b at off. Memory and file must be congruent modulo a page.
func (f *File) write(b []byte, off int64) error {
	h, err := f.hold()
	if err != nil {
		return err
	}
	defer f.written()
	return h.write(b, off)
}

// WriteCached writes b, at any address in memory, to offset off, through the page cache.
func (f *File) WriteCached(b []byte, off int64) error {
	h, err := f.hold()
	if err != nil {
		return err
	}
	defer f.written()
	return h.buffered(b, off)
}

// Finish makes the file durable and closes it; nothing may write to it any more.
func (f *File) Finish() error {
	f.use.Lock()
	defer f.use.Unlock()
	if f.h == nil {
		return nil // it was closed to make room
	}
	f.set.forget(f)
	return f.shut()
}

// Close closes the file without making it durable. Closing it again does nothing.
func (f *File) Close() {
	f.use.Lock()
	defer f.use.Unlock()
	if f.h != nil {
		f.set.forget(f)
		_ = f.h.Close()
		f.h = nil
	}
}

func (s *Set) forget(f *File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, f)
}

// Close closes the open files, durable or not.
func (s *Set) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	var open []*File
	for f := range s.open {
		open = append(open, f)
	}
	s.mu.Unlock()
	for _, f := range open {
		f.Close()
	}
}

// handle is an open file that is written at many places.
type handle struct {
	vfs.File
	direct vfs.File // nil: all through the page cache
}

// newHandle takes over a file that is open for writing.
func newHandle(fsys vfs.FS, f vfs.File) (*handle, error) {
	d, err := vfs.OpenDirect(fsys, f.Name())
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, err
	}
	return &handle{File: f, direct: d}, nil
}

// leastDirect is the shortest direct write, in bytes. The page cache merges shorter ones with
// their neighbours, for which direct writes would have to wait.
const leastDirect = 4 * binio.Page

// divide cuts the bytes at off into a head, whole pages for a direct write, and a tail. Without direct
// writes, or with too few pages, all bytes are the head.
func (f *handle) divide(b []byte, off int64) (head, pages, tail []byte) {
	from := int(binio.AlignUp(off, binio.Page) - off)
	whole := (len(b) - from) / binio.Page * binio.Page
	if f.direct == nil || whole < leastDirect {
		return b, nil, nil
	}
	return b[:from], b[from : from+whole], b[from+whole:]
}

// write writes b at off. Memory and file must be congruent modulo a page.
func (f *handle) write(b []byte, off int64) error {
	head, pages, tail := f.divide(b, off)
	if err := f.buffered(head, off); err != nil {
		return err
	}
	if err := f.pages(pages, off+int64(len(head))); err != nil {
		return err
	}
	return f.buffered(tail, off+int64(len(b)-len(tail)))
}

func (f *handle) pages(b []byte, off int64) error {
	if len(b) == 0 {
		return nil
	}
	_, err := f.direct.WriteAt(b, off)
	if errors.Is(err, unix.EINVAL) { // pages of another size, or none at all
		return f.buffered(b, off)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", f.Name(), err)
	}
	return nil
}

func (f *handle) buffered(b []byte, off int64) error {
	if len(b) == 0 {
		return nil
	}
	if _, err := f.WriteAt(b, off); err != nil {
		return fmt.Errorf("write %s: %w", f.Name(), err)
	}
	return nil
}

// Close closes the file, which no block may be on its way to.
func (f *handle) Close() error {
	if f.direct != nil {
		return errors.Join(f.direct.Close(), f.File.Close())
	}
	return f.File.Close()
}
