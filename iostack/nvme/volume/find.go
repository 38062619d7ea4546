package volume

import (
	"path/filepath"
	"sync"

	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// Placed is a file with its places on drives. It may be used by any number of goroutines, also after the
// volume's drives were closed.
type Placed struct {
	file   *File
	layout Layout
}

// Place returns f, a file of the volume, with its places on the drives.
func (v *Volume) Place(f *File) *Placed { return &Placed{f, v.layout} }

// Name returns the file's name in its directory, and Size its size in bytes.
func (p *Placed) Name() string { return p.file.Name }
func (p *Placed) Size() int64  { return p.file.Size }

// Locate returns the place of the byte at an offset below Size: the drive, the offset on that drive, and
// the number of contiguous bytes from there, up to the end of a page.
func (p *Placed) Locate(offset int64) (drive int, at, n int64) {
	from, run := p.file.Locate(offset)
	drive, at, n = p.layout.Locate(from)
	return drive, at, min(n, run)
}

// Finder finds the files of a directory on a volume. The directory is in the file system as well: small
// files are read there, and large ones from the drives. It may be used by any number of goroutines, also
// after the volume's drives were closed.
type Finder struct {
	v    *Volume
	fsys vfs.FS

	mu   sync.Mutex
	dirs map[string]verdict
}

// verdict is the result for a directory: whether it is the directory on the volume, or the error of reading
// it.
type verdict struct {
	here bool
	err  error
}

// Finder returns a Finder that reads the metadata of directories from a file system.
func (v *Volume) Finder(fsys vfs.FS) *Finder {
	return &Finder{v: v, fsys: fsys, dirs: map[string]verdict{}}
}

// Find returns the volume's file for a path in the file system: the file of the same name, if the path's
// directory has the fingerprint of the volume's. It returns nil for files that are not on the volume and
// must be read from the file system: files that the directory's meta.json does not list, and directories of
// other formats than the volume's. A directory of the volume's format with another fingerprint is an error
// of kind fault.ErrLineage: otherwise reads would silently come from the file system. A volume with the
// same fingerprint but not all files in their sizes is an error of kind fault.ErrCorrupt.
func (f *Finder) Find(path string) (*Placed, error) {
	dir := filepath.Dir(path)
	f.mu.Lock()
	is, known := f.dirs[dir]
	if !known {
		is = f.look(dir)
		f.dirs[dir] = is
	}
	f.mu.Unlock()
	if is.err != nil || !is.here {
		return nil, is.err
	}
	if file := f.v.contents.File(filepath.Base(path)); file != nil {
		return f.v.Place(file), nil
	}
	return nil, nil
}

// Held returns the memory of the volume's table in bytes.
func (f *Finder) Held() int64 { return f.v.contents.Held() }

func (f *Finder) look(dir string) verdict {
	if ok, err := vfs.Exists(f.fsys, filepath.Join(dir, stage.MetaFile)); err != nil || !ok {
		return verdict{err: err}
	}
	m, err := stage.ReadMeta(f.fsys, dir, "directory")
	if err != nil {
		return verdict{err: err}
	}
	c := f.v.contents
	if m.Format.Name == c.Format && m.Fingerprint != c.Fingerprint {
		return verdict{err: fault.New(fault.ErrLineage, "%s is the %s %.12s…, but %s holds %.12s…: load it with diskgnn nvme load", dir, c.Format, m.Fingerprint, names(f.v.drives), c.Fingerprint)}
	}
	if m.Fingerprint != c.Fingerprint {
		return verdict{}
	}
	for _, want := range m.Files { // or reads would go to the file system, or beyond a file's end
		switch file := c.File(want.Name); {
		case file == nil:
			return verdict{err: fault.New(fault.ErrCorrupt, "%s has no %s, which %s has: load it with diskgnn nvme load", names(f.v.drives), want.Name, dir)}
		case file.Size != want.Size:
			return verdict{err: fault.New(fault.ErrCorrupt, "%s: %s has %d bytes, but in %s it has %d: load it with diskgnn nvme load", names(f.v.drives), want.Name, file.Size, dir, want.Size)}
		}
	}
	return verdict{here: true}
}
