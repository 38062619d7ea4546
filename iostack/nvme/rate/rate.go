// Package rate measures NVMe queues with random reads of one size. The host (Host) or a GPU (GPU) keeps the
// queues full until an effort is over.
package rate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	"diskgnn/internal/driverate"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/spec"
)

// Load is the load of a measurement.
type Load struct {
	BlockBytes int // size of a read: whole blocks of the drives
	Submitters int // only Host: number of goroutines among which the queues are divided
	Completers int // only GPU: number of blocks that complete reads
	Seed       uint64
	Effort     driverate.Effort
}

// Result is the result of a measurement.
type Result struct {
	driverate.Rate           // requests
	Requests       int64     // all requests, also before the measured time
	Latency        Latencies // by Host: of a request, from doorbell to completion; by GPU: of a micro-batch, from submission to its data in the destination

	// Only by a GPU: the time for a thousand requests of the kernels that submit, and of the kernels that
	// complete them, which includes the wait for the drives. Share is the fraction of the multiprocessors
	// that these kernels held: one that submits, and one for each completing block.
	Submit, Complete time.Duration
	Share            float64
}

func (l *Load) check(controllers []*nvme.Controller) (blocks int, err error) {
	for _, c := range controllers {
		space := c.Namespace()
		blocks = l.BlockBytes / space.BlockBytes
		switch {
		case l.BlockBytes < 1 || l.BlockBytes%space.BlockBytes != 0 || l.BlockBytes > c.Identity().MaxTransfer:
			return 0, fault.New(fault.ErrUsage, "reads of %d bytes are not possible: %s takes multiples of %d up to %d", l.BlockBytes, c.Transport().Name(),
				space.BlockBytes, c.Identity().MaxTransfer)
		case space.Blocks < uint64(blocks):
			return 0, fault.New(fault.ErrInput, "%s has less than %d bytes", c.Transport().Name(), l.BlockBytes)
		}
	}
	return blocks, nil
}

// Host measures random reads with all queues of the controllers, driven by goroutines. No command is under
// way when it returns. After an error, only Reset and Close of the controllers are allowed.
func Host(ctx context.Context, controllers []*nvme.Controller, l Load) (r Result, err error) {
	blocks, err := l.check(controllers)
	if err != nil {
		return r, err
	}
	var all []*driven
	defer func() {
		if err != nil { // a drive may still write to the memory of commands under way
			for _, c := range controllers {
				err = errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
			}
		}
		for _, d := range all {
			err = errors.Join(err, d.c.Transport().Free(d.memory))
		}
	}()
	meter := driverate.NewMeter(l.Effort)
	for i, c := range controllers {
		for k, q := range c.Queues() {
			m, err := c.Transport().Alloc((q.Depth() - 1) * l.BlockBytes)
			if err != nil {
				return r, err
			}
			all = append(all, &driven{c: c, q: q, memory: m, blocks: blocks, bytes: l.BlockBytes, meter: meter,
				rnd: rand.New(rand.NewPCG(l.Seed, uint64(i)<<32|uint64(k))), began: make([]time.Time, q.Depth()-1)})
		}
	}
	submitters := min(max(1, l.Submitters), len(all))
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	for s := range submitters {
		g.Go(func() error {
			var seen Latencies
			for i := s; i < len(all); i += submitters {
				all[i].seen = &seen
			}
			err := drive(ctx, all, s, submitters)
			mu.Lock()
			defer mu.Unlock()
			r.Latency.add(&seen)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return r, err
	}
	r.Rate, r.Requests = meter.Rate(), r.Latency.Count()
	return r, nil
}

// driven is a queue that is kept full.
type driven struct {
	c      *nvme.Controller
	q      *nvme.Queue
	memory *nvme.Memory
	blocks int
	bytes  int
	rnd    *rand.Rand
	meter  *driverate.Meter
	began  []time.Time // by the read's place in memory
	free   []uint64    // places
	seen   *Latencies
}

// drive keeps every n-th queue, from first on, full until the measurement is over. Then it waits for the
// reads under way.
func drive(ctx context.Context, all []*driven, first, n int) error {
	for i := first; i < len(all); i += n {
		for place := range all[i].began {
			all[i].free = append(all[i].free, uint64(place))
		}
	}
	for more := true; ; {
		busy := 0
		more = more && ctx.Err() == nil
		for i := first; i < len(all); i += n {
			d := all[i]
			if more {
				if err := d.fill(); err != nil {
					return err
				}
			}
			under, err := d.poll(&more)
			if err != nil {
				return err
			}
			busy += under
		}
		if busy == 0 && !more {
			return ctx.Err()
		}
	}
}

// fill submits reads until the queue is full.
func (d *driven) fill() error {
	space := d.c.Namespace()
	now := time.Now()
	for len(d.free) > 0 && d.q.Room() > 0 {
		place := d.free[len(d.free)-1]
		cmd := space.Transfer(spec.Read, d.rnd.Uint64N(space.Blocks/uint64(d.blocks))*uint64(d.blocks), d.blocks)
		if err := d.q.Submit(&cmd, d.memory, int(place)*d.bytes, d.bytes, place); err != nil {
			return err
		}
		d.began[place] = now
		d.free = d.free[:len(d.free)-1]
	}
	d.q.Ring()
	return nil
}

// poll handles completions, and returns the number of reads under way.
func (d *driven) poll(more *bool) (under int, err error) {
	var failed error
	now := time.Now()
	n, err := d.q.Poll(func(place uint64, c spec.Completion) {
		if c.Status.Failed() && failed == nil {
			failed = fmt.Errorf("read from %s: %w", d.c.Transport().Name(), c.Status)
		}
		d.seen.Add(now.Sub(d.began[place]))
		d.free = append(d.free, place)
	})
	if n > 0 && !d.meter.Done(int64(n)) {
		*more = false
	}
	return d.q.Busy(), errors.Join(err, failed)
}

// DeviceBytes returns the number of bytes that the kernel has read from drives for this process so far:
// with read-ahead, without hits of the page cache. It returns false if the system does not report it.
// Drives that this process drives itself are not counted.
func DeviceBytes() (int64, bool) {
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0, false
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		if text, ok := bytes.CutPrefix(s.Bytes(), []byte("read_bytes: ")); ok {
			n, err := strconv.ParseInt(string(text), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// Latencies is a histogram of durations. The width of a bucket is at most 1/16 of its durations. The zero
// value is empty.
type Latencies struct {
	counts [64 << subBits]int64
	n      int64
	most   time.Duration
}

const subBits = 4

// Add counts a duration; a negative one counts as 0.
func (l *Latencies) Add(d time.Duration) {
	d = max(0, d)
	shift := max(0, bits.Len64(uint64(d))-subBits-1)
	l.counts[shift<<subBits+int(d>>shift)]++
	l.n++
	l.most = max(l.most, d)
}

func (l *Latencies) add(o *Latencies) {
	for i, n := range o.counts {
		l.counts[i] += n
	}
	l.n += o.n
	l.most = max(l.most, o.most)
}

// Count returns the number of durations.
func (l *Latencies) Count() int64 { return l.n }

// Max returns the longest duration.
func (l *Latencies) Max() time.Duration { return l.most }

// Quantile returns the duration that a fraction q of all durations does not exceed, up to the width of a
// bucket; 0 if there are none.
func (l *Latencies) Quantile(q float64) time.Duration {
	left := int64(q*float64(l.n) + 0.5)
	for b, n := range l.counts {
		if left -= n; left <= 0 && n > 0 {
			shift := max(0, b>>subBits-1)
			return min(l.most, time.Duration((b-shift<<subBits+1)<<shift-1))
		}
	}
	return l.most
}
