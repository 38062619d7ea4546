package importertest

import (
	"sync"

	"diskgnn/internal/vfs"
)

// Files is a file system that knows its files that are open. It is safe for concurrent use.
type Files struct {
	vfs.FS
	mu   sync.Mutex
	open map[*openFile]bool
}

// NewFiles returns one over another file system.
func NewFiles(fsys vfs.FS) *Files { return &Files{FS: fsys, open: map[*openFile]bool{}} }

// StillOpen returns the names of the files that are open, in no order.
func (c *Files) StillOpen() (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for f := range c.open {
		names = append(names, f.Name())
	}
	return names
}

func (c *Files) add(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := &openFile{f, c}
	c.open[n] = true
	return n, nil
}

// Open implements vfs.FS, as Create and OpenReadWrite do.
func (c *Files) Open(name string) (vfs.File, error) { return c.add(c.FS.Open(name)) }

// Create implements vfs.FS.
func (c *Files) Create(name string) (vfs.File, error) { return c.add(c.FS.Create(name)) }

// OpenReadWrite implements vfs.FS.
func (c *Files) OpenReadWrite(name string) (vfs.File, error) {
	return c.add(c.FS.OpenReadWrite(name))
}

type openFile struct {
	vfs.File
	of *Files
}

// Close implements vfs.File.
func (f *openFile) Close() error {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	delete(f.of.open, f)
	return f.File.Close()
}
