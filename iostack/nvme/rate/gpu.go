package rate

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"time"

	"diskgnn/device/cuda"
	"diskgnn/internal/driverate"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/gpuqueue"
)

// lists is the number of lists of requests that a measurement uses in turn.
const lists = 32

// GPU measures random reads with all queues of the controllers, driven by the device: while a micro-batch
// is completed, the next one is under way. Afterwards only Reset and Close of the controllers are allowed.
// The calling goroutine must be attached.
func GPU(ctx context.Context, d *cuda.Device, controllers []*nvme.Controller, l Load) (r Result, err error) {
	blocks, err := l.check(controllers)
	if err != nil {
		return r, err
	}
	array, err := gpuqueue.Open(d, controllers, gpuqueue.Options{CompleteBlocks: l.Completers, Batches: 2,
		RequestBytes: (l.BlockBytes + nvme.Page - 1) / nvme.Page * nvme.Page})
	if err != nil {
		return r, err
	}
	m := &measured{device: d, array: array, meter: driverate.NewMeter(l.Effort), n: max(1, array.Room()/2)}
	m.blocks = min(max(1, l.Completers), array.Queues()*len(controllers))
	if l.Completers == 0 {
		m.blocks = min(32, array.Queues()*len(controllers))
	}
	defer func() { err = errors.Join(err, m.close()) }()
	if err := m.open(l, blocks); err != nil {
		return r, err
	}
	if err := m.run(ctx); err != nil {
		return r, err
	}
	r.Rate, r.Latency, r.Requests = m.meter.Rate(), m.seen, m.seen.Count()*int64(m.n)
	r.Submit, r.Complete = m.submit*1000/time.Duration(r.Requests), m.complete*1000/time.Duration(r.Requests)
	if d.Multiprocessors > 0 && m.wall > 0 {
		r.Share = (m.submit.Seconds() + m.complete.Seconds()*float64(m.blocks)) / (m.wall.Seconds() * float64(d.Multiprocessors))
	}
	return r, nil
}

// measured is a measurement under way.
type measured struct {
	device *cuda.Device
	array  *gpuqueue.Array
	meter  *driverate.Meter
	n      int // requests of a micro-batch
	blocks int // that complete

	arena    *cuda.Arena
	streams  [2]*cuda.Stream
	turns    [2]turn
	requests [lists]cuda.Buffer

	seen             Latencies
	submit, complete time.Duration
	wall             time.Duration
}

// turn is one of two micro-batches.
type turn struct {
	ticket       gpuqueue.Ticket
	to, status   cuda.Buffer
	sent, landed *cuda.Span
}

// open allocates the device's memory and writes the lists of requests.
func (m *measured) open(l Load, blocks int) (err error) {
	take := func(arena *cuda.Arena) error {
		for i := range m.requests {
			if m.requests[i], err = arena.Take(int64(gpuqueue.RequestBytes * m.n)); err != nil {
				return err
			}
		}
		for i := range m.turns {
			t := &m.turns[i]
			if t.to, err = arena.Take(int64(m.n * l.BlockBytes)); err != nil {
				return err
			}
			if t.status, err = arena.Take(int64(4 * m.n)); err != nil {
				return err
			}
		}
		return nil
	}
	var counting cuda.Arena
	if err := take(&counting); err != nil {
		return err
	}
	if m.arena, err = m.device.NewArena(counting.Used()); err != nil {
		return err
	}
	if err := take(m.arena); err != nil {
		return err
	}
	for i := range m.streams {
		if m.streams[i], err = m.device.NewStream(); err != nil {
			return err
		}
		t := &m.turns[i]
		if t.sent, err = m.device.NewSpan(); err != nil {
			return err
		}
		if t.landed, err = m.device.NewSpan(); err != nil {
			return err
		}
	}
	rnd := rand.New(rand.NewPCG(l.Seed, 0))
	drives, per := m.array.Drives()
	list := make([]byte, gpuqueue.RequestBytes*m.n)
	for i := range m.requests {
		for k := range m.n {
			at := list[gpuqueue.RequestBytes*k:]
			block := uint64(k%drives)*per + rnd.Uint64N(per/uint64(blocks))*uint64(blocks)
			binary.LittleEndian.PutUint64(at, block)
			binary.LittleEndian.PutUint64(at[8:], uint64(k*l.BlockBytes))
			binary.LittleEndian.PutUint64(at[16:], uint64(blocks))
		}
		if err := m.streams[0].CopyIn(m.requests[i], list); err != nil {
			return err
		}
	}
	return m.streams[0].Synchronize()
}

// run measures until the effort is over. When it returns, no read is under way.
func (m *measured) run(ctx context.Context) error {
	began := time.Now()
	defer func() { m.wall = time.Since(began) }()
	if err := m.send(0); err != nil {
		return err
	}
	for i := 0; ; i++ {
		more := m.meter.More() && ctx.Err() == nil
		if more {
			if err := m.send(i + 1); err != nil {
				return err
			}
		}
		if err := m.land(i); err != nil {
			return err
		}
		m.meter.Done(int64(m.n))
		if !more {
			return ctx.Err()
		}
	}
}

// send submits micro-batch i.
func (m *measured) send(i int) error {
	t, s := &m.turns[i%2], m.streams[0]
	in := gpuqueue.Reads{Requests: m.requests[i%lists], Count: gpuqueue.Count{Most: m.n}, To: t.to, Status: t.status}
	return errors.Join(t.sent.Begin(s), m.array.Submit(&t.ticket, in, s), t.sent.End(s))
}

// land completes micro-batch i, and waits for it.
func (m *measured) land(i int) error {
	t, s := &m.turns[i%2], m.streams[1]
	// The completion's time begins when its submission is over.
	if err := errors.Join(s.Wait(t.sent.Ended()), t.landed.Begin(s), m.array.Complete(&t.ticket, s), t.landed.End(s)); err != nil {
		return err
	}
	if err := errors.Join(m.array.End(&t.ticket), t.landed.Ended().Synchronize()); err != nil {
		return err
	}
	after, complete, err := t.landed.Since(t.sent.Ended())
	if err != nil {
		return err
	}
	_, submit, err := t.sent.Since(t.sent.Ended())
	if err != nil {
		return err
	}
	m.submit += submit
	m.complete += complete
	m.seen.Add(submit + after + complete)
	return nil
}

func (m *measured) close() error {
	var err error
	for i := range m.streams {
		if m.streams[i] != nil {
			err = errors.Join(err, m.streams[i].Synchronize())
		}
	}
	err = errors.Join(err, m.array.Close())
	for i := range m.streams {
		if m.streams[i] != nil {
			m.streams[i].Free()
		}
		for _, s := range []*cuda.Span{m.turns[i].sent, m.turns[i].landed} {
			if s != nil {
				s.Free()
			}
		}
	}
	if m.arena != nil {
		m.arena.Free()
	}
	return err
}
