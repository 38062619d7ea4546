package iostack

import (
	"errors"
	"slices"
	"sync"
)

// MaxIdleFiles is the number of unused files that stores keep open for later batches.
const MaxIdleFiles = 16

// A FileCache opens files by name and keeps the latest open between the reads of batches: a directory
// of many epochs has more files than a process may have open, and opening one for every batch costs
// system calls. A file stays open at least until every user has given it back. Its methods may be
// called concurrently, but for Close.
type FileCache[N any] struct {
	open func(name string) (File, error)
	most int // idle files kept open

	mu    sync.Mutex
	files map[string]*CachedFile[N]
	idle  []*CachedFile[N] // files without users, the longest idle first
}

// A CachedFile is an open file that is shared by its users. The cache closes it.
type CachedFile[N any] struct {
	File
	Note N // data of the users, who synchronize its use; zero when the file is opened

	name  string
	users int
}

// NewFileCache returns an empty cache that opens files with open. At most the given number of files stay
// open without users.
func NewFileCache[N any](open func(name string) (File, error), most int) *FileCache[N] {
	return &FileCache[N]{open: open, most: most, files: make(map[string]*CachedFile[N])}
}

// Take returns the file of the given name, which it opens if it is not open. The caller must pass it to
// Give.
func (c *FileCache[N]) Take(name string) (*CachedFile[N], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.files[name]
	if !ok {
		opened, err := c.open(name)
		if err != nil {
			return nil, err
		}
		f = &CachedFile[N]{File: opened, name: name}
		c.files[name] = f
	} else if f.users == 0 {
		i := slices.Index(c.idle, f)
		c.idle = slices.Delete(c.idle, i, i+1)
	}
	f.users++
	return f, nil
}

// Give returns a file of Take to the cache. If too many files are then unused, it closes the one that has
// been unused longest, and returns the error of closing. A nil file is ignored.
func (c *FileCache[N]) Give(f *CachedFile[N]) error {
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
	c.idle = slices.Delete(c.idle, 0, 1)
	delete(c.files, old.name)
	return old.Close()
}

// Close closes all files, also files in use. The cache must not be used afterwards, except that files may
// still be given back.
func (c *FileCache[N]) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, f := range c.files {
		errs = append(errs, f.Close())
	}
	clear(c.files)
	c.idle = nil
	return errors.Join(errs...)
}
