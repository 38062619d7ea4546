package featurestore

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/progress"
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
	cache *device.Host // rows of the ranks below layout.CacheRows
	hot   iostack.File // nil when empty
	eval  iostack.File // nil when empty

	hotSums, evalSums binio.Sums
	copies            *copier

	min *minCache // under policy min
}

// Open opens a pack's files through the stack, which must outlive the store.
// The RAM cache is allocated, and empty until Preload.
func Open(fsys vfs.FS, r *packfile.Reader, stack iostack.Stack, l Layout) (*Store, error) {
	s := &Store{fs: fsys, pack: r, facts: r.Facts(), stack: stack, layout: l, files: newFileCache(stack)}
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
	if s.copies, err = newCopier(copyWorkers(s.pack.Form()), s.pack.Form()); err != nil {
		return err
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
	f, err := s.stack.Open(s.pack.Path(name))
	return f, sums, err
}

// Preload fills the RAM cache for a training that begins with batch 0, and returns the
// bytes read.
func (s *Store) Preload(ctx context.Context, rep progress.Reporter) (int64, error) {
	return s.PreloadFor(ctx, 0, rep)
}

// PreloadFor fills the RAM cache for a training that goes on with the given batch. No
// batch may be under way. After an error it must be called again.
func (s *Store) PreloadFor(ctx context.Context, batch int, rep progress.Reporter) (int64, error) {
	if s.min != nil {
		return s.preloadMin(ctx, batch, rep)
	}
	return s.preloadHot(ctx, rep)
}

// preloadHot fills the RAM cache from hot.bin, checked.
func (s *Store) preloadHot(ctx context.Context, rep progress.Reporter) (int64, error) {
	want := s.layout.CacheRows * int64(s.facts.RowBytes)
	if want == 0 {
		return 0, nil
	}
	end := min(binio.AlignUp(want, binio.Page), s.hot.Size()) // whole pages, to be checked
	task := rep.Task("fill the RAM cache", end, progress.Bytes)
	defer task.Done()
	const piece, depth = 4 << 20, 4
	var groups [depth]iostack.Group
	mem := s.cache.Bytes()
	span := func(k int64) (lo, hi int64) { return k * piece, min((k+1)*piece, end) }
	pieces := (end + piece - 1) / piece
	drain := func(err error) error {
		done, cancel := context.WithCancel(ctx)
		cancel()
		for i := range groups {
			_ = s.stack.Wait(done, &groups[i])
		}
		return fmt.Errorf("fill the RAM cache: %w", err)
	}
	for k := int64(0); k < pieces+depth; k++ {
		g := &groups[k%depth]
		if k >= depth {
			if err := s.stack.Wait(ctx, g); err != nil {
				return 0, drain(err)
			}
			lo, hi := span(k - depth)
			if err := s.hotSums.Verify(s.hot.Name(), lo, mem[lo:hi]); err != nil {
				return 0, drain(err)
			}
			task.Add(hi - lo)
		}
		if k < pieces {
			lo, hi := span(k)
			if err := s.stack.Submit(g, []iostack.Request{{File: s.hot, Offset: lo, Buf: mem[lo:hi]}}); err != nil {
				return 0, drain(err)
			}
		}
	}
	return end, nil
}

// Close releases files and the RAM cache. All slots must have been freed.
func (s *Store) Close() error {
	err := s.files.close()
	for _, f := range []iostack.File{s.hot, s.eval} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	err = errors.Join(err, s.min.close())
	if s.cache != nil {
		s.cache.Free()
	}
	if s.copies != nil {
		s.copies.close()
	}
	return err
}
