package beacon

import (
	"diskgnn/internal/fault"
	"diskgnn/simulate/kernel"
)

// Events of a command.
const (
	evDispatched = iota // a core or the router has handled it
	evArrived           // its bytes are at the die
	evSensed            // its page is in a buffer of the die
	evSampled           // the die's sampler has drawn
	evSent              // its result has crossed the channel
	evStored            // its result is in DRAM
	evHost              // its page is in the host's memory
	evHop               // A: the host starts a hop
)

// die is one flash die: it senses a page at a time, into a buffer that it holds until the
// result has crossed the channel.
type die struct {
	head, tail int32 // waiting commands, linked by run.next; -1: none
	free       int32 // free buffers
	sensing    bool
}

// run is a simulation of a batch on a platform.
type run struct {
	kernel.Sim
	p  *Params
	pf *Platform
	t  *Trace

	dies     []die
	next     []int32 // by command: the next waiting command of its die
	channels []*kernel.Server
	routers  []*kernel.Server
	firmware *kernel.Server
	dram     *kernel.Server
	pcie     *kernel.Server
	host     *kernel.Server // samples pages on the host
	stored   kernel.Time    // time at which the drive's last result was in DRAM
	pcieDone kernel.Time    // end of the transfers on PCIe
	issued   []bool         // by node: nodes may be reached more than once
	hopLeft  []int64
	moments  []moment
	out      Batch
	watch    watch
}

// moment has the times of a command's stages.
type moment struct{ ready, queued, sensing, sensed, sampled, crossing, sent kernel.Time }

// Run simulates a batch on a platform. If the batch may take longer than an hour of simulated time, the
// error is of kind fault.ErrUsage. Any other error is a broken invariant of the simulator.
func Run(p *Params, pf *Platform, t *Trace) (*Batch, error) {
	if took := serially(p, t); took > mostTime {
		return nil, fault.New(fault.ErrUsage, "a batch of %d commands may take %.3g hours of simulated time with these parameters; at most one hour is simulated", len(t.Commands), took/3600)
	}
	r := newRun(p, pf, t)
	r.start(0)
	var e kernel.Event
	for r.Next(&e) {
		r.handle(&e)
	}
	r.finish()
	return &r.out, r.check()
}

// mostTime is the longest time of a batch, in seconds: far below the range of kernel.Time, so nothing
// overflows.
const mostTime = 3600.

// serially returns the time of a batch if nothing overlaps, in seconds: an upper bound for every platform.
func serially(p *Params, t *Trace) float64 {
	n, each := float64(len(t.Commands)), p.Firmware.Command+p.Router.Hop+p.Flash.Read+p.Sampler.Draw+p.Host.Sampling
	whole := n*float64(p.Flash.Crossing) + float64(t.Nodes()*t.Feature) + addressBytes*float64(len(t.children)+t.Nodes())
	perByte := 1/float64(p.Flash.Channel) + 1/float64(p.Sampler.Retrieve) + 2/float64(p.DRAM.Rate) + 1/float64(p.PCIe.Rate)
	took := n*each.Seconds() + whole*perByte + n*float64(p.Flash.Command)/float64(p.Flash.Channel)
	return took + float64(len(t.Hops))*p.Host.RoundTrip.Seconds()
}

func newRun(p *Params, pf *Platform, t *Trace) *run {
	r := &run{
		p: p, pf: pf, t: t,
		dies: make([]die, p.dies()), next: make([]int32, len(t.Commands)), moments: make([]moment, len(t.Commands)),
		firmware: kernel.NewServer(p.Firmware.Cores), dram: kernel.NewServer(1), pcie: kernel.NewServer(1), host: kernel.NewServer(1),
		issued: make([]bool, t.Nodes()), hopLeft: make([]int64, len(t.Hops)),
	}
	for i := range r.dies {
		r.dies[i] = die{head: -1, tail: -1, free: int32(p.Flash.Buffers)}
	}
	for range p.Flash.Channels {
		r.channels = append(r.channels, kernel.NewServer(1))
		r.routers = append(r.routers, kernel.NewServer(1))
	}
	for i := range t.Commands {
		r.hopLeft[t.Commands[i].Hop]++
	}
	r.out.Hops = make([]Span, len(t.Hops))
	r.watch.init(p, pf)
	return r
}

func (r *run) dieOf(c int32) int32 { return int32(r.t.Commands[c].Page % int64(len(r.dies))) }

// channelOf returns the channel of a command's die: dies are assigned to channels in turn.
func (r *run) channelOf(c int32) int32 { return r.dieOf(c) % int32(len(r.channels)) }

// start issues the nodes of a hop.
func (r *run) start(h int) {
	first := int64(0)
	for _, n := range r.t.Hops[:h] {
		first += n
	}
	for n := first; n < first+r.t.Hops[h]; n++ {
		r.node(int32(n))
	}
}

// node issues the commands of a node: all, or only the first if dies forward commands.
func (r *run) node(n int32) {
	if r.issued[n] {
		return
	}
	r.issued[n] = true
	c, end := r.t.commandsOf(n)
	if !r.pf.Firmware {
		end = c + 1
	}
	for ; c < end; c++ {
		r.issue(c)
	}
}

func (r *run) issue(c int32) {
	now := r.Now()
	r.moments[c].ready = now
	h := &r.out.Hops[r.t.Commands[c].Hop]
	if h.Commands == 0 {
		h.Start = now
	}
	h.Commands++
	var done kernel.Time
	if r.pf.Firmware {
		done = r.firmware.Serve(now, r.p.Firmware.Command)
		r.watch.firmware.add(done-r.p.Firmware.Command, done)
	} else {
		done = r.routers[r.channelOf(c)].Serve(now, r.p.Router.Hop)
	}
	r.At(done, kernel.Event{Kind: evDispatched, A: c})
}

func (r *run) handle(e *kernel.Event) {
	c, now := e.A, r.Now()
	switch e.Kind {
	case evDispatched:
		if r.p.Flash.Command == 0 {
			r.arrive(c)
			return
		}
		r.At(r.cross(c, r.p.Flash.Command), kernel.Event{Kind: evArrived, A: c})
	case evArrived:
		r.arrive(c)
	case evSensed:
		d := &r.dies[r.dieOf(c)]
		d.sensing = false
		r.moments[c].sensed = now
		r.sense(d)
		if r.pf.WholePages {
			r.moments[c].sampled = now
			r.send(c)
			return
		}
		takes := r.p.Sampler.Draw
		if r.t.Commands[c].First {
			takes += r.p.Sampler.Retrieve.For(int64(r.t.Feature))
		}
		r.out.Sampler += takes
		r.After(takes, kernel.Event{Kind: evSampled, A: c})
	case evSampled:
		r.moments[c].sampled = now
		r.send(c)
	case evSent:
		d := &r.dies[r.dieOf(c)]
		d.free++
		r.sense(d)
		n := int64(r.resultBytes(c))
		r.out.ResultBytes += n
		done := now
		if r.p.Rules.WaitDRAM {
			done = r.dram.Serve(now, r.p.DRAM.Rate.For(2*n))
		}
		r.At(done, kernel.Event{Kind: evStored, A: c})
	case evStored:
		r.stored = now
		r.forward(c)
	case evHost:
		r.done(c)
	case evHop:
		r.start(int(c))
	}
}

// hostBytes returns the bytes of a command's page that go to the host: the whole page if the host samples
// it or has the accelerator, or the vector.
func (r *run) hostBytes(c int32) (n int64) {
	at := &r.t.Commands[c]
	if r.pf.PagesToHost == AllPages || r.pf.PagesToHost == SampledPages && at.Draws {
		n += int64(r.p.Flash.Crossing)
	}
	if r.pf.FeaturesToHost && at.First {
		n += int64(r.t.Feature)
	}
	return n
}

// forward transfers the host's bytes of a command over PCIe. If transfers do not overlap reads, it ends
// the command instead, and the transfers follow all reads.
func (r *run) forward(c int32) {
	n := r.hostBytes(c)
	if n == 0 || !r.p.Rules.Overlap {
		r.done(c)
		return
	}
	there := r.toHost(n)
	if r.pf.PagesToHost != NoPages {
		there = r.host.Serve(there, r.p.Host.Sampling)
	}
	r.At(there, kernel.Event{Kind: evHost, A: c})
}

// cross transfers bytes on a command's channel, and returns the time of their end.
func (r *run) cross(c int32, bytes int) kernel.Time {
	takes := r.p.Flash.Channel.For(int64(bytes))
	done := r.channels[r.channelOf(c)].Serve(r.Now(), takes)
	r.watch.channels.add(done-takes, done)
	return done
}

// arrive puts a command into its die's queue.
func (r *run) arrive(c int32) {
	d := &r.dies[r.dieOf(c)]
	r.moments[c].queued = r.Now()
	r.watch.queue.change(r.Now(), 1)
	r.next[c] = -1
	if d.tail >= 0 {
		r.next[d.tail] = c
	} else {
		d.head = c
	}
	d.tail = c
	r.sense(d)
}

// sense begins the sensing for the first waiting command, if the die and a buffer are free.
func (r *run) sense(d *die) {
	if d.head < 0 || d.sensing || d.free == 0 {
		return
	}
	c := d.head
	if d.head = r.next[c]; d.head < 0 {
		d.tail = -1
	}
	d.sensing = true
	d.free--
	now := r.Now()
	r.moments[c].sensing = now
	r.watch.queue.change(now, -1)
	r.out.Die.Jobs++
	r.out.Die.Busy += r.p.Flash.Read
	r.watch.dies.add(now, now+r.p.Flash.Read)
	r.After(r.p.Flash.Read, kernel.Event{Kind: evSensed, A: c})
}

// send puts a command's result on its channel.
func (r *run) send(c int32) {
	n := r.resultBytes(c)
	done := r.cross(c, n)
	r.moments[c].crossing = done - r.p.Flash.Channel.For(int64(n))
	r.moments[c].sent = done
	r.At(done, kernel.Event{Kind: evSent, A: c})
}

// resultBytes returns the bytes of a command's page that cross the channel: the whole page, or an address
// for each child and, for a node's first page, the vector.
func (r *run) resultBytes(c int32) int {
	if r.pf.WholePages {
		return r.p.Flash.Crossing
	}
	n := addressBytes * len(r.t.childrenOf(c))
	if r.t.Commands[c].First {
		n += r.t.Feature
	}
	return n
}

// done ends a command and starts the next ones.
func (r *run) done(c int32) {
	now := r.Now()
	r.watch.count(&r.out, &r.moments[c], now)
	r.out.Commands++
	h := r.t.Commands[c].Hop
	r.out.Hops[h].End = now
	r.hopLeft[h]--
	if !r.pf.HopBarrier {
		if _, end := r.t.commandsOf(r.t.Commands[c].Node); !r.pf.Firmware && r.t.Commands[c].First {
			for next := c + 1; next < end; next++ {
				r.issue(next)
			}
		}
		for _, n := range r.t.childrenOf(c) {
			r.node(n)
		}
		return
	}
	if r.hopLeft[h] > 0 || int(h)+1 == len(r.t.Hops) {
		return
	}
	if r.t.Hops[h+1] > 0 {
		r.barrier(int(h) + 1)
	}
}

// barrier starts a hop through the host. The drive sends the host the addresses of the hop's nodes, unless
// the host drew them.
func (r *run) barrier(next int) {
	r.tail()
	there := r.Now()
	if r.pf.PagesToHost == NoPages {
		there = r.toHost(addressBytes * r.t.Hops[next])
		r.out.PCIeAlone += there - r.Now()
	}
	r.out.RoundTrips++
	r.At(there+r.p.Host.RoundTrip, kernel.Event{Kind: evHop, A: int32(next)})
}

// tail counts the time of PCIe and of sampling on the host after the drive's last result. Both have ended
// now.
func (r *run) tail() {
	over := min(max(r.pcieDone, r.stored), r.Now())
	r.out.PCIeAlone += over - r.stored
	r.out.HostSampling += r.Now() - over
}

// toHost transfers bytes over PCIe, and returns the time of their arrival.
func (r *run) toHost(bytes int64) kernel.Time {
	r.out.PCIeBytes += bytes
	takes := r.p.PCIe.Rate.For(bytes)
	done := r.pcie.Serve(r.Now(), takes)
	r.pcieDone = done
	return done
}

// finish adds the times after a batch's reads, and the time of computing.
func (r *run) finish() {
	o := &r.out
	r.tail()
	o.Flash = r.Now()
	o.Preparation = r.Now()
	o.Targets, o.Nodes = r.t.Hops[0], int64(r.t.Nodes())
	o.FeatureBytes = int64(r.t.Nodes()) * int64(r.t.Feature)
	o.UsefulBytes = o.FeatureBytes + addressBytes*int64(len(r.t.children))
	if !r.p.Rules.Overlap {
		after := int64(0)
		for c := range r.t.Commands {
			n := r.hostBytes(int32(c))
			if after += n; n > 0 && r.pf.PagesToHost != NoPages {
				o.HostSampling += r.p.Host.Sampling
			}
		}
		o.PCIeAlone += r.p.PCIe.Rate.For(after)
		o.Preparation += o.HostSampling + r.p.PCIe.Rate.For(after)
		o.PCIeBytes += after
	}
	array := &r.p.Accelerator
	if r.pf.HostComputes() {
		array = &r.p.Central
	}
	all, macs := r.p.products(r.t.Hops, r.t.Width)
	o.Compute = array.compute(all)
	o.Period = max(o.Preparation, o.Compute)
	o.Firmware = r.firmware.Stats()
	held := func(s kernel.Stats) { r.watch.served += s.Waited + float64(s.Busy) }
	held(o.Firmware)
	for i, c := range r.channels {
		s := c.Stats()
		held(s)
		held(r.routers[i].Stats())
		o.Channel.Jobs += s.Jobs
		o.Channel.Busy += s.Busy
		o.ChannelQueue = max(o.ChannelQueue, s.Queue)
	}
	o.DRAM, o.PCIe = r.dram.Stats(), r.pcie.Stats()
	o.Events = r.Events()
	r.watch.close(o, r.Now())
	o.Joules = r.p.joules(r.pf, o, all, macs)
}
