package importertest

import (
	"slices"
	"sync"

	"diskgnn/internal/vfs"
)

// Files is a file system that knows the files that are open.
type Files struct {
	vfs.FS
	mu   sync.Mutex
	open map[*file]bool
}

// Watch returns fsys as one that knows its files.
func Watch(fsys vfs.FS) *Files { return &Files{FS: fsys, open: map[*file]bool{}} }

// Left lists the names of the files that are open.
func (s *Files) Left() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for f := range s.open {
		names = append(names, f.Name())
	}
	slices.Sort(names)
	return names
}

func (s *Files) add(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := &file{f, s}
	s.open[n] = true
	return n, nil
}

// Open implements vfs.FS, as do Create and OpenReadWrite.
func (s *Files) Open(name string) (vfs.File, error)          { return s.add(s.FS.Open(name)) }
func (s *Files) Create(name string) (vfs.File, error)        { return s.add(s.FS.Create(name)) }
func (s *Files) OpenReadWrite(name string) (vfs.File, error) { return s.add(s.FS.OpenReadWrite(name)) }

type file struct {
	vfs.File
	of *Files
}

func (f *file) Close() error {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	delete(f.of.open, f)
	return f.File.Close()
}
