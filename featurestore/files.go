package featurestore

import (
	"errors"
	"sync"

	"diskgnn/iostack"
)

// maxIdleFiles bounds the files kept open for the batches to come: a pack of
// many epochs has more groups than a process may have open files.
const maxIdleFiles = 16

// fileCache opens files by path and keeps the latest open. A file stays open at
// least until everybody who took it gave it back.
type fileCache struct {
	stack iostack.Stack

	mu   sync.Mutex
	open map[string]*cachedFile
	idle []*cachedFile // users 0, the longest idle first
}

type cachedFile struct {
	iostack.File
	path  string
	sums  lazySums // of files that have a table of page checksums
	users int
}

func newFileCache(stack iostack.Stack) *fileCache {
	return &fileCache{stack: stack, open: make(map[string]*cachedFile)}
}

// take returns the file at path, to be given back.
func (c *fileCache) take(path string) (*cachedFile, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.open[path]
	if !ok {
		file, err := c.stack.Open(path)
		if err != nil {
			return nil, err
		}
		f = &cachedFile{File: file, path: path}
		c.open[path] = f
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
	if len(c.idle) <= maxIdleFiles {
		return nil
	}
	old := c.idle[0]
	c.idle = append(c.idle[:0], c.idle[1:]...)
	delete(c.open, old.path)
	return old.Close()
}

func (c *fileCache) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	for path, f := range c.open {
		err = errors.Join(err, f.Close())
		delete(c.open, path)
	}
	c.idle = nil
	return err
}
