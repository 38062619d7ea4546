package beacon

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"diskgnn/simulate/kernel"
)

// Batch has the simulated figures of a batch on a platform.
type Batch struct {
	Targets  int64
	Nodes    int64 // of all hops
	Commands int64
	Events   int64

	Flash       kernel.Time // time until all reads have ended, with round trips through the host
	Preparation kernel.Time // time until the batch can be computed
	Compute     kernel.Time
	Period      kernel.Time // time between successive batches

	RoundTrips   int
	HostSampling kernel.Time // sampling on the host that nothing overlaps
	PCIeAlone    kernel.Time // transfers on PCIe that nothing overlaps
	Hops         []Span

	ResultBytes  int64 // results that crossed channels and went to DRAM
	PCIeBytes    int64
	FeatureBytes int64 // vectors of all nodes
	UsefulBytes  int64 // vectors, and an address for each child

	Die          Busy
	Channel      Busy
	ChannelQueue int // the most commands that waited at one channel
	DieQueue     int // the most commands that waited at all dies
	Firmware     kernel.Stats
	DRAM, PCIe   kernel.Stats
	Sampler      kernel.Time

	Stages Stages // sums over all commands
	Joules Joules

	DieBusy, ChannelBusy, FirmwareBusy Timeline
}

// Busy counts the jobs, and the working time of all servers of a kind.
type Busy struct {
	Jobs int64
	Busy kernel.Time
}

// Span is the time from the first command of a hop to the end of its last.
type Span struct {
	Start, End kernel.Time
	Commands   int64
}

// Stages are times of commands by stage, in picoseconds. Dispatch is firmware or router and the command's
// bytes, Wait is the die's queue, Held is the wait of a sensed page for its channel, Behind is DRAM and
// PCIe.
type Stages struct{ Dispatch, Wait, Sense, Sample, Held, Transfer, Behind float64 }

func (s *Stages) add(o *Stages) {
	s.Dispatch += o.Dispatch
	s.Wait += o.Wait
	s.Sense += o.Sense
	s.Sample += o.Sample
	s.Held += o.Held
	s.Transfer += o.Transfer
	s.Behind += o.Behind
}

// Throughput returns targets per second for successive batches.
func (b *Batch) Throughput() float64 { return float64(b.Targets) / b.Period.Seconds() }

// Timeline is the mean number of busy units in each bin of time.
type Timeline struct {
	Bin  kernel.Time
	Busy []float64
}

// steps adds up spans in bins. It doubles the width of the bins when their number would exceed the limit.
type steps struct {
	bin  kernel.Time
	busy []kernel.Time
}

const mostBins = 4096

func (s *steps) add(from, to kernel.Time) {
	for (to-1)/s.bin >= mostBins {
		s.widen()
	}
	for b := int(from / s.bin); from < to; b++ {
		for b >= len(s.busy) {
			s.busy = append(s.busy, 0)
		}
		end := min(to, kernel.Time(b+1)*s.bin)
		s.busy[b] += end - from
		from = end
	}
}

// widen doubles the width of the bins.
func (s *steps) widen() {
	s.bin *= 2
	for b, v := range s.busy {
		s.busy[b] = 0
		s.busy[b/2] += v
	}
	s.busy = s.busy[:(len(s.busy)+1)/2]
}

func (s *steps) timeline() Timeline {
	t := Timeline{Bin: s.bin, Busy: make([]float64, len(s.busy))}
	for i, b := range s.busy {
		t.Busy[i] = float64(b) / float64(s.bin)
	}
	return t
}

func (s *steps) sum() (sum kernel.Time) {
	for _, b := range s.busy {
		sum += b
	}
	return sum
}

// area is the integral of a queue's length over time.
type area struct {
	n, most int
	since   kernel.Time
	sum     kernel.Time // Σ length × time; may wrap around, like the sum that it is compared with
}

func (a *area) change(now kernel.Time, by int) {
	a.sum += kernel.Time(a.n) * (now - a.since)
	a.since = now
	a.n += by
	a.most = max(a.most, a.n)
}

// watch counts a run in a second way, to check its counters.
type watch struct {
	dies, channels, firmware steps
	queue                    area
	waited, sensed           kernel.Time // sums at dies, from the moments of commands
	served                   float64     // in the queues of cores, routers and channels, and in service, in picoseconds
	disorder                 int         // commands with moments that do not ascend
}

func (w *watch) init(p *Params, pf *Platform) {
	bin := 2500 * kernel.Nanosecond
	if pf.WholePages {
		bin *= 2
	}
	for _, s := range []*steps{&w.dies, &w.channels, &w.firmware} {
		s.bin = bin
	}
}

// count adds a command at its end.
func (w *watch) count(o *Batch, m *moment, now kernel.Time) {
	w.waited += m.sensing - m.queued
	w.sensed += m.sensed - m.sensing
	if !slices.IsSorted([]kernel.Time{m.ready, m.queued, m.sensing, m.sensed, m.sampled, m.crossing, m.sent, now}) {
		w.disorder++
	}
	s := &o.Stages
	s.Dispatch += float64(m.queued - m.ready)
	s.Wait += float64(m.sensing - m.queued)
	s.Sense += float64(m.sensed - m.sensing)
	s.Sample += float64(m.sampled - m.sensed)
	s.Held += float64(m.crossing - m.sampled)
	s.Transfer += float64(m.sent - m.crossing)
	s.Behind += float64(now - m.sent)
}

func (w *watch) close(o *Batch, now kernel.Time) {
	w.queue.change(now, 0)
	o.DieQueue = w.queue.most
	all := []*steps{&w.dies, &w.channels, &w.firmware}
	widest := slices.MaxFunc(all, func(a, b *steps) int { return cmp.Compare(a.bin, b.bin) }).bin
	for _, s := range all {
		for s.bin < widest {
			s.widen()
		}
	}
	o.DieBusy, o.ChannelBusy = w.dies.timeline(), w.channels.timeline()
	o.FirmwareBusy = w.firmware.timeline()
}

// check returns an error if an invariant is broken, which is a defect of the simulator.
func (r *run) check() error {
	o, w := &r.out, &r.watch
	n := int64(len(r.t.Commands))
	switch {
	case o.Commands != n || o.Die.Jobs != n:
		return broken("%d commands, of which %d were sensed and %d done", n, o.Die.Jobs, o.Commands)
	case o.Die.Busy != kernel.Time(n)*r.p.Flash.Read || o.Die.Busy != w.sensed || o.Die.Busy != w.dies.sum():
		return broken("dies were busy for %d ps, %d as commands saw it, %d on the timeline", o.Die.Busy, w.sensed, w.dies.sum())
	case w.queue.n != 0 || w.queue.sum != w.waited:
		return broken("queues of dies held %d ps, commands waited %d ps (Little's law)", w.queue.sum, w.waited)
	case o.Channel.Busy != w.channels.sum():
		return broken("channels were busy for %d ps, %d on the timeline", o.Channel.Busy, w.channels.sum())
	case over(o.Die.Busy, len(r.dies), o.Flash) || over(o.Channel.Busy, len(r.channels), o.Flash) || over(o.Firmware.Busy, r.p.Firmware.Cores, o.Flash) ||
		over(o.DRAM.Busy, 1, o.Flash) || over(o.PCIe.Busy, 1, o.Flash):
		return broken("something was busy for longer than the batch took")
	case w.disorder > 0:
		return broken("%d commands were somewhere before they came there", w.disorder)
	case apart(w.served, o.Stages.Dispatch+o.Stages.Held+o.Stages.Transfer):
		return broken("cores, routers and channels held jobs for %.0f ps, commands were there for %.0f ps (Little's law)",
			w.served, o.Stages.Dispatch+o.Stages.Held+o.Stages.Transfer)
	case r.pf.WholePages && o.ResultBytes != n*int64(r.p.Flash.Crossing), !r.pf.WholePages && o.ResultBytes != o.UsefulBytes:
		return broken("%d bytes crossed channels for %d commands and %d useful bytes", o.ResultBytes, n, o.UsefulBytes)
	}
	for h, left := range r.hopLeft {
		if left != 0 {
			return broken("hop %d has %d commands left", h, left)
		}
	}
	return nil
}

func over(busy kernel.Time, servers int, time kernel.Time) bool {
	return float64(busy) > float64(servers)*float64(time)
}

// apart reports whether two sums of picoseconds differ by more than rounding errors.
func apart(a, b float64) bool { return math.Abs(a-b) > 1e-9*max(a, b) }

func broken(format string, args ...any) error {
	return fmt.Errorf("simulate/beacon: an invariant is broken: "+format, args...)
}
