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

// source is a pack, for the levels of a store.
type source struct {
	pack  *packfile.Reader
	facts packfile.Facts
	fs    vfs.FS
	stack iostack.Stack

	files     *iostack.FileCache[lazySums]
	hot, eval rowFile
	chunks    rowFile // of validation batches, if they have chunks
}

// open opens the files that every store reads. Call close also after an error.
func (s *source) open(fsys vfs.FS, stack iostack.Stack) (err error) {
	s.fs, s.stack = fsys, stack
	s.files = s.newFiles(iostack.MaxIdleFiles)
	if s.hot, err = s.rows(packfile.HotFile, packfile.HotSums); err != nil {
		return err
	}
	if s.eval, err = s.rows(packfile.EvalFile, packfile.EvalSums); err == nil && s.pack.Index().EvalChunks {
		s.chunks, err = s.rows(packfile.EvalColdFile, packfile.EvalColdSums)
	}
	return err
}

func (s *source) close() error {
	return errors.Join(s.files.Close(), s.hot.close(), s.eval.close(), s.chunks.close())
}

// isMin reports whether a pack has the policy min.
func isMin(r *packfile.Reader) bool { return r.Params().Policy == packfile.PolicyMin }

// rowFile is an open file of rows and its page checksums. A pack without such rows has no such file.
type rowFile struct {
	iostack.File
	sums binio.Sums
}

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

// openSized opens one of a pack's files, and checks its size against its checksums. The file may have been
// truncated since the pack was opened; then a read beyond its end would leave old bytes in the buffer.
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

// cachedFile is a file in a cache of open files, with its table of page checksums, if any.
type cachedFile = iostack.CachedFile[lazySums]

// newFiles returns a cache of the pack's files, by their names in it.
func (s *source) newFiles(mostIdle int) *iostack.FileCache[lazySums] {
	return iostack.NewFileCache[lazySums](func(name string) (iostack.File, error) { return openSized(s.stack, s.pack, name) }, mostIdle)
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
