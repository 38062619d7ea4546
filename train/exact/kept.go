package exact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"diskgnn/internal/binio"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/train/model"
)

// mostKept bounds the bytes of keptFile.
const mostKept = 4 << 10

// kept is the content of keptFile. States are the latest, and before it the one that it is computed from, if
// that is on disk. A state is used only if its rows have the checksum, so the file needs none itself.
type kept struct {
	Of     string      `json:"of"` // see job.identity
	States []keptState `json:"states"`
}

// keptState is the rows that a file of states begins with, and the checksum of the table of their sums.
type keptState struct {
	Step int    `json:"step"`
	Rows int64  `json:"rows"`
	Sum  string `json:"sum"`
}

// identity names everything that the bits of states depend on.
func (j *job) identity() (string, error) {
	engine, blas, processor := j.libraries()
	b, err := json.Marshal(struct {
		Version                                          int
		Weights, Dataset, StateDType, Engine, BLAS, SIMD string
		Model                                            model.Model
	}{2, j.run.WeightsSum(), j.data.Fingerprint(), j.options.StateDType, engine, blas, processor, j.model})
	return binio.Hash(b), err
}

// read returns the states that an earlier process left for this identity, or nothing.
func (s *scratch) read(of string) (list []keptState) {
	b, err := vfs.ReadSmall(s.fs, filepath.Join(s.dir, keptFile), mostKept)
	var k kept
	if err != nil || json.Unmarshal(b, &k) != nil || k.Of != of || len(k.States) == 0 {
		return nil
	}
	s.latest = k.States[len(k.States)-1].Step
	return k.States
}

// keep makes the rows of a state on disk durable, and notes them.
func (s *scratch) keep(of string, k int, in, out *state) error {
	if err := out.file.Sync(); err != nil {
		return fmt.Errorf("write hidden states: %w", err)
	}
	note := kept{Of: of}
	if in != nil {
		note.States = append(note.States, keptState{k - 1, in.nodes, in.sums.Checksum()})
	}
	sums := out.sum.Sums()
	note.States = append(note.States, keptState{k, out.rows(), sums.Checksum()})
	b, err := json.Marshal(note)
	if err == nil {
		err = vfs.ReplaceFile(s.fs, filepath.Join(s.dir, keptFile), append(b, '\n'))
	}
	s.latest = k
	return err
}

// forget removes the note of a state that is no longer needed.
func (s *scratch) forget(k int) error {
	if s == nil || s.latest != k {
		return nil
	}
	s.latest = -1
	return s.fs.Remove(filepath.Join(s.dir, keptFile))
}

// keepRows keeps the rows of step k so far, if a later process could go on from them.
func (j *job) keepRows(k int, in, out *state) error {
	if out.rows() == out.nodes {
		in = nil // not needed any more
	}
	if out.mem != nil || in != nil && in.mem != nil || j.of == "" {
		return nil
	}
	return j.scratch.keep(j.of, k, in, out)
}

// goOn opens the states of an interrupted process: it returns the number of steps that are complete, the
// state of the last of these, and the state of the next step if a part of its rows is there. States that
// this process would hold in memory, or that are damaged, are computed again.
func (j *job) goOn(ctx context.Context) (from int, in, out *state, err error) {
	if j.scratch == nil {
		return 0, nil, nil, nil
	}
	list := j.scratch.read(j.of)
	if from, in, out, err = j.reopenAll(ctx, list); err != nil {
		return 0, nil, nil, err
	}
	keep := []string{scratchLock}
	for _, t := range []*state{in, out} {
		if t != nil {
			keep = append(keep, filepath.Base(t.path), keptFile)
		}
	}
	if len(keep) == 1 {
		return 0, nil, nil, j.scratch.clear()
	}
	j.say(from, out)
	return from, in, out, j.scratch.clearBut(keep...)
}

// reopenAll is goOn for the noted states. It leaves all files.
func (j *job) reopenAll(ctx context.Context, list []keptState) (from int, in, out *state, err error) {
	if len(list) == 0 {
		return 0, nil, nil, nil
	}
	last := list[len(list)-1]
	if last.Step < 0 || last.Step >= len(j.steps)-1 {
		return 0, nil, nil, nil
	}
	if out, err = j.reopen(ctx, last); out == nil {
		return 0, nil, nil, err
	}
	switch {
	case out.rows() == out.nodes:
		return last.Step + 1, out, nil, out.finish()
	case last.Step == 0:
		return 0, nil, out, nil
	case len(list) == 2 && list[0].Step == last.Step-1 && list[0].Rows == out.nodes:
		in, err = j.reopen(ctx, list[0])
	}
	if in == nil {
		return 0, nil, nil, errors.Join(err, out.finish())
	}
	return last.Step, in, out, in.finish()
}

// stateOf returns the state of step k, without a place.
func (j *job) stateOf(k int) *state {
	return &state{nodes: j.steps[k].sizes.Targets, width: j.steps[k].sizes.Shape.Out, of: j.options.stateType(), threads: j.options.Threads}
}

// say tells where the work goes on: with step k, of which out has the first rows.
func (j *job) say(k int, out *state) {
	at := fmt.Sprintf("layer %d", j.steps[k].cost())
	if out != nil {
		at += fmt.Sprintf(", after %s of %s", units.Count(out.rows()), units.Of(out.nodes, "node"))
	}
	j.report.Logf("hidden states of an interrupted process are in %s: going on with %s", j.scratch.dir, at)
}

// reopen opens a state on disk to append rows to it, or returns nil if its rows are not the noted ones, or its
// place is in memory. It reads the rows.
func (j *job) reopen(ctx context.Context, was keptState) (_ *state, err error) {
	s := &j.steps[was.Step]
	t := j.stateOf(was.Step)
	if s.inMemory || was.Rows <= 0 || was.Rows > t.nodes || was.Rows < t.nodes && was.Rows%int64(s.sizes.Shape.Group) != 0 {
		return nil, nil
	}
	t.path = j.scratch.path(was.Step)
	if ok, err := vfs.Exists(j.fs, t.path); err != nil || !ok {
		return nil, err
	}
	if t.file, err = j.fs.OpenReadWrite(t.path); err != nil {
		return nil, fmt.Errorf("read hidden states: %w", err)
	}
	t.sum, t.at = binio.NewSummer(stateGranule), was.Rows*int64(t.of.RowBytes(t.width))
	same, err := t.check(ctx, was.Sum)
	if same {
		err = t.file.Truncate(t.at)
	}
	if err != nil || !same {
		return nil, errors.Join(err, t.finish())
	}
	return t, nil
}

// check reads the rows, and reports whether they have the sum.
func (t *state) check(ctx context.Context, sum string) (bool, error) {
	buf := make([]byte, stateGranule)
	for at := int64(0); at < t.at; {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n, err := t.file.ReadAt(buf[:min(int64(len(buf)), t.at-at)], at)
		_, _ = t.sum.Write(buf[:n])
		if at += int64(n); at < t.at && err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return false, err
		}
	}
	sums := t.sum.Sums()
	return sums.Checksum() == sum, nil
}
