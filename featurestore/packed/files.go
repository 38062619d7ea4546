package packed

import (
	"errors"
	"sync"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/pack/packfile"
)

// source is a pack as the levels of a store read it.
type source struct {
	pack  *packfile.Reader
	facts packfile.Facts
	fs    vfs.FS
	stack iostack.Stack

	files     *fileCache
	hot, eval rowFile
}

// open opens what every store reads. On errors, close gives back what was opened.
func (s *source) open(fsys vfs.FS, stack iostack.Stack) (err error) {
	s.fs, s.stack, s.files = fsys, stack, newFileCache(stack, s.pack)
	if s.hot, err = s.rows(packfile.HotFile, packfile.HotSums); err != nil {
		return err
	}
	s.eval, err = s.rows(packfile.EvalFile, packfile.EvalSums)
	return err
}

func (s *source) close() error {
	return errors.Join(s.files.close(), s.hot.close(), s.eval.close())
}

// rowFile is an open file of rows and its page checksums. Without rows there is no file.
type rowFile struct {
	iostack.File
	sums binio.Sums
}

// rows opens a file of rows.
func (s *source) rows(name, sums string) (f rowFile, err error) {
	if f.sums, err = s.pack.Sums(s.fs, sums); err != nil || f.sums.Size == 0 {
		return f, err
	}
	f.File, err = openSized(s.stack, s.pack, name)
	return f, err
}

func (f *rowFile) close() error {
	if f.File == nil {
		return nil
	}
	return f.Close()
}

// maxIdleFiles bounds the files kept open for the batches to come: a pack of
// many epochs has more groups than a process may have open files.
const maxIdleFiles = 16

// openSized opens one of a pack's files, which must have the bytes that its checksums
// cover: it may have been cut since the pack was opened, at any time, and what lies
// beyond its end would be taken for read.
func openSized(stack iostack.Stack, r *packfile.Reader, name string) (iostack.File, error) {
	f, err := stack.Open(r.Path(name))
	if err != nil {
		return nil, err
	}
	if want, _ := r.File(name); f.Size() != want.Size {
		err := fault.New(fault.ErrCorrupt, "%s has %d bytes instead of %d", f.Name(), f.Size(), want.Size)
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// fileCache opens a pack's files by name and keeps the latest open. A file stays open at
// least until everybody who took it gave it back.
type fileCache struct {
	stack iostack.Stack
	pack  *packfile.Reader
	most  int // files kept open that nobody uses

	mu   sync.Mutex
	open map[string]*cachedFile
	idle []*cachedFile // users 0, the longest idle first
}

type cachedFile struct {
	iostack.File
	name  string
	sums  lazySums // of files that have a table of page checksums
	users int
}

// lazySums is a file's table of page checksums, read when it is first needed.
type lazySums struct {
	once sync.Once
	sums binio.Sums
	err  error
}

func (l *lazySums) load(fsys vfs.FS, r *packfile.Reader, name string) (*binio.Sums, error) {
	l.once.Do(func() { l.sums, l.err = r.Sums(fsys, name) })
	return &l.sums, l.err
}

func newFileCache(stack iostack.Stack, r *packfile.Reader) *fileCache {
	return &fileCache{stack: stack, pack: r, most: maxIdleFiles, open: make(map[string]*cachedFile)}
}

// take returns the file of the given name, to be given back.
func (c *fileCache) take(name string) (*cachedFile, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.open[name]
	if !ok {
		file, err := openSized(c.stack, c.pack, name)
		if err != nil {
			return nil, err
		}
		f = &cachedFile{File: file, name: name}
		c.open[name] = f
	} else if f.users == 0 {
		for i, g := range c.idle {
			if g == f {
				c.idle = append(c.idle[:i], c.idle[i+1:]...)
				break
			}
		}
	}
	f.users++
	return f, nil
}

// give returns a file; nil is ignored.
func (c *fileCache) give(f *cachedFile) error {
	if f == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.users--; f.users > 0 {
		return nil
	}
	c.idle = append(c.idle, f)
	if len(c.idle) <= c.most {
		return nil
	}
	old := c.idle[0]
	c.idle = append(c.idle[:0], c.idle[1:]...)
	delete(c.open, old.name)
	return old.Close()
}

func (c *fileCache) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	for name, f := range c.open {
		err = errors.Join(err, f.Close())
		delete(c.open, name)
	}
	c.idle = nil
	return err
}
