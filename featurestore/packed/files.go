package packed

import (
	"errors"
	"sync"

	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/pack/packfile"
)

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
