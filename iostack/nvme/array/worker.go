package array

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"diskgnn/iostack/internal/frontend"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/spec"
)

// worker carries out reads. All fields but those marked as shared belong to its goroutine.
type worker struct {
	s      *Stack
	id     int
	slots  []slot
	free   []int
	bounce []byte // a buffer of BounceBytes for each slot
	lanes  []lane // of each drive
	again  []int  // slots with a read that goes on
	now    func() time.Time

	asleep atomic.Bool   // shared: it waits, or is about to
	idle   atomic.Bool   // shared: it would take requests
	wake   chan struct{} // shared: capacity 1
	tick   *time.Timer
}

// lane is a worker's state for a drive.
type lane struct {
	d      *drive
	queue  *nvme.Queue
	done   func(tag uint64, c spec.Completion)
	stage  *nvme.Memory // instead of the bounce buffers, where those cannot be mapped
	life   int64        // of the controller that the queue is of
	parked bool         // the queue is not to be touched
	busy   int          // slots under way
}

// slot is a read and the command that carries out its next part.
type slot struct {
	read  frontend.Read
	lane  int // of the command; below 0: none is under way
	use   *mapping
	part  []byte // the part that the command reads
	from  []byte // unless nil, where from that is copied
	there int    // bytes of part that the file has
	began time.Time
	tries int
	late  bool // it was aborted
}

const (
	// maxTries bounds the number of times that a command is submitted: again if its status permits a retry,
	// or after a reset of the controller.
	maxTries = 4
	// spins is the number of polls without a result before a worker sleeps.
	spins = 20
	// checkEvery is the interval at which a sleeping worker polls for completions by itself; polled is the
	// interval for transports that do not announce completions.
	checkEvery = 10 * time.Millisecond
	polled     = 20 * time.Microsecond
)

// errLate is the error of commands that were late and that the controller aborted.
var errLate = fmt.Errorf("%w: a command was not completed in time, and was aborted", nvme.ErrTimeout)

func newWorker(s *Stack, id, window int) (*worker, error) {
	each := s.BounceBytes()
	w := &worker{
		s: s, id: id, slots: make([]slot, window), free: make([]int, 0, window), again: make([]int, 0, window),
		bounce: s.bounce.Bytes()[id*window*each:][:window*each], lanes: make([]lane, len(s.drives)),
		now: s.now, wake: make(chan struct{}, 1), tick: time.NewTimer(time.Hour),
	}
	for i := range w.slots {
		w.slots[i].lane = -1
		w.free = append(w.free, window-1-i)
	}
	for i, d := range s.drives {
		l := &w.lanes[i]
		*l = lane{d: d, queue: d.c.Queues()[id], done: func(tag uint64, c spec.Completion) { w.complete(int(tag), c) }}
		if x, _ := d.maps.find(w.bounce); x != nil {
			d.maps.unuse(x)
		} else {
			var err error
			if l.stage, err = d.c.Transport().Alloc(len(w.bounce)); err != nil {
				return nil, fmt.Errorf("bounce buffers: %w", err)
			}
		}
		if d.notify != nil {
			d.notify.Notify(l.queue.ID(), func() { w.poke() })
		}
	}
	return w, nil
}

// run carries out reads until the queue is closed and all reads are over.
func (w *worker) run() {
	for loops, idle := 0, 0; ; loops++ {
		w.follow()
		w.fill()
		for i := range w.lanes {
			if l := &w.lanes[i]; !l.parked {
				l.queue.Ring()
			}
		}
		if w.poll() || len(w.again) > 0 {
			idle = 0
			if loops%4096 == 0 {
				w.abortLate()
			}
			continue
		}
		if w.underWay() == 0 && w.s.queue.Closed() {
			for i := range w.lanes {
				l := &w.lanes[i]
				l.d.leave(l.parked, l.life)
			}
			return
		}
		if idle++; idle < spins {
			runtime.Gosched()
			continue
		}
		idle = 0
		w.sleep()
	}
}

func (w *worker) underWay() int { return len(w.slots) - len(w.free) }

// poke wakes the worker if it sleeps. It may be called from any goroutine.
func (w *worker) poke() bool {
	if !w.asleep.CompareAndSwap(true, false) {
		return false
	}
	w.kick()
	return true
}

// kick ends the present or the next sleep of the worker.
func (w *worker) kick() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// sleep waits for requests, for completions, or for the time of the next check of commands.
func (w *worker) sleep() {
	w.asleep.Store(true)
	w.idle.Store(len(w.free) > 0)
	// A goroutine that queues a request, posts a completion, or takes a drive down after this checks
	// asleep; earlier events are found below.
	if len(w.free) == 0 || w.s.queue.Len() == 0 {
		if !w.poll() && !w.changed() {
			w.wait()
		}
	}
	w.asleep.Store(false)
	w.idle.Store(false)
}

func (w *worker) wait() {
	if w.underWay() == 0 {
		<-w.wake
		return
	}
	d := checkEvery
	for i := range w.lanes {
		if l := &w.lanes[i]; l.busy > 0 && l.d.notify == nil {
			d = polled
		}
	}
	w.tick.Reset(d)
	select {
	case <-w.wake:
	case <-w.tick.C:
		w.abortLate()
	}
}

// changed reports whether a drive has changed its state since follow.
func (w *worker) changed() bool {
	for i := range w.lanes {
		if l := &w.lanes[i]; l.life != l.d.life.Load() || !l.parked && l.d.down.Load() {
			return true
		}
	}
	return false
}

// follow parks at drives that are down, and resumes drives that are up again.
func (w *worker) follow() {
	for i := range w.lanes {
		l := &w.lanes[i]
		if life := l.d.life.Load(); l.life != life {
			l.life, l.parked = life, false
			w.resume(i)
		}
		if !l.parked && l.d.down.Load() {
			l.parked = true
			l.d.park()
		}
	}
}

// resume continues with a drive that was reset: it submits the commands under way again, except late ones.
func (w *worker) resume(lane int) {
	l := &w.lanes[lane]
	if l.d.lost == nil {
		l.queue = l.d.c.Queues()[w.id]
	}
	now := w.now()
	for i := range w.slots {
		s := &w.slots[i]
		if s.lane != lane {
			continue
		}
		w.release(i)
		switch {
		case l.d.lost != nil:
			w.end(i, l.d.lost)
		case s.tries >= maxTries, now.Sub(s.began) >= l.d.c.Timeout():
			w.end(i, l.d.cause)
		default:
			w.again = append(w.again, i)
		}
	}
}

// fill continues the reads, and takes more from the queue while there is room.
func (w *worker) fill() {
	for len(w.again) > 0 {
		i := w.again[len(w.again)-1]
		w.again = w.again[:len(w.again)-1]
		w.submit(i)
	}
	each := w.s.BounceBytes()
	for len(w.free) > 0 {
		i := w.free[len(w.free)-1]
		if !w.s.queue.TryTake(&w.slots[i].read, w.bounce[i*each:][:each]) {
			return
		}
		w.free = w.free[:len(w.free)-1]
		w.slots[i].tries = 0
		w.submit(i)
	}
	if w.s.queue.Len() > 0 {
		w.s.wakeOne() // there is more than this worker takes
	}
}

// submit writes the command for the rest of a slot's read, up to the largest transfer.
func (w *worker) submit(i int) {
	s := &w.slots[i]
	_, buf, offset := s.read.Rest()
	f := s.read.File().Media.(File)
	if offset >= f.Size() {
		_, err := s.read.Advance(0)
		w.end(i, err)
		return
	}
	drive, at, n := f.Locate(offset)
	l := &w.lanes[drive]
	s.lane, s.began = drive, w.now()
	l.busy++
	if l.parked {
		return // resume submits it
	}
	if l.d.lost != nil {
		w.release(i)
		w.end(i, l.d.lost)
		return
	}
	s.tries++
	s.late = false
	s.part = buf[:min(int64(len(buf)), n, int64(l.d.transfer))]
	memory, from := w.target(i, l)
	s.there = int(min(int64(len(s.part)), f.Size()-offset))
	cmd := l.d.space.Transfer(spec.Read, uint64(at)/uint64(l.d.space.BlockBytes), len(s.part)/l.d.space.BlockBytes)
	err := l.queue.Submit(&cmd, memory, from, len(s.part), uint64(i))
	switch {
	case err == nil:
	case errors.Is(err, nvme.ErrTimeout), errors.Is(err, nvme.ErrFatal):
		l.d.fail(err)
	default:
		w.release(i)
		w.end(i, fmt.Errorf("%s: %w", l.d.name, err))
	}
}

// target returns the memory for a slot's command, and the offset in it: the read's memory if it is mapped,
// else the slot's bounce buffer.
func (w *worker) target(i int, l *lane) (memory *nvme.Memory, at int) {
	s := &w.slots[i]
	s.from = nil
	if s.use, at = l.d.maps.find(s.part); s.use != nil {
		return s.use.memory, at
	}
	each := w.s.BounceBytes()
	s.part = s.part[:min(len(s.part), each)]
	if l.stage != nil {
		s.from = l.stage.Bytes[i*each:][:len(s.part)]
		return l.stage, i * each
	}
	s.from = w.bounce[i*each:][:len(s.part)]
	if s.use, at = l.d.maps.find(s.from); s.use == nil {
		panic("nvme: bounce buffers are not mapped any more")
	}
	return s.use.memory, at
}

// release records that no command of a slot is under way.
func (w *worker) release(i int) {
	s := &w.slots[i]
	l := &w.lanes[s.lane]
	l.busy--
	if s.use != nil {
		l.d.maps.unuse(s.use)
		s.use = nil
	}
	s.lane = -1
}

func (w *worker) end(i int, err error) {
	w.slots[i].read.End(err)
	w.slots[i].part, w.slots[i].from = nil, nil
	w.free = append(w.free, i)
}

// poll handles the drives' completions, and reports whether there were any.
func (w *worker) poll() (some bool) {
	for i := range w.lanes {
		l := &w.lanes[i]
		if l.busy == 0 || l.parked {
			continue
		}
		n, err := l.queue.Poll(l.done)
		if err != nil {
			l.d.fail(err)
		}
		some = some || n > 0 || err != nil
	}
	return some
}

// complete handles a command's completion.
func (w *worker) complete(i int, c spec.Completion) {
	s := &w.slots[i]
	name := w.lanes[s.lane].d.name
	w.release(i)
	switch {
	case !c.Status.Failed():
		if s.from != nil {
			copy(s.part, s.from)
		}
		done, err := s.read.Advance(s.there)
		if done || err != nil {
			w.end(i, err)
			return
		}
		s.tries = 0
	case s.late && errors.Is(c.Status, spec.AbortRequested):
		w.end(i, fmt.Errorf("%s: %w: %w", name, errLate, c.Status))
		return
	case !c.Status.Retry() || s.tries >= maxTries:
		w.end(i, fmt.Errorf("%s: %w", name, c.Status))
		return
	}
	w.again = append(w.again, i)
}

// abortLate asks controllers to abort commands that have used half of their time.
func (w *worker) abortLate() {
	for i := range w.lanes {
		l := &w.lanes[i]
		if l.busy == 0 || l.parked {
			continue
		}
		l.queue.Late(l.d.c.Timeout()/2, func(tag uint64, id uint16) {
			if s := &w.slots[tag]; !s.late {
				s.late = true
				if err := l.d.abort(l.queue, id); err != nil {
					l.d.fail(err)
				}
			}
		})
	}
}
