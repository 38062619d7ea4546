// Package pipeline runs a sequence of items through a chain of links that overlap: while one item
// is in the last link, later ones are in the links before it. The links' work is opaque to it.
//
// The buffers of an item are a slot. Slots form a ring: item i travels in slot i mod n, ownership
// of the slot passes from link to link with it, and item i+n may begin when item i has left the
// last link. So n bounds the items in flight, and only one item touches a slot.
//
//	          ┌───────────┐    ┌───────────────┐    ┌──────────┐    ┌─────────┐
//	slots ──► │load graph │ ─► │ read features │ ─► │ assemble │ ─► │ compute │ ─┐
//	  ▲       └───────────┘    └───────────────┘    └──────────┘    └─────────┘  │
//	  └──────────────────────────────────────────────────────────────────────────┘
//
// A link may have several workers. Its items begin in order and may end in any; the next link
// begins them in order again. The last link runs on the goroutine that calls Run, one item at a
// time: it can use the consumer's state without locks.
//
// A pipeline exists until all its items are done. Run takes some of them through all links. Between two
// calls of Run, goroutines and slots stay. Only items that Expect has named are in work then: they wait
// before the last link for the next Run. An item's times are counted when it leaves the last link.
//
// Times are kept for every item and link: see Table and Recorder. Neither passing
// an item on nor recording it allocates memory. Where the items are at a moment, Standing says.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
)

// Link is one step of the chain.
type Link[S any] struct {
	// Name is the link's name in tables, traces and errors.
	Name string
	// Workers is the number of goroutines of the link, so of items in it at the same time; 0 means 1. The
	// last link has one.
	Workers int
	// Do works on the item in slot. It owns the slot until it returns, and must
	// return soon once ctx ends. A panic is reported as an error.
	Do func(ctx context.Context, slot S, item int) error
}

// Config describes a pipeline.
type Config[S any] struct {
	// Links are the steps in order, at least one.
	Links []Link[S]
	// Slots are the buffers, at least one. With more workers than slots, some workers stay idle.
	Slots []S
	// Items is the number of items: they are 0 … Items-1.
	Items int
	// Label returns the name of an item for errors and Standing. If it is nil, item 7 is "item 7". It is
	// called from any goroutine.
	Label func(item int) string
	// Abort, if any, is called by Close for every slot with an item that may have begun and has not
	// left the last link. It ends work under way in the slot, such as reads into its buffers, and
	// returns when none is left.
	Abort func(slot S)
	// Free, if any, is called by Close for every slot, after Abort.
	Free func(slot S)
	// Turn, if above 0, is the index of a link with one worker. The failure of an item in a link before it stops the
	// pipeline in the item's turn there: that link works on all items before it, and on no item after it. Links do
	// nothing for items after a failed one. Any other failure stops all links at once.
	Turn int
	// Recorder, if any, records every item's times. The names of its lanes begin with Name.
	Recorder *Recorder
	Name     string
}

// Validate returns an error unless there are links and slots, every link has a Do, the last link and the link of Turn
// have one worker, and no count is negative.
func (c *Config[S]) Validate() error {
	if len(c.Links) == 0 || len(c.Slots) == 0 || c.Items < 0 {
		return fmt.Errorf("pipeline: %d links, %d slots and %d items are not a pipeline", len(c.Links), len(c.Slots), c.Items)
	}
	if c.Turn < 0 || c.Turn >= len(c.Links) {
		return fmt.Errorf("pipeline: the turn in link %d of %d", c.Turn, len(c.Links))
	}
	for i, s := range c.Links {
		if s.Do == nil || s.Workers < 0 || (i == len(c.Links)-1 || i > 0 && i == c.Turn) && s.Workers > 1 {
			return fmt.Errorf("pipeline: link %q has no function, or %d workers", s.Name, s.Workers)
		}
	}
	return nil
}

// Pipeline is a running chain. Run, Expect, Table and Close belong to one goroutine.
type Pipeline[S any] struct {
	config Config[S]
	group  *errgroup.Group
	ctx    context.Context // ends with the first error, with the parent, or by Close
	cancel context.CancelFunc
	err    error // why Run failed
	closed bool

	queues   []queue
	last     worker // of the last link
	admitted int    // items that calls of Run have admitted: only they leave the last link
	open     int    // items that may begin: those, and expected ones
	begun    int    // items that have a slot, or had one
	board    board  // of the items' places
	busy     []bool // by slot: an item is in it, or may enter it

	failed atomic.Int64 // the first item that has failed before its turn, else Items
	errs   []error      // by slot: the failure of its item, owned with it

	since time.Time     // origin of all times
	began atomic.Int64  // when the present Run did, in ns
	spans [][]span      // by slot and link: the times of the slot's item, owned with it
	taken Table         // of the items that left since the last call of Table
	lanes [][]Lane      // by link and worker, in the recorder
	shift time.Duration // from the recorder's clock to ours
}

// queue joins a link to the one before it. ready[k], of capacity 1, holds a token while slot k
// waits for the link. turn, of capacity 1 too, holds the number of the item that the link begins
// next, unless a worker is waiting for that very item: so the link's items begin in order, in
// whatever order they arrive.
type queue struct {
	ready []chan struct{}
	turn  chan int
}

// worker is one goroutine's place in a link.
type worker struct {
	link, index int
	idle        time.Duration // when it last became idle
}

// span is an item's time in a link.
type span struct {
	worker            int
	idle, begin, done time.Duration // waiting from idle to begin, at work from begin to done
}

// Start starts a pipeline and its goroutines. The pipeline owns the slots until Close; after an error of
// Start they still belong to the caller. The end of ctx stops it.
func Start[S any](ctx context.Context, c Config[S]) (*Pipeline[S], error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	p := &Pipeline[S]{config: c, queues: make([]queue, len(c.Links)), since: time.Now()}
	for s := range p.queues {
		p.queues[s].turn = make(chan int, 1)
		p.queues[s].turn <- 0
		p.queues[s].ready = make([]chan struct{}, len(c.Slots))
		for k := range p.queues[s].ready {
			p.queues[s].ready[k] = make(chan struct{}, 1)
		}
	}
	p.busy, p.errs = make([]bool, len(c.Slots)), make([]error, len(c.Slots))
	p.failed.Store(int64(c.Items))
	for range c.Slots {
		p.spans = append(p.spans, make([]span, len(c.Links)))
	}
	p.taken = p.emptyTable()
	p.board.links = make([]linkBoard, len(c.Links))
	for i, l := range p.taken.Links {
		p.board.links[i].posts = make([]post, l.Workers)
	}
	p.addLanes()
	ctx, p.cancel = context.WithCancel(ctx)
	p.group, p.ctx = errgroup.WithContext(ctx)
	last := len(c.Links) - 1
	p.last.link = last
	for s := range c.Links[:last] {
		for w := range max(1, c.Links[s].Workers) {
			p.group.Go(func() error { return p.work(&worker{link: s, index: w}) })
		}
	}
	return p, nil
}

func (p *Pipeline[S]) now() time.Duration { return time.Since(p.since) }

// work takes the items of a link until there are no more.
func (p *Pipeline[S]) work(w *worker) error {
	for {
		item, err := p.take(w.link)
		if err != nil || item == p.config.Items {
			return err
		}
		if err := p.step(w, item); err != nil {
			return err
		}
		p.pass(w.link+1, item)
	}
}

// take waits for the link's next item to arrive. After the last one it returns the
// number of items.
func (p *Pipeline[S]) take(link int) (item int, err error) {
	q := &p.queues[link]
	select {
	case item = <-q.turn:
	case <-p.ctx.Done():
		return 0, context.Cause(p.ctx)
	}
	if item == p.config.Items {
		q.turn <- item // for the link's other workers
		return item, nil
	}
	select {
	case <-q.ready[item%len(p.config.Slots)]:
		p.board.links[link].begun.Store(int64(item) + 1)
		q.turn <- item + 1
		return item, nil
	case <-p.ctx.Done():
		return 0, context.Cause(p.ctx) // as all the others will: the turn is needed no more
	}
}

// pass makes an item's slot wait for a link. There is room: the slot has no other token.
func (p *Pipeline[S]) pass(link, item int) {
	p.queues[link].ready[item%len(p.config.Slots)] <- struct{}{}
}

// step does w's link's work on an item that has arrived.
func (p *Pipeline[S]) step(w *worker, item int) error {
	slot := item % len(p.config.Slots)
	begin := p.now()
	p.board.enter(w, item, begin)
	var err error
	if int64(item) < p.failed.Load() {
		err = p.do(w.link, slot, item)
	}
	done := p.now()
	p.board.leave(w, done)
	p.spans[slot][w.link] = span{worker: w.index, idle: min(max(w.idle, time.Duration(p.began.Load())), begin), begin: begin, done: done}
	w.idle = done
	if err != nil {
		if p.ctx.Err() != nil {
			return context.Cause(p.ctx) // the link failed because the pipeline stopped, not the reverse
		}
		p.errs[slot] = &Error{Link: p.config.Links[w.link].Name, Item: item, label: p.config.Label, Err: err}
	}
	if w.link < p.config.Turn {
		if err != nil {
			p.fail(int64(item))
		}
		return nil
	}
	return p.errs[slot]
}

// fail lowers failed to an item.
func (p *Pipeline[S]) fail(item int64) {
	for first := p.failed.Load(); item < first && !p.failed.CompareAndSwap(first, item); first = p.failed.Load() {
	}
}

// do calls the link's function and turns a panic into an error.
func (p *Pipeline[S]) do(link, slot, item int) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fault.Recovered(v)
		}
	}()
	if p.ctx.Err() != nil {
		return p.ctx.Err()
	}
	return p.config.Links[link].Do(p.ctx, p.config.Slots[slot], item)
}

// Run takes the next n items through all links, the last one on the calling goroutine, and returns when
// they are done. When a link fails on an item, or the context ends, all links stop, and Run returns the
// first error: an *Error for a link, or the context's cause unchanged. Every later call returns the same
// error.
func (p *Pipeline[S]) Run(n int) error {
	if p.closed {
		return errors.New("pipeline: run after close")
	}
	if p.err != nil {
		return p.err
	}
	if n < 0 || n > p.config.Items-p.admitted {
		return fmt.Errorf("pipeline: cannot run %d more items: %d are left", n, p.config.Items-p.admitted)
	}
	began := p.now()
	p.began.Store(int64(began))
	defer func() { p.taken.Seconds += (p.now() - began).Seconds() }()
	p.admitted += n
	p.board.asked.Store(int64(p.admitted))
	p.open = max(p.open, p.admitted)
	p.admit()
	for range n {
		item, err := p.take(p.last.link)
		if err == nil {
			err = p.step(&p.last, item)
		}
		if err != nil {
			// As a function of the group, so that err is the group's error if it is the first.
			p.group.Go(func() error { return err })
			p.err = p.group.Wait()
			return p.err
		}
		p.finish(item)
		p.board.left.Add(1)
		p.busy[item%len(p.config.Slots)] = false
		p.admit()
	}
	return nil
}

// Expect lets the next n items, or all that are left, begin as far as slots are free, before the call of Run
// that takes them through the last link. If a link fails on one of them, that Run returns the error.
func (p *Pipeline[S]) Expect(n int) {
	if p.closed || p.err != nil {
		return
	}
	p.open = max(p.open, min(p.config.Items, p.admitted+n))
	p.admit()
}

// admit lets items that may begin enter the idle slots.
func (p *Pipeline[S]) admit() {
	for ; p.begun < min(p.open, int(p.board.left.Load())+len(p.config.Slots)); p.begun++ {
		p.busy[p.begun%len(p.config.Slots)] = true
		p.pass(0, p.begun)
	}
}

// Close stops all links, waits for their goroutines, and calls Abort and Free for the slots. Closing again
// does nothing.
func (p *Pipeline[S]) Close() {
	if p.closed {
		return
	}
	p.closed = true
	p.cancel()
	_ = p.group.Wait() // Run has returned the error; without Run nothing needs it
	for k, slot := range p.config.Slots {
		if p.config.Abort != nil && p.busy[k] {
			p.config.Abort(slot)
		}
		if p.config.Free != nil {
			p.config.Free(slot)
		}
	}
}

// Error is the failure of a link on an item.
type Error struct {
	Link string
	Item int
	Err  error

	label func(item int) string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s: %v", labelOf(e.label, e.Item), e.Link, e.Err)
}

// labelOf names an item by a function, which may be nil.
func labelOf(label func(item int) string, item int) string {
	if label == nil {
		return fmt.Sprintf("item %d", item)
	}
	return label(item)
}

func (e *Error) Unwrap() error { return e.Err }
