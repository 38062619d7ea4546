package beacon

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/fault"
	"diskgnn/simulate/kernel"
)

// chain is a trace of one target whose nodes each lead to the next, on the given pages.
func chain(feature int, pages ...int64) *Trace {
	t := &Trace{Feature: feature, Width: feature / 2}
	for i, page := range pages {
		t.Commands = append(t.Commands, Command{Page: page, Node: int32(i), Child: int32(i), Hop: uint8(i), First: true, Draws: i+1 < len(pages)})
		t.first = append(t.first, int32(i))
		t.Hops = append(t.Hops, 1)
		if i+1 < len(pages) {
			t.children = append(t.children, int32(i+1))
		}
	}
	t.first = append(t.first, int32(len(pages)))
	return t
}

// leaves is a trace of targets without neighbours, on the given pages.
func leaves(feature int, pages ...int64) *Trace {
	t := &Trace{Feature: feature, Width: feature / 2, Hops: []int64{int64(len(pages))}}
	for i, page := range pages {
		t.Commands = append(t.Commands, Command{Page: page, Node: int32(i), First: true})
		t.first = append(t.first, int32(i))
	}
	t.first = append(t.first, int32(len(pages)))
	return t
}

func platform(t *testing.T, name string) *Platform {
	t.Helper()
	p, err := FindPlatforms(name)
	if err != nil {
		t.Fatal(err)
	}
	return &p[0]
}

// What can be computed by hand, to the picosecond. A page takes 3 µs to sense; of 4000 bytes
// 5 µs to cross at 800 MB/s, of 400 bytes 0.5 µs; a core takes 0.2 µs; a sampler 0.2 µs and
// 400 bytes at 1365 MB/s, which are 293,040 ps.
func TestByHand(t *testing.T) {
	const (
		sense   = 3 * kernel.Microsecond
		page    = 5 * kernel.Microsecond
		vector  = 500 * kernel.Nanosecond
		address = 10 * kernel.Nanosecond // 8 bytes
		core    = 200 * kernel.Nanosecond
		sampler = 200*kernel.Nanosecond + 293_040
		trip    = 10 * kernel.Microsecond
	)
	for _, c := range []struct {
		what     string
		platform string
		trace    *Trace
		set      []string
		want     kernel.Time
	}{
		{"one read", "BG-DG", leaves(400, 0), nil, core + sense + page},
		{"one read, sampled in its die", "BG-2", leaves(400, 0), nil, sense + sampler + vector},
		// A die senses ahead of the channel by one buffer more than it sends from.
		{"three reads on one die", "BG-DG", leaves(400, 0, 0, 0), nil, core + sense + 3*page},
		{"three reads on one die with one buffer", "BG-DG", leaves(400, 0, 0, 0), []string{"die.buffers=1"}, core + 3*(sense+page)},
		{"three reads on one die whose channel is fast", "BG-DG", leaves(400, 0, 0, 0), []string{"channel.rate=4e12"}, core + 3*sense + kernel.Nanosecond},
		// Dies 0 and 16 share channel 0; the second's page waits for the first's.
		{"two reads on two dies of a channel", "BG-DG", leaves(400, 0, 16), nil, core + sense + 2*page},
		{"two reads on two channels", "BG-DG", leaves(400, 0, 1), nil, core + sense + page},
		{"two reads by one core", "BG-DG", leaves(400, 0, 1), []string{"firmware.cores=1"}, 2*core + sense + page},
		{"five reads by four cores", "BG-DG", leaves(400, 0, 1, 2, 3, 4), nil, 2*core + sense + page},
		{"four hops", "BG-2", chain(400, 0, 1, 2, 3), nil, 4*(sense+sampler+vector) + 3*address},
		{"four hops by a core", "BG-DGSP", chain(400, 0, 1, 2, 3), nil, 4*(core+sense+sampler+vector) + 3*address},
		{"two hops through the host", "BG-SP", chain(400, 0, 1), nil,
			2*(core+sense+sampler+vector) + address + kernel.Nanosecond + trip}, // 8 bytes on PCIe: 1 ns
		{"two hops through the host, of which it gets the pages", "CC", chain(400, 0, 1), nil, 2*(core+sense+page) + trip + kernel.Microsecond}, // 2·4000 bytes at 8 GB/s
		{"two hops, of which it gets the first's page", "GLIST", chain(400, 0, 1), nil, 2*(core+sense+page) + trip + kernel.Microsecond/2},      // and draws addresses of it
		{"two hops, of which it gets the vectors", "SmartSAGE", chain(400, 0, 1), nil, 2*(core+sense+page) + trip + kernel.Nanosecond + 100*kernel.Nanosecond},
		{"CC's host samples", "CC", chain(400, 0, 1), []string{"host.sampling=3us"}, 2*(core+sense+page) + trip + kernel.Microsecond + 6*kernel.Microsecond},
		{"a router", "BG-2", leaves(400, 0, 16), []string{"router.hop=50ns"}, 50*kernel.Nanosecond + sense + sampler + 2*vector},
		{"command bytes", "BG-2", leaves(400, 0), []string{"channel.command=8"}, address + sense + sampler + vector},
		{"DRAM", "BG-2", leaves(400, 0), []string{"dram.wait=true", "dram.rate=8e9"}, sense + sampler + vector + 100*kernel.Nanosecond},
		{"a page that crosses PCIe by itself", "CC", chain(400, 0, 1), []string{"pcie.overlap=true"}, 2*(core+sense+page+kernel.Microsecond/2) + trip},
		{"a page of the first hop that does", "GLIST", chain(400, 0, 1), []string{"pcie.overlap=true"}, 2*(core+sense+page) + trip + kernel.Microsecond/2},
		{"two pages that one host samples", "CC", leaves(400, 0, 1), []string{"pcie.overlap=true", "host.sampling=3us"}, core + sense + page + kernel.Microsecond/2 + 6*kernel.Microsecond},
		{"vectors that do: the last is left", "SmartSAGE", leaves(400, 0, 16), []string{"pcie.overlap=true"}, core + sense + 2*page + 50*kernel.Nanosecond},
	} {
		p := Defaults(Faithful)
		if err := p.Set(c.set...); err != nil {
			t.Fatal(err)
		}
		b, err := Run(p, platform(t, c.platform), c.trace)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if b.Preparation != c.want {
			t.Errorf("%s on %s: %d ps, want %d", c.what, c.platform, b.Preparation, c.want)
		}
	}
}

// Of a batch's time, what reads overlap is theirs: two pages that come at once cross PCIe in
// 0.5 µs each and are sampled for 3 µs each, the first while the second crosses.
func TestTail(t *testing.T) {
	const us = kernel.Microsecond
	for _, c := range []struct {
		what       string
		trace      *Trace
		set        []string
		pcie, host kernel.Time
	}{
		{"both at once", leaves(400, 0, 1), []string{"host.sampling=3us"}, us, 5*us + us/2},
		{"both at once, without sampling", leaves(400, 0, 1), nil, us, 0},
		{"one after the other: the first is overlapped", leaves(400, 0, 16), []string{"host.sampling=3us"}, us / 2, 3 * us},
		{"sampling that takes longer than all else", leaves(400, 0, 16), []string{"host.sampling=9us"}, us / 2, 9*us + 9*us - 5*us},
		{"two hops", chain(400, 0, 1), []string{"host.sampling=3us"}, us, 6 * us},
		{"in arithmetic", chain(400, 0, 1), []string{"host.sampling=3us", "pcie.overlap=false"}, us, 6 * us},
	} {
		p := Defaults(Faithful)
		if err := p.Set(append([]string{"pcie.overlap=true"}, c.set...)...); err != nil {
			t.Fatal(err)
		}
		b, err := Run(p, platform(t, "CC"), c.trace)
		if err != nil || b.PCIeAlone != c.pcie || b.HostSampling != c.host {
			t.Errorf("%s: %d ps of PCIe and %d of the host, want %d and %d: %v", c.what, b.PCIeAlone, b.HostSampling, c.pcie, c.host, err)
		}
	}
}

// Durations that no clock counts are refused, in one line; long ones take no more memory.
func TestLong(t *testing.T) {
	for _, set := range [][]string{
		{"die.tr=1s", "channels=1", "dies=1"}, {"channel.rate=1", "channels=1"}, {"firmware.command=1s", "firmware.cores=1"}, {"host.sampling=1s"},
		{"pcie.rate=1"}, {"dram.rate=1"}, {"die.retrieve=1"}, {"router.hop=1s"}, {"die.draw=1s"}, {"channel.command=4096", "channel.rate=1k"},
	} {
		for _, m := range []Mode{Faithful, Strict} {
			p := Defaults(m)
			if err := p.Set(set...); err != nil {
				t.Fatal(err)
			}
			tr, err := workloads[1].Trace(p, 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Run(p, platform(t, "CC"), tr); !errors.Is(err, fault.ErrUsage) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v", set, err)
			}
		}
	}
	p := Defaults(Strict)
	if err := p.Set("die.tr=1s", "batch=1"); err != nil {
		t.Fatal(err)
	}
	tr, err := workloads[1].Trace(p, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range platforms {
		b, err := Run(p, &platforms[i], tr)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range []Timeline{b.DieBusy, b.ChannelBusy, b.FirmwareBusy} {
			if len(l.Busy) > mostBins || l.Bin != b.DieBusy.Bin {
				t.Errorf("%s: %d bins of %d ps, of dies %d ps", platforms[i].Name, len(l.Busy), l.Bin, b.DieBusy.Bin)
			}
		}
	}
}

// A batch never takes as long as all that is done for it, one thing after the other.
func TestSerially(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Defaults(rapid.SampledFrom([]Mode{Faithful, Strict}).Draw(t, "mode"))
		p.Model.Batch = rapid.IntRange(1, 4).Draw(t, "batch")
		set := rapid.SampledFrom([]string{"host.round_trip=1s", "host.sampling=1s", "pcie.rate=1k", "firmware.command=1s", "router.hop=1s", "die.tr=1s", "die.draw=1s", "die.retrieve=1k", "channel.rate=1k", "dram.rate=1k"})
		if err := p.Set(set.Draw(t, "slow"), "dies=1", "channels=1"); err != nil {
			t.Fatal(err)
		}
		tr, err := workloads[rapid.IntRange(0, len(workloads)-1).Draw(t, "workload")].Trace(p, rapid.Uint64().Draw(t, "seed"), 0)
		if err != nil {
			t.Fatal(err)
		}
		pf := &platforms[rapid.IntRange(0, len(platforms)-1).Draw(t, "platform")]
		bound := serially(p, tr)
		if bound > mostTime {
			return
		}
		if b, err := Run(p, pf, tr); err != nil || b.Preparation.Seconds() > bound {
			t.Fatalf("%s: %v s, of %v: %v", pf.Name, b.Preparation.Seconds(), bound, err)
		}
	})
}

// Bins: 2 and 5 ps lie in bins of 4 ps, and in the first of 8 ps when there are too many.
func TestSteps(t *testing.T) {
	s := steps{bin: 4}
	s.add(2, 9)
	if want := []kernel.Time{2, 4, 1}; !slices.Equal(s.busy, want) || s.sum() != 7 {
		t.Errorf("%v, want %v", s.busy, want)
	}
	s.add(4*mostBins-1, 4*mostBins)
	if s.bin != 4 || len(s.busy) != mostBins {
		t.Errorf("%d bins of %d", len(s.busy), s.bin)
	}
	s.add(4*mostBins, 4*mostBins+3)
	if s.bin != 8 || len(s.busy) != mostBins/2+1 || s.busy[0] != 6 || s.busy[1] != 1 || s.busy[mostBins/2-1] != 1 || s.busy[mostBins/2] != 3 || s.sum() != 11 {
		t.Errorf("%d bins of %d: %v, %v", len(s.busy), s.bin, s.busy[:3], s.busy[len(s.busy)-3:])
	}
	s.add(8, 8) // nothing
	if l := s.timeline(); s.sum() != 11 || l.Busy[0] != 0.75 {
		t.Errorf("%v of the first bin's 8", l.Busy[0])
	}
}

// Every invariant finds what breaks it.
func TestCheckFinds(t *testing.T) {
	p := Defaults(Strict)
	p.Model.Batch = 8
	tr, err := workloads[1].Trace(p, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for what, broken := range map[string]func(*run){
		"":                                 func(*run) {},
		"commands, of which":               func(r *run) { r.out.Commands-- },
		"were sensed":                      func(r *run) { r.out.Die.Jobs++ },
		"dies were busy":                   func(r *run) { r.out.Die.Busy++ },
		"as commands saw it":               func(r *run) { r.watch.sensed++ },
		"on the timeline":                  func(r *run) { r.watch.dies.busy[0]-- },
		"queues of dies held":              func(r *run) { r.watch.queue.sum++ },
		"(Little's law)":                   func(r *run) { r.watch.queue.n++ },
		"channels were busy":               func(r *run) { r.out.Channel.Busy++ },
		"something was busy":               func(r *run) { r.out.Firmware.Busy = 4*r.out.Flash + 1 },
		"busy for longer":                  func(r *run) { r.out.DRAM.Busy = r.out.Flash + 1 },
		"than the batch took":              func(r *run) { r.out.PCIe.Busy = r.out.Flash + 1 },
		"cores, routers and channels held": func(r *run) { r.watch.served *= 1.0001 },
		"somewhere before they came":       func(r *run) { r.watch.count(&r.out, &moment{2, 1, 1, 1, 1, 1, 1}, 1) },
		"bytes crossed channels":           func(r *run) { r.out.ResultBytes++ },
		"useful bytes":                     func(r *run) { r.out.UsefulBytes-- },
		"hop 2 has 1 commands left":        func(r *run) { r.hopLeft[2]++ },
	} {
		r := newRun(p, platform(t, "BG-DGSP"), tr)
		r.start(0)
		for e := (kernel.Event{}); r.Next(&e); {
			r.handle(&e)
		}
		r.finish()
		if r.out.Die.Busy > kernel.Time(len(r.dies))*r.out.Flash || len(tr.Hops) != 4 {
			t.Fatal("the batch is another")
		}
		broken(r)
		if err := r.check(); what == "" && err != nil || what != "" && (err == nil || !strings.Contains(err.Error(), what)) {
			t.Errorf("%q: %v", what, err)
		}
	}
	r := newRun(p, platform(t, "BG-1"), tr) // whole pages
	r.start(0)
	for e := (kernel.Event{}); r.Next(&e); {
		r.handle(&e)
	}
	r.finish()
	if err := r.check(); err != nil {
		t.Error(err)
	}
	if r.out.ResultBytes--; r.check() == nil {
		t.Error("a byte of a page is lost")
	}
}

// The deck's five samples: three lie in the primary section and lead to three commands, two
// in a secondary one, which one more command reads. BG-2 sends it on from the primary page;
// where addresses are known before, both pages are read at once.
func TestResubmission(t *testing.T) {
	w := Workload{Degree: 1200, Feature: 400} // own entries: 922 − 1
	p := Defaults(Faithful)
	p.Model.Batch, p.Model.Fanout = 1, []int{5}
	for seed := range uint64(1000) {
		tr, err := w.Trace(p, seed, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, end := tr.commandsOf(0); end != 2 || len(tr.childrenOf(0)) != 3 {
			continue
		}
		if len(tr.childrenOf(1)) != 2 || tr.Nodes() != 6 || len(tr.Commands) != 7 {
			t.Fatalf("%d nodes, %d commands", tr.Nodes(), len(tr.Commands))
		}
		tr.Commands[0].Page, tr.Commands[1].Page = 0, 1
		tr.Commands = tr.Commands[:2] // the children cost nothing
		tr.children, tr.first, tr.Hops = nil, []int32{0, 2}, []int64{1}
		for i := range tr.Commands {
			tr.Commands[i].Child = 0
		}
		together, err := Run(p, platform(t, "BG-DG"), tr)
		if err != nil {
			t.Fatal(err)
		}
		routed, err := Run(p, platform(t, "BG-2"), tr)
		if err != nil {
			t.Fatal(err)
		}
		const us, ns = kernel.Microsecond, kernel.Nanosecond
		if want := 200*ns + 3*us + 5*us; together.Flash != want {
			t.Errorf("both pages at once: %d ps, want %d", together.Flash, want)
		}
		// The second page has no vector, and here no children: nothing crosses the channel.
		if want := 3*us + 200*ns + 293_040 + 500*ns + 3*us + 200*ns; routed.Flash != want {
			t.Errorf("one page after the other: %d ps, want %d", routed.Flash, want)
		}
		return
	}
	t.Fatal("no seed draws three of five from the primary section")
}

// The accelerator's cycles for amazon: 43,512, which the authors' simulator has as 54.4 µs.
func TestCompute(t *testing.T) {
	p := Defaults(Faithful)
	all, macs := p.products([]int64{128, 384, 1152, 3456}, 200)
	if got := p.Accelerator.compute(all); got != kernel.Rate(800_000_000).For(43_512) {
		t.Errorf("%d ps", got)
	}
	// Forward 1664·200·128 + 512·128·128 + 128·128·10, backward as much, and without the
	// first layer's as much again.
	if forward, inner := 1664.*200*128+512*128*128+128*128*10, 512.*128*128+128*128*10; macs != 2*forward+inner {
		t.Errorf("%v multiplications", macs)
	}
}

// The energy of one batch, component by component, of figures written out.
func TestJoules(t *testing.T) {
	p := Defaults(Faithful)
	b, err := Run(p, platform(t, "BG-DG"), leaves(400, 0))
	if err != nil {
		t.Fatal(err)
	}
	period := 8.2e-6
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"sensing", b.Joules.Sensing, 3e-6 * 0.0825},
		{"channels", b.Joules.Channels, 5e-6*0.0165 + (16*period-5e-6)*33e-6},
		{"DRAM", b.Joules.DRAM, 2 * 4000 * 8 * 22e-12},
		{"PCIe", b.Joules.PCIe, 0},
		{"cores", b.Joules.Cores, 4 * 0.25 * period},
		{"accelerator", b.Joules.Accelerator, 0.195 * period},
	} {
		if d := c.got - c.want; d > 1e-15 || d < -1e-15 {
			t.Errorf("%s: %v J, want %v", c.what, c.got, c.want)
		}
	}
	if b, err = Run(p, platform(t, "CC"), leaves(400, 0)); err != nil {
		t.Fatal(err)
	}
	if got, want := b.Joules.PCIe, (4*4000+2*400)*8*7.5e-12; got-want > 1e-15 || want-got > 1e-15 {
		t.Errorf("PCIe of CC: %v J, want %v", got, want)
	}
	if got, want := b.Joules.HostDRAM, (4000+400)*8*40e-12; got-want > 1e-15 || want-got > 1e-15 {
		t.Errorf("host memory of CC: %v J, want %v", got, want)
	}
}

// mean returns the mean microseconds of a batch of ten seeds.
func mean(t *testing.T, name string, settings ...string) float64 {
	t.Helper()
	p := Defaults(Strict)
	p.Model.Batch = 48
	if err := p.Set(settings...); err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for seed := range uint64(10) {
		tr, err := workloads[1].Trace(p, seed, 0)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Run(p, platform(t, name), tr)
		if err != nil {
			t.Fatal(err)
		}
		sum += b.Preparation.Seconds() * 1e6 / 10
	}
	return sum
}

// What must follow from a change, whatever the figures are.
func TestMetamorphic(t *testing.T) {
	for _, name := range PlatformNames() {
		base := mean(t, name)
		for _, faster := range []string{"channels=32", "dies=16", "channel.rate=1.6e9", "die.tr=1us", "firmware.cores=8", "pcie.rate=16e9", "die.buffers=4", "host.round_trip=5us"} {
			if got := mean(t, name, faster); got > base*1.005 {
				t.Errorf("%s with %s: %.1f µs, %.1f without", name, faster, got, base)
			}
		}
		if got := mean(t, name, "firmware.cores=1"); name != "BG-2" && got <= base || name == "BG-2" && got != base {
			t.Errorf("%s with one core: %.1f µs, %.1f with four", name, got, base)
		}
	}
	// Without sensing, sampling and cores there are the channels: their bytes are the bound.
	p := Defaults(Faithful)
	if err := p.Set("die.tr=0us", "firmware.command=0us", "channels=1", "dies=1"); err != nil {
		t.Fatal(err)
	}
	tr, err := workloads[1].Trace(p, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Run(p, platform(t, "BG-DG"), tr)
	if err != nil {
		t.Fatal(err)
	}
	if want := kernel.Rate(800_000_000).For(4000) * kernel.Time(len(tr.Commands)); b.Flash != want {
		t.Errorf("channel time alone: %d ps, want %d", b.Flash, want)
	}
	// With a fanout of 0, nothing but targets is read.
	if err := p.Set("fanout=0"); err != nil {
		t.Fatal(err)
	}
	if tr, err = workloads[1].Trace(p, 1, 0); err != nil || len(tr.Commands) != 128 || tr.Nodes() != 128 {
		t.Errorf("fanout 0: %d commands of %d nodes: %v", len(tr.Commands), tr.Nodes(), err)
	}
}

// Dies that change their names with their channels give the same times; commands stay.
func TestPermutedDies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Defaults(rapid.SampledFrom([]Mode{Faithful, Strict}).Draw(t, "mode"))
		p.Model.Batch = rapid.IntRange(1, 20).Draw(t, "batch")
		tr, err := workloads[rapid.IntRange(0, len(workloads)-1).Draw(t, "workload")].Trace(p, rapid.Uint64().Draw(t, "seed"), 0)
		if err != nil {
			t.Fatal(err)
		}
		pf := &platforms[rapid.IntRange(0, len(platforms)-1).Draw(t, "platform")]
		before, err := Run(p, pf, tr)
		if err != nil {
			t.Fatal(err)
		}
		shift := rapid.Int64Range(0, 127).Draw(t, "shift")
		moved := *tr
		moved.Commands = slices.Clone(tr.Commands)
		for i := range moved.Commands { // all dies of a channel become those of another
			moved.Commands[i].Page = (moved.Commands[i].Page%128 + shift) % 128
		}
		after, err := Run(p, pf, &moved)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("%s: %d ps, with dies renamed %d", pf.Name, before.Flash, after.Flash)
		}
	})
}

// A batch cannot be faster than its busiest die, its busiest channel, its cores, or its
// longest chain of commands.
func TestLowerBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Defaults(Faithful)
		p.Model.Batch = rapid.IntRange(1, 200).Draw(t, "batch")
		tr, err := workloads[rapid.IntRange(0, len(workloads)-1).Draw(t, "workload")].Trace(p, rapid.Uint64().Draw(t, "seed"), 0)
		if err != nil {
			t.Fatal(err)
		}
		pf := &platforms[rapid.IntRange(0, len(platforms)-1).Draw(t, "platform")]
		b, err := Run(p, pf, tr)
		if err != nil {
			t.Fatal(err)
		}
		dies, channels := map[int64]kernel.Time{}, map[int64]kernel.Time{}
		chain := make([]kernel.Time, tr.Nodes()) // when each node may be known
		var bound kernel.Time
		for c := range tr.Commands {
			bytes := int64(4000)
			kids := tr.childrenOf(int32(c))
			if !pf.WholePages {
				bytes = 8 * int64(len(kids))
				if tr.Commands[c].First {
					bytes += int64(tr.Feature)
				}
			}
			dies[tr.Commands[c].Page%128] += p.Flash.Read
			channels[tr.Commands[c].Page%16] += p.Flash.Channel.For(bytes)
			done := chain[tr.Commands[c].Node] + p.Flash.Read + p.Flash.Channel.For(bytes)
			for _, k := range kids {
				chain[k] = max(chain[k], done)
			}
			bound = max(bound, done)
		}
		for _, m := range []map[int64]kernel.Time{dies, channels} {
			for _, busy := range m {
				bound = max(bound, busy)
			}
		}
		if pf.Firmware {
			bound = max(bound, p.Firmware.Command*kernel.Time(len(tr.Commands))/4)
		}
		if b.Flash < bound {
			t.Fatalf("%s: %d ps, not below %d", pf.Name, b.Flash, bound)
		}
	})
}

// Any number of workers gives the same outcomes.
func TestWorkers(t *testing.T) {
	studies := []Study{
		{Trees{workloads[0], 7}, Defaults(Faithful), platforms},
		{Trees{workloads[3], 7}, Defaults(Strict), platforms[5:]},
	}
	for i := range studies {
		studies[i].Params.Model.Batch = 16
	}
	calls := make(chan struct{}, 100)
	one, err := RunAll(context.Background(), studies, 3, 1, func() { calls <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	if len(calls) != 3*(8+3) {
		t.Errorf("%d batches are over", len(calls))
	}
	many, err := RunAll(context.Background(), studies, 3, 8, nil)
	if err != nil || !reflect.DeepEqual(one, many) {
		t.Errorf("eight workers give another result: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := RunAll(ctx, studies, 3, 1, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Every parameter is written as it is read; what cannot be is refused in one line.
func TestParameters(t *testing.T) {
	for _, m := range []Mode{Faithful, Strict} {
		p, q := Defaults(m), &Params{Energy: defaultEnergy()}
		for _, x := range Parameters() {
			if err := x.set(q, x.Get(p)); err != nil {
				t.Errorf("%s=%s: %v", x.Name, x.Get(p), err)
			}
		}
		if !reflect.DeepEqual(p, q) {
			t.Errorf("%+v, as written %+v", p, q)
		}
	}
	if err := Defaults(Faithful).Set("dies=4096", "channels=17"); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("69,632 dies: %v", err)
	}
	for _, s := range []string{
		"channels", "chanels=2", "channels=0", "channels=x", "die.tr=3", "die.tr=-1us", "die.tr=2s", "die.tr=NaNus", "channel.rate=0", "channel.rate=8X", "fanout=3/x",
		"fanout=3/-1", "page=1000", "page=65536", "page.crossing=4097", "dies=4097", "batch=1048577", "dram.wait=perhaps", "pcie.rate=Inf", "fanout=65536/65536/65536", "energy.core=-1", "energy.core=NaN", "energy.sram_busy=x",
	} {
		err := Defaults(Faithful).Set(s)
		if !errors.Is(err, fault.ErrUsage) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", s, err)
		}
	}
	if err := Defaults(Faithful).Set("die.tr=20us", "channels=32", "channel.rate=1.2G", "fanout=10/5"); err != nil {
		t.Error(err)
	}
	for _, f := range []func(string) error{
		func(s string) error { _, err := FindPlatforms(s); return err },
		func(s string) error { _, err := FindWorkloads(s); return err },
	} {
		if err := f("BG-9"); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("unknown: %v", err)
		}
		if err := f("all"); err != nil {
			t.Error(err)
		}
	}
	if _, err := (&Workload{Degree: 3, Feature: 5000}).Trace(Defaults(Faithful), 0, 0); !errors.Is(err, fault.ErrInput) {
		t.Errorf("a vector longer than a page: %v", err)
	}
}

// The configuration of the deck, and of the authors' simulator where the deck is silent; strict
// where it differs.
func TestDefaults(t *testing.T) {
	strict := map[string]string{
		"router.hop": "0.02us", "page.crossing": "4096", "channel.command": "8", "dram.wait": "true", "primary.always": "true", "pcie.overlap": "true",
	}
	want := map[string]string{
		"host.round_trip": "10us", "host.sampling": "0us", "pcie.rate": "8e+09", "firmware.cores": "4", "firmware.command": "0.2us", "router.hop": "0us",
		"channels": "16", "dies": "8", "page": "4096", "page.crossing": "4000", "die.tr": "3us", "die.buffers": "2", "die.draw": "0.2us", "die.retrieve": "1.365e+09",
		"channel.rate": "8e+08", "channel.command": "0", "dram.rate": "2.56e+10", "accelerator.side": "64", "accelerator.clock": "8e+08",
		"central.side": "128", "central.clock": "1e+09", "batch": "128", "fanout": "3/3/3", "hidden": "128", "out": "10",
		"dram.wait": "false", "primary.always": "false", "pcie.overlap": "false",
		"energy.sense": "0.0825", "energy.dram": "1.76e-10", "energy.sram_read": "9.144e-12", "energy.sram_write": "9.632e-12", "energy.sram_busy": "3.83", "energy.sram_idle": "0.195",
		"energy.core": "0.25", "energy.core_idle": "0.25", "energy.sampler": "0.001", "energy.router": "1e-11",
	}
	for _, q := range Parameters() {
		for _, m := range []Mode{Faithful, Strict} {
			value := want[q.Name]
			if other, differs := strict[q.Name]; differs && m == Strict {
				value = other
			}
			x, err := strconv.ParseFloat(strings.TrimSuffix(value, "us"), 64)
			got, err2 := strconv.ParseFloat(strings.TrimSuffix(q.Get(Defaults(m)), "us"), 64)
			if numbers := err == nil && err2 == nil; numbers && math.Abs(got-x) > 1e-9*x || !numbers && q.Get(Defaults(m)) != value {
				t.Errorf("%s, %s: %s, want %q", q.Name, m, q.Get(Defaults(m)), value)
			}
		}
	}
	if len(parameters) != len(want) {
		t.Errorf("%d parameters, %d are known", len(parameters), len(want))
	}
	e := Defaults(Faithful).Energy
	if !near(e.Channel, 16.5e-3) || !near(e.ChannelIdle, 33e-6) || !near(e.HostDRAM, 320e-12) || !near(e.PCIePort, 60e-12) || !near(e.MAC, 1.5e-12*1024/2025) {
		t.Errorf("energy: %+v", e)
	}
	// 2²⁶ nodes are the most: 2²⁰ targets with 63 neighbours.
	if err := Defaults(Faithful).Set("batch=1048576", "fanout=63"); err != nil {
		t.Error(err)
	}
	if err := Defaults(Faithful).Set("batch=1048576", "fanout=64"); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("more than 2²⁶ nodes: %v", err)
	}
	for _, s := range []struct {
		value string
		want  kernel.Rate
	}{{"800M", 800e6}, {"1.5k", 1500}, {"2G", 2e9}, {"3T", 3e12}, {"8e9", 8e9}} {
		p := Defaults(Faithful)
		if err := p.Set("pcie.rate=" + s.value); err != nil || p.PCIe.Rate != s.want {
			t.Errorf("%s: %d a second: %v", s.value, p.PCIe.Rate, err)
		}
	}
}

// Each platform is explained in at most ten lines.
func TestExplain(t *testing.T) {
	for i := range platforms {
		p := &platforms[i]
		if lines := strings.Split(p.Explain(), "\n"); len(lines) > 10 || !strings.HasPrefix(lines[0], p.Name) {
			t.Errorf("%s: %d lines: %s", p.Name, len(lines), lines[0])
		}
	}
}
