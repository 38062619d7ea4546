package gids

import (
	"context"
	"sync"

	"diskgnn/featurestore"
	"diskgnn/featurestore/residency"
	"diskgnn/internal/binio"
)

// course makes the decisions of the cache for training batches. It makes them in the order of the samples,
// which is cyclic through all sample epochs; a batch that comes early waits. It also bounds the batches in
// flight. Decisions are ahead of a run's position, so a checkpoint holds an earlier state: see
// residency.States.
type course struct {
	rowBytes int
	buffer   *buffer
	cache    *cache
	gathers  gathers
	window   featurestore.Window // nil: the cache has no lines

	mu        sync.Mutex
	changed   sync.Cond // signals changes of the fields below
	next      int       // the next batch to decide for
	deciding  bool      // a decision for next is being made
	decided   int64     // batches decided since begin
	assembled int64     // batches assembled since begin
	broken    error     // an error of the window, which is empty since
	states    residency.States
}

func newStates(train int) residency.States { return residency.States{Circle: train, Kind: kindBytes} }

// take returns the present state.
func (c *course) take() []byte {
	return c.cache.save(c.gathers.save(c.states.New(gathersBytes + 8 + 5*len(c.cache.pageOf))))
}

// decide waits until all earlier batches are decided, and enough of them assembled that the given batch may
// be in flight. Then it finds the lines of the batch's pages, advances the window, and returns the bytes
// that the window read. After an error there is no decision for the batch.
func (c *course) decide(ctx context.Context, batch int, nodes []uint32, w *wanted) (read int64, err error) {
	if err := c.await(ctx, batch); err != nil {
		return 0, err
	}
	// This goroutine owns the course until deciding is false.
	read, err = c.step(ctx, nodes, w)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deciding, c.broken = false, err
	c.changed.Broadcast()
	return read, err
}

// await returns once the batch is the next one, and may be in flight with the batches before it.
func (c *course) await(ctx context.Context, batch int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	ready := func() bool {
		return c.broken != nil || c.next == batch && !c.deciding && c.decided-c.assembled <= c.gathers.before()
	}
	if !ready() {
		stop := context.AfterFunc(ctx, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.changed.Broadcast()
		})
		defer stop()
		for !ready() {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			c.changed.Wait()
		}
	}
	if c.broken != nil {
		return c.broken
	}
	c.deciding = true
	return nil
}

// step decides for the next batch.
func (c *course) step(ctx context.Context, nodes []uint32, w *wanted) (read int64, err error) {
	before := c.gathers.before()
	w.find(nodes, c.buffer, c.rowBytes)
	if c.window != nil {
		c.look(0, -1)
	}
	c.cache.decide(w.pages, w.held[:len(w.pages)], w.into[:len(w.pages)], before)
	if c.window != nil {
		if read, err = c.window.Advance(ctx); err != nil {
			return 0, err
		}
		c.look(window, 1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gathers.add(int64(len(nodes)), int64(len(nodes)-len(w.rows)))
	c.next = (c.next + 1) % c.states.Circle
	c.decided++
	c.states.Step()
	return read, nil
}

// look adds sign times the accesses of the batch k places after the window's first batch to cache.ahead.
func (c *course) look(k int, sign int32) {
	for _, v := range c.window.Inputs(k) {
		if c.buffer.has(v) {
			continue
		}
		first, last := span(v, c.rowBytes)
		for p := first; p <= last; p++ {
			c.cache.ahead[p] += uint32(sign)
		}
	}
}

// done ends the use of the lines of the oldest batch in flight, when it has been assembled.
func (c *course) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.assembled++
	c.changed.Broadcast()
}

// add adds slots for training batches.
func (c *course) add(slots int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.states.AddSlots(slots)
}

// seek sets the cache to the base state, and moves the window to the batch after it. It returns the bytes
// read.
func (c *course) seek(ctx context.Context) (read int64, err error) {
	c.broken, c.deciding = nil, false
	base, at := c.states.Base()
	if err := c.load(base); err != nil {
		return 0, err
	}
	c.next = at
	if c.window == nil {
		return 0, nil
	}
	if read, err = c.window.Seek(ctx, c.next); err != nil {
		return 0, err
	}
	for k := range window + 1 {
		c.look(k, 1)
	}
	return read, nil
}

// load sets the cache and the gathers from a state.
func (c *course) load(b []byte) error {
	d := binio.NewDecoder(b)
	c.gathers.load(d)
	c.cache.load(d)
	if d.Err() == nil && d.Rest() > 0 {
		d.Fail("%d bytes follow the state", d.Rest())
	}
	return d.Err()
}

// begin makes the present state the base, before batch next, with since batches decided after the base.
// No batch may be in flight.
func (c *course) begin(next, since int) {
	c.next, c.decided, c.assembled = next, 0, 0
	c.states.Begin(c.take(), next, since)
}

// reset empties the cache, and makes it the base before the given batch.
func (c *course) reset(next int) {
	c.cache.clear()
	c.gathers.clear()
	c.begin(next, 0)
}

// A state begins with its kind: the numbers of lines and of rows of the buffer, 8 bytes each,
// and the mode, 8 bytes. The content is the gathers and the cache.
const (
	kindBytes = 24
	headBytes = kindBytes + residency.StateHeadBytes
)

func stateBytes(lines int64) int64 { return headBytes + gathersBytes + 8 + 5*lines }

// save returns the base state, valid until the next call.
func (c *course) save(kind [kindBytes]byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.deciding {
		c.changed.Wait()
	}
	return c.states.Save(kind[:], c.next, c.take)
}

// restore makes a result of save, without its kind, the base. Impossible numbers are an error of kind
// fault.ErrCorrupt.
func (c *course) restore(b []byte) error {
	state, next, since, err := c.states.Parse(b)
	if err != nil {
		return err
	}
	if err := c.load(state); err != nil {
		return err
	}
	c.begin(next, since)
	return nil
}
