package packed

import (
	"errors"
	"fmt"

	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/pack/packfile"
)

// Store reads the features of one pack. Its methods may be called from several
// goroutines, each with a slot of its own.
type Store struct {
	fs     vfs.FS
	pack   *packfile.Reader
	facts  packfile.Facts
	stack  iostack.Stack
	layout Layout

	files *fileCache
	cache *device.Host // pages of hot.bin: rows of the ranks from layout.GPURows up to layout.CacheRows
	gpu   *gpuLevel    // nil: the CPU assembles matrices
	hot   iostack.File // nil when empty
	eval  iostack.File // nil when empty

	hotSums, evalSums binio.Sums
	copies            *copier

	min *minCache // under policy min
}

// Open opens a pack's files through the stack, which must outlive the store.
// The RAM cache is allocated, and empty until Preload.
func Open(fsys vfs.FS, r *packfile.Reader, stack iostack.Stack, l Layout) (*Store, error) {
	s := &Store{fs: fsys, pack: r, facts: r.Facts(), stack: stack, layout: l, files: newFileCache(stack, r)}
	if err := s.open(fsys); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) open(fsys vfs.FS) (err error) {
	if s.hot, s.hotSums, err = s.openRows(fsys, packfile.HotFile, packfile.HotSums); err != nil {
		return err
	}
	if s.eval, s.evalSums, err = s.openRows(fsys, packfile.EvalFile, packfile.EvalSums); err != nil {
		return err
	}
	if s.cache, err = device.NewHost(int(s.layout.RAMBytes)); err != nil {
		return fmt.Errorf("RAM cache: %w", err)
	}
	if g := s.layout.GPU; g != nil {
		s.cache.Prefer(g.Node)
	}
	if s.copies, err = newCopier(copyWorkers(s.pack.Form()), s.pack.Form()); err != nil {
		return err
	}
	if s.layout.GPU != nil {
		return s.openGPU()
	}
	if isMin(s.pack) {
		return s.openMin(fsys)
	}
	return nil
}

// openRows opens a file of rows and its checksums.
func (s *Store) openRows(fsys vfs.FS, name, sumsName string) (iostack.File, binio.Sums, error) {
	sums, err := s.pack.Sums(fsys, sumsName)
	if err != nil {
		return nil, sums, err
	}
	if sums.Size == 0 {
		return nil, sums, nil
	}
	f, err := openSized(s.stack, s.pack, name)
	return f, sums, err
}

// Close releases files and the caches. All slots must have been freed.
func (s *Store) Close() error {
	err := s.files.close()
	for _, f := range []iostack.File{s.hot, s.eval} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	err = errors.Join(err, s.min.close(), s.gpu.close())
	if s.cache != nil {
		s.cache.Free()
	}
	if s.copies != nil {
		s.copies.close()
	}
	return err
}
