package online

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"

	"diskgnn/featurestore/residency"
	"diskgnn/internal/binio"
)

// course has the policy decide for the training batches in their order, which is cyclic
// through all sample epochs, whichever of them come first.
//
// A run's position is that of the batch trained last, and decisions are ahead of it by as
// many batches as there are slots. So a checkpoint holds an earlier state of the policy, the
// base, and the policy decides for the batches from there to the position once more when a
// run goes on. Two states are kept: the base, and a later one which takes its place at the
// first checkpoint when the position must be beyond it.
type course struct {
	train int // batches of the circle

	// records has the accesses of superbatches recorded for the policy; nil: the policy needs
	// no such thing, and states of it are kept.
	records *recorder

	mu      sync.Mutex
	policy  residency.Policy
	next    int // the batch to decide for
	slots   int // that were made for training batches: no more are under way
	waiting []*turn
	base    snapshot
	later   snapshot
}

// snapshot is a state of the policy, and where the course was.
type snapshot struct {
	bytes []byte // headBytes, which save fills, and then the policy's state
	next  int    // the batch to decide for
	since int    // how many were decided since
}

// take returns a state of the policy as it is.
func (c *course) take() snapshot {
	return snapshot{bytes: append(make([]byte, headBytes), c.policy.State()...), next: c.next}
}

// snapshots is how many states of the policy are held at most: the base, a later one, and
// what it is made of.
const snapshots = 3

// turn is a slot's place among those that wait for their batch to be the next.
type turn struct {
	batch int
	ready chan struct{} // holds a token once it is
	reads int64         // for batches to come, which the turn was taken for
}

func newTurn() *turn { return &turn{ready: make(chan struct{}, 1)} }

// decide waits until all batches before the given one are decided, and then has the policy
// decide for it: see residency.Policy. It returns the bytes read of batches to come. After an
// error the batch is not decided.
func (c *course) decide(ctx context.Context, t *turn, batch int, nodes []uint32, held, into []int32) (read int64, err error) {
	if err := c.await(ctx, t, batch); err != nil {
		return 0, err
	}
	t.reads = 0
	if c.records != nil { // it is the batch's until c.next is another
		before := c.records.reads
		if read, err = c.records.reach(ctx, batch); err != nil {
			return 0, err
		}
		t.reads = c.records.reads - before
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.step(nodes, held, into)
	for i, w := range c.waiting {
		if w.batch == c.next {
			c.waiting = slices.Delete(c.waiting, i, i+1)
			w.ready <- struct{}{}
			break
		}
	}
	return read, nil
}

// step decides for the next batch.
func (c *course) step(nodes []uint32, held, into []int32) {
	c.policy.Batch(nodes, held, into)
	c.next = (c.next + 1) % c.train
	c.base.since++
	c.later.since++
}

// await returns once the batch is the next, of which nobody else has it.
func (c *course) await(ctx context.Context, t *turn, batch int) error {
	c.mu.Lock()
	if c.next == batch {
		c.mu.Unlock()
		return nil
	}
	t.batch = batch
	c.waiting = append(c.waiting, t)
	c.mu.Unlock()
	select {
	case <-t.ready:
		return nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.waiting, t); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	} else {
		<-t.ready
	}
	return ctx.Err()
}

// add says that so many more slots were made for training batches.
func (c *course) add(slots int) {
	c.mu.Lock()
	c.slots += slots
	c.mu.Unlock()
}

// begin makes the course go on from what the policy holds, before the given batch.
func (c *course) begin(next int) {
	c.next, c.waiting = next, c.waiting[:0]
	if c.records != nil {
		return
	}
	c.base = c.take()
	c.later = c.base
}

// A state begins with its kind: the number of frames and the name of the policy, 8 bytes
// each. The batch after the base follows, and how many batches were decided since.
const (
	kindBytes = 16
	headBytes = kindBytes + 16
)

// stateBytes bounds a state with so many frames. No policy's has more: a node for each
// frame, its place in a queue, a mark, and a node and a mark of the queue of ghosts.
func stateBytes(frames int64) int64 { return headBytes + 64 + 14*frames }

// save returns the base, which is valid until the next call.
func (c *course) save(kind [kindBytes]byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.later.since >= c.slots {
		c.base = snapshot{} // for the memory
		c.base, c.later = c.later, c.take()
	}
	b := c.base.bytes
	copy(b, kind[:])
	binary.LittleEndian.PutUint64(b[kindBytes:], uint64(c.base.next))
	binary.LittleEndian.PutUint64(b[kindBytes+8:], uint64(c.base.since))
	return b
}

// maxSince bounds the batches since a base, far above any run's.
const maxSince = 1 << 40

// load makes the policy what save has written, without its kind. What cannot be is an error
// of kind fault.ErrCorrupt.
func (c *course) load(b []byte) error {
	d := binio.NewDecoder(b)
	next, since := d.U64(), d.U64()
	if d.Err() == nil && (next >= uint64(c.train) || since > maxSince) {
		d.Fail("batch %d of %d, %d batches ago", next, c.train, since)
	}
	state := d.Raw(d.Rest())
	if err := d.Err(); err != nil {
		return err
	}
	if err := c.policy.LoadState(state); err != nil {
		return err
	}
	c.begin(int(next))
	c.base.since, c.later.since = int(since), int(since)
	return nil
}

// nowhere is the batch of a base that was not a run's.
const nowhere = -1

// behind returns how many batches the policy has to decide for once more, to stand before
// the given one: the most that were decided for since the base. It is -1 if the base is not
// that of a run at this batch. A circle that is shorter than the number of slots may have
// passed the batch once more than the run had.
func (c *course) behind(next int) int {
	if c.base.next == nowhere {
		return -1
	}
	n := (next - c.base.next + c.train) % c.train
	if n > c.base.since {
		return -1
	}
	return n + (c.base.since-n)/c.train*c.train
}
