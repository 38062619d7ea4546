package cuda

import (
	"maps"
	"math/rand/v2"
	"unsafe"
)

// Late has the behaviour of a late device; see OpenLate.
type Late struct {
	// Seed determines the streams that are ahead, and when. The seeds 0 to 7 cover all combinations for
	// three streams, by the order in which they were made.
	Seed uint64
	// Fails returns the faults of calls, as in OpenFaulty; nil: no call fails.
	Fails func(call string) *Fault
	// Wrong is called for errors that a real device need not detect: work on memory that was freed.
	Wrong func(what string)
}

// OpenLate is OpenEmulated for a device with lazy streams: a stream does its work when the host waits for
// it, or for a stream that waits for it. Some streams are ahead: they do their work as soon as no event
// prevents it. So work that reads memory without waiting for its writer reads old values, and work that
// writes memory too early destroys the input of a late reader. During a copy its destination holds NaN.
//
// As long as one goroutine at a time works with the device, the same seed gives the same
// order.
func OpenLate(run Emulation, o Options, l Late) (*Device, error) {
	e := newLate(newEmulated(run), l)
	if l.Fails == nil {
		return open(e, 0, o)
	}
	return open(&faulty{e, l.Fails}, 0, o)
}

// late is the driver of a late device.
type late struct {
	*emulated
	seed    uint64
	rng     *rand.Rand
	queues  map[handle]*queue
	ordered []*queue // as they were made
	marks   map[handle]*mark
}

// queue is the pending work of a stream.
type queue struct {
	handle handle
	tasks  []task
	ahead  bool
}

// mark is an event as it was recorded.
type mark struct {
	in     *queue
	passed bool
}

func newLate(e *emulated, l Late) *late {
	d := &late{emulated: e, seed: l.Seed, rng: rand.New(rand.NewPCG(l.Seed, 0)), queues: make(map[handle]*queue), marks: make(map[handle]*mark)}
	e.wrong = l.Wrong
	e.give = func(s handle, t task) {
		q := d.queues[s]
		q.tasks = append(q.tasks, t)
		d.drift()
	}
	return d
}

// drift runs the streams that are ahead until they have to wait.
func (d *late) drift() {
	for _, i := range d.rng.Perm(len(d.ordered)) {
		for q := d.ordered[i]; q.ahead && d.rng.IntN(3) > 0 && d.step(q); {
		}
	}
}

// step does the next task of a stream, and reports whether there was one that did not have
// to wait.
func (d *late) step(q *queue) bool {
	if len(q.tasks) == 0 || q.blocked() != nil {
		return false
	}
	t := q.tasks[0]
	q.tasks = q.tasks[1:]
	switch {
	case t.passes != nil:
		t.passes.passed = true
	case t.do != nil:
		t.do()
	}
	return true
}

// blocked returns the mark that the stream's next task waits for, nil if there is none.
func (q *queue) blocked() *mark {
	if m := q.tasks[0].waits; m != nil && !m.passed {
		return m
	}
	return nil
}

// until does work of a stream, and of the streams that it waits for, until so returns true.
func (d *late) until(q *queue, so func() bool) {
	for !so() {
		next := q
		for m := next.blocked(); m != nil; m = next.blocked() {
			next = m.in // it was recorded there, so that something is left to do there
		}
		d.step(next)
		d.drift()
	}
}

func (d *late) newStream() (handle, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := &queue{handle: d.handle(), ahead: d.seed>>(len(d.ordered)%3)&1 > 0}
	d.queues[q.handle], d.live[q.handle] = q, "stream"
	d.ordered = append(d.ordered, q)
	return q.handle, nil
}

func (d *late) syncStream(s handle) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.streams[s] != 0 {
		return &status{call: "wait", why: "the stream is being captured"}
	}
	q := d.queues[s]
	d.until(q, func() bool { return len(q.tasks) == 0 })
	d.forget()
	return nil
}

func (d *late) record(event, s handle) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := &mark{in: d.queues[s]}
	d.marks[event], d.recorded[event] = m, true
	d.give(s, task{passes: m})
	return nil
}

// waitFor waits for the event's last recording before the call. It does not wait for an event that was not
// recorded.
func (d *late) waitFor(s, event handle) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if m := d.marks[event]; m != nil {
		d.give(s, task{waits: m})
	}
	return nil
}

func (d *late) done(event handle) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.marks[event]
	if m != nil && !m.passed && d.rng.IntN(2) == 0 { // it comes to its end
		d.until(m.in, func() bool { return m.passed })
	}
	return m == nil || m.passed, nil
}

func (d *late) syncEvent(event handle) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if m := d.marks[event]; m != nil {
		d.until(m.in, func() bool { return m.passed })
	}
	return nil
}

func (d *late) dropEvent(event handle) error {
	d.mu.Lock()
	delete(d.marks, event)
	d.mu.Unlock()
	return d.emulated.dropEvent(event)
}

func (d *late) milliseconds(from, to handle) (float64, error) {
	d.mu.Lock()
	for _, event := range []handle{from, to} {
		if m := d.marks[event]; m != nil && !m.passed {
			d.mu.Unlock()
			return 0, &status{call: "elapsed", why: "an event is not done"}
		}
	}
	d.mu.Unlock()
	return d.emulated.milliseconds(from, to)
}

// free overwrites the memory and marks it as freed. Pending work on it is an error.
func (d *late) free(address uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.blocks[address]
	fill(b.bytes, poison)
	b.freed = true
	d.blocks[address] = b
	d.forget()
	return nil
}

// forget forgets memory that was freed, once there is no work left that could touch it.
func (d *late) forget() {
	for _, q := range d.ordered {
		if len(q.tasks) > 0 {
			return
		}
	}
	maps.DeleteFunc(d.blocks, func(_ uint64, b block) bool { return b.gone() })
}

// freePinned likewise.
func (d *late) freePinned(p unsafe.Pointer) error {
	d.mu.Lock()
	fill(d.pinned[p].bytes, poison)
	d.mu.Unlock()
	return d.emulated.freePinned(p)
}

func (d *late) dropExec(exec handle) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.ordered {
		for _, t := range q.tasks {
			if t.exec == exec {
				d.wrong("a graph was freed that is under way")
				return nil
			}
		}
	}
	d.emulated.drop(exec, "graph")
	delete(d.graphs, exec)
	return nil
}

// lose discards all pending work.
func (d *late) lose() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.ordered {
		for _, t := range q.tasks {
			if t.passes != nil {
				t.passes.passed = true
			}
		}
		q.tasks = nil
	}
}

// release does the pending work.
func (d *late) release(i int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.ordered {
		d.until(q, func() bool { return len(q.tasks) == 0 })
	}
	d.forget()
	return nil
}
