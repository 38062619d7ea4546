package pack

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// mostFiles bounds the files of a fileSet that are open at a time, each with two
// descriptors. Files are written group by group, range after range, so that more would be
// kept for nothing.
const mostFiles = 128

// fileSet is the files that a packing writes: any number, of which only so many are open
// at a time. The one that was written to longest ago is made durable and closed to make
// room, and opened again when it is written to. Its methods may be called concurrently.
type fileSet struct {
	dir   *stage.Dir
	most  int
	clock atomic.Int64 // of writes

	mu   sync.Mutex
	open map[*outFile]struct{}
	err  error // the first of a file that could not be made durable
}

// newFileSet makes a set without files. most is how many are open at a time, at least one;
// 0: as many as the process's limit suggests.
func newFileSet(dir *stage.Dir, most int) *fileSet {
	if most <= 0 {
		most = mostFiles
		var limit unix.Rlimit
		if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Cur < 8*mostFiles {
			most = max(int(limit.Cur)/8, 4) // the rest is for samples, the table and others
		}
	}
	return &fileSet{dir: dir, most: most, open: map[*outFile]struct{}{}}
}

// outFile is a file of a fileSet. Whole pages of it are written past the page cache, where
// the file system can, and the rest through it.
type outFile struct {
	set  *fileSet
	name string
	used atomic.Int64 // clock of the last write

	// use is held for reading during every write, for writing to open and to close.
	use   sync.RWMutex
	h     *handle     // nil while it is not open
	dirty atomic.Bool // it was written to since it was last made durable
}

// create makes a file of the given size, all zeros, for which the file system reserves
// room where it can. Size 0 says that the size is not known yet.
func (s *fileSet) create(name string, size int64) (*outFile, error) {
	f, err := s.dir.FS().Create(s.dir.File(name))
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", s.dir.File(name), err)
	}
	if size > 0 {
		if err := vfs.Reserve(f, size); err != nil {
			return nil, errors.Join(fmt.Errorf("size %s: %w", f.Name(), err), f.Close())
		}
	}
	o := s.file(name)
	o.dirty.Store(true) // its size, too, is to be durable
	o.use.Lock()
	defer o.use.Unlock()
	if err := s.makeRoom(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return o, o.take(f)
}

// file returns a file that is there.
func (s *fileSet) file(name string) *outFile { return &outFile{set: s, name: s.dir.File(name)} }

// take makes an open file the outFile's, whose lock is held.
func (f *outFile) take(file vfs.File) error {
	h, err := newHandle(f.set.dir.FS(), file)
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
func (f *outFile) hold() (*handle, error) {
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

// written ends what hold began. Only now is there something to be made durable: a sync
// while the write was under way may have missed it.
func (f *outFile) written() {
	f.dirty.Store(true)
	f.use.RUnlock()
}

func (f *outFile) reopen() error {
	f.use.Lock()
	defer f.use.Unlock()
	if f.h != nil {
		return nil
	}
	if err := f.set.makeRoom(); err != nil {
		return err
	}
	file, err := f.set.dir.FS().OpenReadWrite(f.name)
	if err != nil {
		return fmt.Errorf("open %s: %w", f.name, err)
	}
	return f.take(file)
}

// makeRoom closes files that nobody is writing to until another one may be opened.
func (s *fileSet) makeRoom() error {
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

// victim takes out of the set, locked, the file that was written to longest ago among
// those that nobody is writing to; nil if none need be closed, or can be.
func (s *fileSet) victim() (*outFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || len(s.open) < s.most {
		return nil, s.err
	}
	var oldest *outFile
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
func (f *outFile) shut() error {
	err := f.durable()
	h := f.h
	f.h = nil
	return errors.Join(err, h.Close())
}

// durable syncs the file, if there is anything to be synced. The lock is held.
func (f *outFile) durable() error {
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

// sync makes files durable. What is being written meanwhile may or may not be.
func (s *fileSet) sync(files []*outFile) error {
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
func (f *outFile) write(b []byte, off int64) error {
	h, err := f.hold()
	if err != nil {
		return err
	}
	defer f.written()
	return h.write(b, off)
}

// writeCached writes b, wherever it lies in memory, at off, through the page cache.
func (f *outFile) writeCached(b []byte, off int64) error {
	h, err := f.hold()
	if err != nil {
		return err
	}
	defer f.written()
	return h.buffered(b, off)
}

// finish makes the file durable and closes it; nothing may write to it any more.
func (f *outFile) finish() error {
	f.use.Lock()
	defer f.use.Unlock()
	if f.h == nil {
		return nil // it was closed to make room
	}
	f.set.forget(f)
	return f.shut()
}

// close gives the file up, durable or not; again, or when it is closed, it does nothing.
func (f *outFile) close() {
	f.use.Lock()
	defer f.use.Unlock()
	if f.h != nil {
		f.set.forget(f)
		_ = f.h.Close()
		f.h = nil
	}
}

func (s *fileSet) forget(f *outFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, f)
}

// close closes what is open, durable or not.
func (s *fileSet) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	var open []*outFile
	for f := range s.open {
		open = append(open, f)
	}
	s.mu.Unlock()
	for _, f := range open {
		f.close()
	}
}
