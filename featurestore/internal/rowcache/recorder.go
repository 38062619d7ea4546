package rowcache

import (
	"context"
	"slices"

	"diskgnn/featurestore"
	"diskgnn/featurestore/residency"
	"diskgnn/internal/progress"
)

// grid cuts the training batches of every sample epoch into superbatches. Their lengths differ by one
// batch at most.
type grid struct {
	train, perEpoch int // batches
	parts           int // superbatches of a sample epoch, 1 to perEpoch; 0: the store has no superbatches
}

// of returns the first batch and the end of the superbatch of a batch.
func (g grid) of(batch int) (first, end int) {
	epoch := batch / g.perEpoch * g.perEpoch
	part := ((batch-epoch+1)*g.parts - 1) / g.perEpoch
	return epoch + part*g.perEpoch/g.parts, epoch + (part+1)*g.perEpoch/g.parts
}

// longest returns the number of batches of the longest superbatch.
func (g grid) longest() int {
	if g.parts == 0 {
		return 0
	}
	return (g.perEpoch + g.parts - 1) / g.parts
}

// single reports whether one superbatch has all training batches.
func (g grid) single() bool { return g.parts == 1 && g.perEpoch == g.train }

// windowAhead is the number of batches in the recorder's window after the one that is recorded.
const windowAhead = 1

// recorderBytes returns the memory of a recorder without its window, in bytes: the policy, and the traces of
// two superbatches, or of one if there is no other. inputs is the most input nodes of a batch.
func (g grid) recorderBytes(nodes, frames int64, inputs int) int64 {
	s := g.size(nodes, frames, inputs)
	n := s.Bytes(residency.Belady)
	if !g.single() {
		n += 8*(s.Batches+1) + 4*s.Accesses
	}
	return n
}

// size returns the size of a policy for the longest superbatch.
func (g grid) size(nodes, frames int64, inputs int) residency.Size {
	batches := int64(g.longest())
	return residency.Size{Nodes: int(nodes), Frames: int(frames), Batches: batches, Accesses: batches * int64(inputs)}
}

// numbered reports whether Belady's policy has enough keys for the longest superbatch.
func (g grid) numbered(nodes int64, inputs int) bool {
	return g.size(nodes, 0, inputs).Accesses+nodes <= residency.MaxKeys
}

// recorder records the accesses of a superbatch before it begins, for the decisions of Belady's policy: see
// residency.Superbatch. While the batches of one superbatch are decided, the next one is recorded, one batch
// for each decided batch, so the reads of a batch follow from its place in the circle. Traces have the
// nodes of a batch in ascending order.
//
// The content of a recorder follows from the position alone. After an error, call seek.
type recorder struct {
	grid
	inputs    int // the most input nodes of a batch
	policy    *residency.Superbatch
	window    featurestore.Window
	now, next residency.Trace // of the present superbatch, and of the recorded part of the next one
	reads     int64           // of the window so far, one for each batch that it read
}

// newRecorder returns a recorder with a new window of the loaders. It holds recorderBytes and the window.
func newRecorder(g grid, nodes, frames int64, inputs int, loaders featurestore.Loaders) (*recorder, error) {
	s := g.size(nodes, frames, inputs)
	policy, err := residency.NewSuperbatch(s)
	if err != nil {
		return nil, err
	}
	r := &recorder{grid: g, inputs: inputs, policy: policy, next: newTrace(s)}
	if !g.single() {
		r.now = newTrace(s)
	}
	if r.window, err = loaders.NewWindow(windowAhead); err != nil {
		return nil, err
	}
	return r, nil
}

func newTrace(s residency.Size) residency.Trace {
	return residency.Trace{Start: make([]int64, 1, s.Batches+1), Nodes: make([]uint32, 0, s.Accesses)}
}

// seek brings the policy, the window and the traces to their state before the given batch. It returns the
// bytes read.
func (r *recorder) seek(ctx context.Context, batch int, rep progress.Reporter) (read int64, err error) {
	first, end := r.of(batch)
	task := rep.Task("record the input nodes of batches", int64(end-first), progress.Batches)
	defer task.Done()
	if read, err = r.window.Seek(ctx, first); err != nil {
		return 0, err
	}
	clearTrace(&r.next)
	for b := first; b < end; b++ {
		n, err := r.record(ctx, b)
		if err != nil {
			return 0, err
		}
		read += n
		task.Add(1)
	}
	if r.single() {
		r.now = r.next
	}
	held, into := make([]int32, r.inputs), make([]int32, r.inputs)
	for b := first; b < batch; b++ {
		n, err := r.reach(ctx, b)
		if err != nil {
			return 0, err
		}
		read += n
		r.policy.Batch(r.now.Batch(b-first), held, into)
	}
	return read, nil
}

// reach prepares the policy for a batch, after all earlier batches are decided, and records the batch's share
// of the next superbatch. It returns the bytes read.
func (r *recorder) reach(ctx context.Context, batch int) (read int64, err error) {
	first, end := r.of(batch)
	if batch == first {
		if !r.single() {
			r.now, r.next = r.next, r.now
			clearTrace(&r.next)
		}
		if err := r.policy.Begin(r.now); err != nil {
			return 0, err
		}
	}
	if r.single() {
		return 0, nil
	}
	from, to := r.of(end % r.train)
	share := min(batch-first+1, to-from)
	if batch == end-1 {
		share = to - from
	}
	for b := from + r.next.Batches(); b < from+share; b++ {
		n, err := r.record(ctx, b)
		if err != nil {
			return 0, err
		}
		read += n
	}
	return read, nil
}

// record adds a batch to the trace of the next superbatch. The batch is the first of the window, or the one
// after it. record returns the bytes read.
func (r *recorder) record(ctx context.Context, batch int) (read int64, err error) {
	if r.window.First() != batch {
		if read, err = r.window.Advance(ctx); err != nil {
			return 0, err
		}
		if read > 0 {
			r.reads++
		}
	}
	t := &r.next
	t.Nodes = append(t.Nodes, r.window.Inputs(0)...)
	slices.Sort(t.Nodes[t.Start[t.Batches()]:])
	t.Start = append(t.Start, int64(len(t.Nodes)))
	return read, nil
}

func clearTrace(t *residency.Trace) { t.Start, t.Nodes = t.Start[:1], t.Nodes[:0] }

func (r *recorder) free() { r.window.Free() }
