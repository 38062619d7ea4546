package exact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/kernel"
	"diskgnn/internal/vfs"
	"diskgnn/train/exact/grid"
)

const (
	scratchSuffix = ".scratch"
	scratchLock   = "lock"
	statePrefix   = "layer-" // and the layer's number
	// keptFile notes the rows of states that are whole and durable. It is replaced after each tile of a step with
	// its state on disk.
	keptFile     = "kept.json"
	stateGranule = 256 << 10
	writeStep    = 4 << 20 // between two looks at the context
	narrowRows   = 1 << 10 // that are narrowed at a time
)

// scratch is the directory of hidden states. close removes it, unless the work was interrupted: then the
// next process of the same work goes on from its states, and one of other work removes them.
type scratch struct {
	fs     vfs.FS
	dir    string
	lock   io.Closer
	latest int // step of the latest state that keptFile notes, or -1
}

// scratchDir returns the directory of a run's states: beside the run, or in a directory that the
// user chose. Beside a symbolic link to a run means beside the link's target.
func scratchDir(run, chosen string) (string, error) {
	run, err := filepath.Abs(run)
	if err != nil {
		return "", err
	}
	if chosen != "" {
		return filepath.Join(chosen, filepath.Base(run)+scratchSuffix), nil
	}
	run, err = vfs.Destination(run)
	return run + scratchSuffix, err
}

// openScratch makes the directory, for bytes bytes of files, and its parents.
func openScratch(fsys vfs.FS, dir string, bytes int64) (_ *scratch, err error) {
	if err := vfs.CheckParents(fsys, dir); err != nil {
		return nil, err
	}
	if err := checkFree(fsys, dir, bytes, "choose another place with --scratch"); err != nil {
		return nil, err
	}
	if err = vfs.MakeParents(fsys, dir); err == nil {
		err = fsys.MkdirAll(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("make %s for the hidden states (--scratch chooses another place): %w", dir, err)
	}
	s := &scratch{fs: fsys, dir: dir, latest: -1}
	if s.lock, err = fsys.Lock(filepath.Join(dir, scratchLock)); err != nil {
		return nil, err
	}
	if _, err := s.list(); err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	return s, nil
}

// checkFree refuses states for which the disk has no room; advice ends the error.
func checkFree(fsys vfs.FS, dir string, bytes int64, advice string) error {
	parent, err := vfs.Nearest(fsys, dir)
	if err != nil {
		return err
	}
	free, err := fsys.Free(parent)
	if err == nil && free+used(fsys, dir) < bytes {
		err = fault.New(fault.ErrBudget, "the hidden states take %s, but %s has %s free; %s", budget.FormatBytes(bytes), parent, budget.FormatBytes(free), advice)
	}
	return err
}

// used returns the bytes of files that a directory has already, which are used again or removed.
func used(fsys vfs.FS, dir string) (bytes int64) {
	names, err := fsys.List(dir)
	if err != nil {
		return 0
	}
	for _, name := range names {
		if st, err := fsys.Stat(filepath.Join(dir, name)); err == nil && ours(name) {
			bytes += st.Size()
		}
	}
	return bytes
}

// ours reports whether a file of the scratch directory may be one of this program.
func ours(name string) bool {
	return name == scratchLock || strings.HasPrefix(name, statePrefix) || strings.HasPrefix(name, keptFile)
}

// list returns the names of the files, and refuses a directory with other content.
func (s *scratch) list() ([]string, error) {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !ours(name) {
			return nil, fault.New(fault.ErrExists, "%s is in the way of hidden states: it holds %s", s.dir, name)
		}
	}
	return names, nil
}

// clear removes all states, and the note of them.
func (s *scratch) clear() error {
	s.latest = -1
	return s.clearBut(scratchLock)
}

// clearBut removes all files but the named ones.
func (s *scratch) clearBut(keep ...string) error {
	names, err := s.list()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.Contains(keep, name) {
			if err := s.fs.Remove(filepath.Join(s.dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// path returns the path of the state of step k.
func (s *scratch) path(k int) string {
	return filepath.Join(s.dir, fmt.Sprintf("%s%d", statePrefix, k))
}

// leave keeps the directory for a later process.
func (s *scratch) leave() error { return s.lock.Close() }

// close removes the directory.
func (s *scratch) close() error {
	err := s.clear()
	if err == nil {
		err = s.fs.Remove(filepath.Join(s.dir, scratchLock))
	}
	err = errors.Join(err, s.lock.Close())
	if err == nil {
		err = s.fs.Remove(s.dir)
	}
	if err != nil {
		return fmt.Errorf("remove the hidden states in %s: %w", s.dir, err)
	}
	return nil
}

// state is the output of a step for all nodes that it computes: rows in node order, in memory, or in a file with a checksum
// in memory for every granule. It is a pieces.File.
type state struct {
	nodes   int64 // with rows
	width   int
	of      dtype.Type
	threads int // that write to memory

	narrowed []byte // rows of another type than float32, before they are written

	mem  *device.Host // nil: on disk
	at   int64        // bytes written
	file vfs.File     // while it is written
	path string
	sum  *binio.Summer
	sums binio.Sums
}

// bytes returns the size of the state's rows.
func (t *state) bytes() int64 { return t.nodes * int64(t.of.RowBytes(t.width)) }

// stateMemory returns the bytes of memory of the checksums of a state.
func stateMemory(bytes int64) int64 { return bytes / stateGranule * 8 }

// hold takes the memory for a state that is held, and create makes the file of one that is not.
func (t *state) hold() (err error) {
	t.mem, err = device.NewHost(int(binio.AlignUp(t.nodes, int64(grid.Group))) * t.of.RowBytes(t.width))
	return err
}

func (s *scratch) create(k int, t *state) (err error) {
	t.path = s.path(k)
	if t.file, err = s.fs.Create(t.path); err != nil {
		return fmt.Errorf("create hidden states: %w", err)
	}
	t.sum = binio.NewSummer(stateGranule)
	return nil
}

// write appends rows.
func (t *state) write(ctx context.Context, rows []float32) error {
	if t.mem != nil {
		return t.put(ctx, rows)
	}
	if t.of == dtype.Float32 {
		return t.append(ctx, binio.Bytes(rows))
	}
	for some := range slices.Chunk(rows, narrowRows*t.width) {
		t.narrowed = binio.Grow(t.narrowed, len(some)*t.of.Size())
		if err := t.narrow(t.narrowed, some); err != nil {
			return err
		}
		if err := t.append(ctx, t.narrowed); err != nil {
			return err
		}
	}
	return nil
}

// narrow stores rows in the state's type.
func (t *state) narrow(to []byte, rows []float32) error {
	if !kernel.Narrow(to, t.of, rows, t.width) {
		return fault.New(fault.ErrInput, "a hidden state is not finite as %s: --state-dtype float32 keeps larger ones", StateBF16)
	}
	return nil
}

// put appends rows to a state in memory, on all threads: its pages are there only when they are written to.
func (t *state) put(ctx context.Context, rows []float32) error {
	to, size := t.mem.Bytes()[t.at:], t.of.Size()
	err := divide(ctx, t.threads, len(rows)/t.width, func(from, end int) error {
		at, some := to[from*t.width*size:end*t.width*size], rows[from*t.width:end*t.width]
		if t.of == dtype.Float32 {
			copy(at, binio.Bytes(some))
			return nil
		}
		return t.narrow(at, some)
	})
	if err == nil {
		t.at += int64(len(rows) * size)
	}
	return err
}

// append appends bytes of rows to a state on disk.
func (t *state) append(ctx context.Context, content []byte) error {
	return inSteps(ctx, content, func(b []byte) error {
		n, err := t.file.WriteAt(b, t.at)
		_, _ = t.sum.Write(b[:n])
		t.at += int64(n)
		return err
	})
}

// rows returns the number of rows that are written.
func (t *state) rows() int64 { return t.at / int64(t.of.RowBytes(t.width)) }

// finish ends the writing.
func (t *state) finish() error {
	if t.file == nil {
		return nil
	}
	t.sums, t.sum = t.sum.Sums(), nil
	err := t.file.Close()
	t.file = nil
	return err
}

// drop gives the state's memory back, or closes its file, which stays.
func (t *state) drop() error {
	if t.mem != nil {
		t.mem.Free()
		t.mem = nil
	}
	return t.finish()
}

// remove drops the state, and removes its file.
func (t *state) remove(fsys vfs.FS) error {
	if t.mem != nil {
		return t.drop()
	}
	return errors.Join(t.drop(), fsys.Remove(t.path))
}

func (t *state) Path() string     { return t.path }
func (t *state) Compressed() bool { return false }

func (t *state) Piece(i int) (offset, size int64) {
	offset = int64(i) * stateGranule
	return offset, min(stateGranule, t.bytes()-offset)
}

func (t *state) Decode(i int, b, _ []byte) ([]byte, error) {
	return b, t.sums.Verify(t.path, int64(i)*stateGranule, b)
}

// table returns the state as the table of the next step.
func (t *state) table() *grid.Table {
	g := &grid.Table{Rows: t.nodes, Width: t.width, DType: t.of, Granule: stateGranule}
	if t.mem != nil {
		g.Held = t.mem.Bytes()
	} else {
		g.File = t
	}
	return g
}

// inSteps calls do for one part of b after the other, until the context ends.
func inSteps(ctx context.Context, b []byte, do func([]byte) error) error {
	for part := range slices.Chunk(b, writeStep) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := do(part); err != nil {
			return err
		}
	}
	return nil
}
