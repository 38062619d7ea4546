package rowcache

import (
	"context"
	"slices"
	"sync"

	"diskgnn/featurestore"
	"diskgnn/featurestore/residency"
)

// course makes the decisions of the policy for training batches. It makes them in the order of the samples,
// which is cyclic through all sample epochs; a batch that comes early waits. Decisions are ahead of a run's
// position, so a checkpoint holds an earlier state of the policy: see residency.States.
type course struct {
	// records records the accesses of superbatches for the policy; nil: the policy decides without them, and
	// its states are kept for checkpoints.
	records *recorder

	mu      sync.Mutex
	policy  residency.Policy
	next    int // the next batch to decide for
	waiting []*turn
	states  residency.States
}

func newStates(train int) residency.States { return residency.States{Circle: train, Kind: kindBytes} }

// take returns the present state of the policy.
func (c *course) take() []byte { return append(c.states.New(0), c.policy.State()...) }

// turn is a slot's place among the slots that wait for their batch to be the next. It implements
// machine.Decider.
type turn struct {
	*course
	batch int
	ready chan struct{} // has a token when the slot's batch is the next
	reads int64         // of the window, for the batch's share of the next superbatch
}

func newTurn(c *course) *turn { return &turn{course: c, ready: make(chan struct{}, 1)} }

// Decide implements machine.Decider for training batches. The counts are the window's.
func (t *turn) Decide(ctx context.Context, r featurestore.Ref, nodes []uint32, held, into []int32) (featurestore.Counts, error) {
	read, err := t.decide(ctx, t, r.Index, nodes, held, into)
	if err != nil || read == 0 {
		return featurestore.Counts{}, err
	}
	return featurestore.Counts{BytesRead: read, GraphRead: read, Requests: t.reads}, nil
}

// decide waits until all earlier batches are decided, and then decides for the given batch: see
// residency.Policy. It returns the bytes that the window read. After an error there is no decision for the
// batch.
func (c *course) decide(ctx context.Context, t *turn, batch int, nodes []uint32, held, into []int32) (read int64, err error) {
	if err := c.await(ctx, t, batch); err != nil {
		return 0, err
	}
	t.reads = 0
	if c.records != nil { // this goroutine owns records until c.next changes
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
	c.next = (c.next + 1) % c.states.Circle
	c.states.Step()
}

// await returns once the batch is the next one.
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

// add adds slots for training batches.
func (c *course) add(slots int) {
	c.mu.Lock()
	c.states.AddSlots(slots)
	c.mu.Unlock()
}

// begin makes the present state of the policy the base, before batch next, with since batches decided after
// the base.
func (c *course) begin(next, since int) {
	c.next, c.waiting = next, c.waiting[:0]
	if c.records == nil {
		c.states.Begin(c.take(), next, since)
	}
}

// A state begins with its kind: the number of frames and the name of the policy, 8 bytes
// each.
const (
	kindBytes = 16
	headBytes = kindBytes + residency.StateHeadBytes
)

// stateBytes bounds the size of a state, in bytes, for all policies: for each frame a node, a place in a
// queue, a mark, and a node and a mark of the ghost queue.
func stateBytes(frames int64) int64 { return headBytes + 64 + 14*frames }

// save returns the base state, valid until the next call.
func (c *course) save(kind [kindBytes]byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.states.Save(kind[:], c.next, c.take)
}

// load makes a result of save, without its kind, the base. Impossible numbers are an error of kind
// fault.ErrCorrupt.
func (c *course) load(b []byte) error {
	state, next, since, err := c.states.Parse(b)
	if err != nil {
		return err
	}
	if err := c.policy.LoadState(state); err != nil {
		return err
	}
	c.begin(next, since)
	return nil
}
