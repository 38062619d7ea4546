package soft

import (
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"diskgnn/internal/fault"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/spec"
)

// controller is the controller behind a drive's registers. One goroutine does everything except the
// workers' work.
type controller struct {
	d       *Drive
	enabled bool
	life    uint64 // of the controller: raised when it is disabled
	created bool   // a queue for reads and writes, since it was enabled
	values  [16]uint32
	sqs     map[uint16]*submission
	cqs     map[uint16]*completion
	jobs    chan job
	done    chan job
	workers sync.WaitGroup
	busy    int          // jobs that are with workers or the medium
	fetched spec.Command // the last that was
}

// submission is a ring of commands, from which the controller fetches.
type submission struct {
	id, size, head uint16
	ring           [][]byte // pages
	cq             *completion
	held           []held
	stuck          []job
	deleted        bool
}

// completion is a ring of completions, to which the controller posts.
type completion struct {
	id, size, tail uint16
	phase          bool
	ring           [][]byte
	promised       int // commands that were fetched and not completed
	users          int // submission queues
}

// job is an I/O command in work.
type job struct {
	sq     *submission
	cmd    spec.Command
	fate   Fate
	op     *op // of media, or nil
	life   uint64
	status spec.Status
}

// held is a job with a completion that waits for a number of others.
type held struct {
	job
	others int
}

// spins is the number of polls without a result before the controller sleeps.
const spins = 200

func newController(d *Drive) *controller {
	c := &controller{d: d, jobs: make(chan job), done: make(chan job, 2*d.o.Workers)}
	c.reset()
	if d.media != nil {
		d.media.begin(func(j job) {
			c.done <- j // never waits: there is room for all
			d.kick()
		})
	}
	return c
}

// await waits for a job that is with a worker or the medium.
func (c *controller) await() job {
	j := <-c.done
	c.ended(&j)
	return j
}

// ended records that a worker or the medium has finished a job.
func (c *controller) ended(j *job) {
	c.busy--
	if j.op != nil {
		c.d.media.free = append(c.d.media.free, j.op)
		j.op = nil
	}
}

func (c *controller) reset() {
	c.sqs, c.cqs = map[uint16]*submission{}, map[uint16]*completion{}
	c.created, c.values = false, [16]uint32{}
	c.life++
}

// run runs the controller until the drive is closed.
func (c *controller) run() {
	for range c.d.o.Workers {
		c.workers.Add(1)
		go func() {
			defer fault.Crash()
			defer c.workers.Done()
			c.work()
		}()
	}
	defer c.workers.Wait()
	defer close(c.jobs)
	idle := 0
	for {
		select {
		case <-c.d.stop:
			for c.busy > 0 {
				c.await()
			}
			return
		default:
		}
		if c.step() {
			idle = 0
			continue
		}
		if idle++; idle < spins {
			runtime.Gosched()
			continue
		}
		c.d.rest(c.step)
	}
}

// step does the pending work, and reports whether there was any.
func (c *controller) step() (busy bool) {
	cc := c.d.Load32(spec.CC)
	switch {
	case cc&spec.Enable == 0 && c.enabled:
		c.disable()
		return true
	case cc&spec.Enable != 0 && !c.enabled:
		if c.d.Load32(spec.CSTS)&spec.Fatal != 0 {
			return false
		}
		c.enable(cc)
		return true
	}
	for more := true; more; {
		select {
		case j := <-c.done:
			c.ended(&j)
			c.finish(j)
			busy = true
		default:
			more = false
		}
	}
	for _, sq := range c.sqs {
		busy = c.fetch(sq) || busy
	}
	return busy
}

// enable makes the admin queues from the registers.
func (c *controller) enable(cc uint32) {
	c.enabled = true
	aqa := c.d.Load32(spec.AQA)
	cq := &completion{size: uint16(aqa>>16&0xfff) + 1, phase: true, users: 1}
	sq := &submission{size: uint16(aqa&0xfff) + 1, cq: cq}
	cq.ring = c.d.bus.span(c.d.Load64(spec.ACQ), int(cq.size)*spec.CompletionBytes)
	sq.ring = c.d.bus.span(c.d.Load64(spec.ASQ), int(sq.size)*spec.CommandBytes)
	if cq.ring == nil || sq.ring == nil || cq.size < 2 || sq.size < 2 || cc&0xff0000 != spec.Entries || cc>>spec.PageShift&0xf != 0 {
		c.d.Store32(spec.CSTS, spec.Fatal)
		return
	}
	c.cqs[0], c.sqs[0] = cq, sq
	c.d.Store32(spec.CSTS, spec.Ready)
}

// disable discards all queues. It awaits the commands in work: their memory may be freed as soon as the
// controller is not ready.
func (c *controller) disable() {
	c.enabled = false
	for c.busy > 0 {
		c.await()
	}
	c.reset()
	for i := spec.Doorbells; i < len(c.d.bar); i += 4 {
		c.d.Store32(i, 0)
	}
	c.d.Store32(spec.CSTS, 0)
}

// entry returns entry i of a ring. Entries do not cross pages.
func entry(ring [][]byte, i uint16, size int) []byte {
	at := int(i) * size
	return ring[at/nvme.Page][at%nvme.Page:][:size]
}

// fetch fetches the commands up to a submission queue's doorbell, as far as there is room for their
// completions.
func (c *controller) fetch(sq *submission) (busy bool) {
	stride := 4 << c.d.o.StrideShift
	tail := c.d.Load32(spec.SubmissionDoorbell(int(sq.id), stride)) & 0xffff
	if tail >= uint32(sq.size) {
		return false // as if it had not been written
	}
	for uint32(sq.head) != tail && !sq.deleted && c.room(sq.cq) {
		cmd := &c.fetched
		copy(cmd[:], entry(sq.ring, sq.head, spec.CommandBytes))
		if sq.head++; sq.head == sq.size {
			sq.head = 0
		}
		sq.cq.promised++
		busy = true
		if sq.id == 0 {
			c.admin(sq, cmd)
			continue
		}
		j := job{sq: sq, cmd: *cmd, life: c.life}
		if c.d.o.Fate != nil {
			j.fate = c.d.o.Fate(cmd)
		}
		if j.fate.Status.Failed() {
			j.status = j.fate.Status
			c.finish(j)
			continue
		}
		if c.d.o.Null {
			j.status = c.d.carry(&j.cmd, nil, nil)
			c.finish(j)
			continue
		}
		if c.d.media != nil && cmd.Opcode() == spec.Read {
			c.begin(j)
			continue
		}
		c.give(j)
	}
	return busy
}

// begin starts a read of the medium. While the medium has no room, it finishes jobs that are done.
func (c *controller) begin(j job) {
	m := c.d.media
	for len(m.free) == 0 {
		c.finish(c.await())
	}
	o := m.free[len(m.free)-1]
	m.free = m.free[:len(m.free)-1]
	j.op = o
	o.job = j
	o.job.status = spec.Success
	c.busy++
	if status := c.d.carry(&o.job.cmd, nil, o); status.Failed() {
		c.ended(&j)
		j.status = status
		c.finish(j)
	}
}

// give passes a job to a worker. While no worker is free, it finishes jobs that are done.
func (c *controller) give(j job) {
	c.busy++
	for {
		select {
		case c.jobs <- j:
			return
		case other := <-c.done:
			c.ended(&other)
			c.finish(other)
		}
	}
}

// room reports whether there is room for one more completion: one entry stays empty.
func (c *controller) room(cq *completion) bool {
	head := c.d.Load32(spec.CompletionDoorbell(int(cq.id), 4<<c.d.o.StrideShift)) & 0xffff
	if head >= uint32(cq.size) {
		head = 0
	}
	waiting := (int(cq.tail) - int(head) + int(cq.size)) % int(cq.size)
	return waiting+cq.promised < int(cq.size)-1
}

// finish completes a job, now or after others, unless its Fate drops it.
func (c *controller) finish(j job) {
	if j.life != c.life {
		return // of a controller that was disabled since
	}
	switch sq := j.sq; {
	case j.fate.Drop:
		sq.cq.promised--
	case j.fate.Stuck:
		sq.stuck = append(sq.stuck, j)
	case j.fate.Hold > 0:
		sq.held = append(sq.held, held{j, j.fate.Hold})
	default:
		c.post(sq, j.cmd.ID(), j.status, 0)
		for i := range sq.held {
			sq.held[i].others--
		}
	}
	c.release(j.sq)
}

// release completes jobs that were held for enough others, or that are the last ones.
func (c *controller) release(sq *submission) {
	last := sq.cq.promised == len(sq.held)+len(sq.stuck)
	waiting := sq.held[:0]
	for _, h := range sq.held {
		if h.others <= 0 || last {
			c.post(sq, h.cmd.ID(), h.status, 0)
		} else {
			waiting = append(waiting, h)
		}
	}
	sq.held = waiting
}

// post writes a completion: its last word last.
func (c *controller) post(sq *submission, id uint16, status spec.Status, result uint32) {
	cq := sq.cq
	done := spec.Completion{Result: result, SQHead: sq.head, SQID: sq.id, ID: id, Status: status}
	b := entry(cq.ring, cq.tail, spec.CompletionBytes)
	binary.LittleEndian.PutUint32(b, done.Result)
	binary.LittleEndian.PutUint32(b[4:], 0)
	binary.LittleEndian.PutUint32(b[8:], done.Heads())
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&b[12])), done.Last(cq.phase))
	cq.promised--
	if cq.tail++; cq.tail == cq.size {
		cq.tail, cq.phase = 0, !cq.phase
	}
	if f := c.d.notify[cq.id].Load(); f != nil {
		(*f)()
	}
}
