// Program beacon prints what was published of BeaconGNN, and what its authors' simulator gives,
// beside what the simulation here has for it; what each strict rule changes by itself; and the
// speed of the simulation on one core.
//
//	go run ./bench/beacon -batches 10
package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"strings"

	"golang.org/x/sys/unix"

	"diskgnn/simulate/beacon"
	"diskgnn/simulate/kernel"
)

// bench is what all tables share.
type bench struct {
	ctx     context.Context
	batches int
	err     error // the first
}

func main() {
	b := bench{}
	flag.IntVar(&b.batches, "batches", 10, "batches of each mean")
	only := flag.Bool("speed", false, "print the speed alone")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	b.ctx = ctx
	if !*only {
		b.claims()
		b.golden()
		b.rules()
		b.authors()
	}
	b.speed()
	if b.err != nil {
		fmt.Fprintln(os.Stderr, "beacon:", b.err)
		os.Exit(1)
	}
}

func (b *bench) keep(err error) bool {
	if b.err == nil {
		b.err = err
	}
	return b.err == nil
}

// golden is the workload of the golden vector: every node has 300 neighbours.
var golden = beacon.Workload{Name: "golden", Degree: 300, Feature: 400}

// micros returns the mean time between batches on platforms, in µs.
func (b *bench) micros(w beacon.Workload, m beacon.Mode, names string, settings ...string) []beacon.Outcome {
	if b.err != nil {
		return nil
	}
	p := beacon.Defaults(m)
	platforms, err := beacon.FindPlatforms(names)
	if !b.keep(err) || !b.keep(p.Set(settings...)) {
		return nil
	}
	all, err := beacon.RunAll(b.ctx, []beacon.Study{{Source: beacon.Trees{Workload: w}, Params: p, Platforms: platforms}}, b.batches, 0, nil)
	if !b.keep(err) {
		return nil
	}
	return all[0]
}

func (b *bench) claims() {
	workloads, err := beacon.FindWorkloads("all")
	if !b.keep(err) {
		return
	}
	r, err := beacon.Simulate(b.ctx, beacon.Options{
		Platforms: beacon.Platforms(), Workloads: workloads, Modes: []beacon.Mode{beacon.Faithful, beacon.Strict}, Batches: b.batches,
	}, nil)
	if !b.keep(err) {
		return
	}
	fmt.Printf("Claims, %d batches of each workload.\n\n| | paper | authors' simulator | faithful | strict | σ halved | σ × 1.5 | |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n", b.batches)
	for i, c := range r.Claims {
		verdict := map[bool]string{true: "within", false: "misses"}[c.Holds()] + fmt.Sprintf(" ±%.0f %%", 100*c.Within)
		if c.Within == 0 {
			verdict = "no bound"
		}
		fmt.Printf("| %s | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %s |\n", c.What, c.Paper, c.Authors, c.Faithful, c.Strict, r.Doubts[i].Halved, r.Doubts[i].More, verdict)
	}
	fmt.Printf("\nEnergy by other assumptions, amazon, faithful.\n\n| | over CC | over BG-1 | watts of BG-2 | DRAM of BG-1 | PCIe and host memory of CC |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, d := range r.EnergyDoubts {
		fmt.Printf("| %s | %.2f | %.2f | %.1f | %.0f %% | %.0f %% |\n", d.What, d.OverCC, d.OverBG1, d.Watts, 100*d.DRAMShare, 100*d.PCIeShare)
	}
	fmt.Printf("\nTargets a second over CC's, faithful / strict; busy dies and channels, amazon, faithful.\n\n|")
	for _, w := range workloads {
		fmt.Printf(" | %s", w.Name)
	}
	fmt.Print(" | µs | dies | channels | cores |\n| ---" + strings.Repeat(" | ---", len(workloads)+4) + " |\n")
	by := map[string]*beacon.Row{}
	for i := range r.Rows {
		by[r.Rows[i].Workload+string(r.Rows[i].Mode)+r.Rows[i].Platform] = &r.Rows[i]
	}
	for _, name := range beacon.PlatformNames() {
		fmt.Printf("| %s", name)
		for _, w := range workloads {
			over := func(m beacon.Mode) float64 {
				return by[w.Name+string(m)+name].Targets / by[w.Name+string(m)+"CC"].Targets
			}
			fmt.Printf(" | %.2f / %.2f", over(beacon.Faithful), over(beacon.Strict))
		}
		a := by["amazon"+string(beacon.Faithful)+name]
		fmt.Printf(" | %.0f | %.1f | %.1f | %.1f |\n", 1e6*a.Seconds, a.DiesBusy, a.ChannelsBusy, a.CoresBusy)
	}
}

func (b *bench) golden() {
	fmt.Print("\nGolden vector, µs.\n\n| | authors' simulator | faithful | |\n| --- | --- | --- | --- |\n")
	want := map[string]float64{"CC": 4484, "BG-1": 1929, "BG-DG": 1756, "BG-SP": 332.9, "BG-DGSP": 267.2, "BG-2": 207.6}
	for _, o := range b.micros(golden, beacon.Faithful, "CC,BG-1,BG-DG,BG-SP,BG-DGSP,BG-2") {
		fmt.Printf("| %s | %.1f | %.1f | %+.1f %% |\n", o.Platform, want[o.Platform], 1e6*o.Seconds, 100*(1e6*o.Seconds/want[o.Platform]-1))
	}
}

// rules switches each rule of strict on by itself.
func (b *bench) rules() {
	workloads, err := beacon.FindWorkloads("amazon,movielens")
	if !b.keep(err) {
		return
	}
	for _, w := range workloads {
		fmt.Printf("\nStrict rules one at a time, %s, µs.\n\n", w.Name)
		b.table(w, beacon.Faithful, strings.Join(beacon.PlatformNames(), ","), [][]string{
			nil, {"page.crossing=4096"}, {"channel.command=8"}, {"router.hop=20ns"}, {"dram.wait=true"}, {"primary.always=true"}, {"pcie.overlap=true"},
			{"page.crossing=4096", "channel.command=8", "router.hop=20ns", "dram.wait=true", "primary.always=true", "pcie.overlap=true"},
		}, nil)
	}
}

// table prints a line for each list of settings, and what the authors' simulator has for it.
func (b *bench) table(w beacon.Workload, m beacon.Mode, platforms string, settings [][]string, authors map[string]string) {
	head, rule := "|", "| ---"
	for _, name := range strings.Split(platforms, ",") {
		head, rule = head+" | "+name, rule+" | ---"
	}
	if authors != nil {
		head, rule = head+" | authors' simulator", rule+" | ---"
	}
	fmt.Printf("%s |\n%s |\n", head, rule)
	for _, set := range settings {
		name := strings.Join(set, ", ")
		if set == nil {
			name = "as they are"
		}
		fmt.Printf("| %s", name)
		for _, o := range b.micros(w, m, platforms, set...) {
			fmt.Printf(" | %.1f", 1e6*o.Seconds)
		}
		if authors != nil {
			fmt.Printf(" | %s", authors[name])
		}
		fmt.Println(" |")
	}
}

// authors prints what the authors' simulator gives beside ours.
func (b *bench) authors() {
	fmt.Print("\nFirmware's cost of a command, golden workload: BG-DGSP's time over BG-2's.\n\n| µs | authors' simulator | faithful | strict |\n| --- | --- | --- | --- |\n")
	for _, c := range []struct{ cost, want string }{{"0.1", "1.00"}, {"0.2", "1.31"}, {"0.4", "2.5"}, {"1", "6.3"}} {
		fmt.Printf("| %s | %s", c.cost, c.want)
		for _, m := range []beacon.Mode{beacon.Faithful, beacon.Strict} {
			if o := b.micros(golden, m, "BG-DGSP,BG-2", "firmware.command="+c.cost+"us"); len(o) == 2 {
				fmt.Printf(" | %.2f", o[0].Seconds/o[1].Seconds)
			}
		}
		fmt.Println(" |")
	}
	fmt.Print("\nDRAM at more channels, amazon, µs of BG-2. The authors' simulator with a DRAM server has 164 at 32 channels, and 115 without.\n\n")
	if w, err := beacon.FindWorkloads("amazon"); b.keep(err) {
		b.table(w[0], beacon.Faithful, "BG-1,BG-2", [][]string{{"channels=16"}, {"channels=16", "dram.wait=true"}, {"channels=32"}, {"channels=32", "dram.wait=true"}}, nil)
	}
	fmt.Print("\nGolden workload, faithful, µs.\n\n")
	list := func(name, values string) (all [][]string) {
		for _, v := range strings.Split(values, ",") {
			all = append(all, []string{name + "=" + v})
		}
		return all
	}
	var all [][]string
	for _, l := range [][2]string{{"die.tr", "0us,3us,20us,50us"}, {"firmware.cores", "1,2,4,8"}, {"channel.rate", "333M,800M,1600M,2400M"}, {"dies", "2,4,8,16"}, {"page", "2048,4096,8192,16384"}, {"batch", "32,64,128,256"}} {
		all = append(all, list(l[0], l[1])...)
	}
	b.table(golden, beacon.Faithful, "BG-1,BG-DG,BG-SP,BG-DGSP,BG-2", all, map[string]string{
		"die.tr=20us": "BG-DGSP 1161.4, BG-2 1161.0", "die.tr=50us": "BG-DG 2905, BG-SP 3541",
		"firmware.cores=1": "BG-DGSP 1029, BG-2 205.5", "firmware.cores=2": "BG-DGSP 518, BG-2 205.5", "firmware.cores=4": "BG-DGSP 268, BG-2 205.5", "firmware.cores=8": "BG-DGSP 205, BG-2 205.5",
		"channel.rate=333M": "BG-2 424", "channel.rate=800M": "BG-2 206", "channel.rate=1600M": "BG-2 175", "channel.rate=2400M": "BG-2 175",
		"dies=2": "BG-2 568", "dies=4": "BG-2 301", "dies=8": "BG-2 206", "dies=16": "BG-2 190",
		"page=2048": "BG-1 954", "page=16384": "BG-1 7292", "batch=32": "BG-2 64.5", "batch=256": "BG-2 374",
	})
}

// speed prints events in a second of one core's time, the best of five: of the queue by itself,
// 256 timers, and of the simulator with its checks, on a trace that is made already.
func (b *bench) speed() {
	var s kernel.Sim
	for i := range 256 {
		s.After(kernel.Time(i), kernel.Event{A: int32(i)})
	}
	x := uint64(1)
	fmt.Printf("\nEvent queue: %.1f M events/s.\n", best(func() int64 {
		var e kernel.Event
		const events = 2_000_000
		for range events {
			s.Next(&e)
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			s.After(kernel.Time(x&0xfffff), e)
		}
		return events
	}))
	workloads, err := beacon.FindWorkloads("amazon")
	if !b.keep(err) {
		return
	}
	p := beacon.Defaults(beacon.Strict)
	t, err := workloads[0].Trace(p, 0, 0)
	if !b.keep(err) {
		return
	}
	for _, pf := range beacon.Platforms() {
		rate := best(func() (n int64) {
			for range 40 {
				r, err := beacon.Run(p, &pf, t)
				if !b.keep(err) {
					return 0
				}
				n += r.Events
			}
			return n
		})
		fmt.Printf("Simulator, %s: %.1f M events/s.\n", pf.Name, rate)
	}
}

// best returns the most millions of events in a second that the process computed, of five
// times.
func best(f func() int64) (most float64) {
	for range 5 {
		begun := computed()
		n := f()
		most = max(most, float64(n)/(computed()-begun)/1e6)
	}
	return most
}

// computed returns the seconds that the process has computed, on all cores.
func computed() float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return math.NaN()
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}
