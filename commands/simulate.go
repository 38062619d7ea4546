package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"diskgnn/dataset"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/presample/mbfile"
	"diskgnn/simulate/drives"
	"diskgnn/simulate/trace"
)

const simulateDrivesTeaches = `Predicts the time of an epoch on other drives: the mini-batches of samples, or of a trace,
are replayed in virtual time on one, two, four and eight drives, with their latency, rates
and queues, the GPU's link, and computing.

   diskgnn simulate drives --dataset graph --samples samples --compute 0.02
   diskgnn simulate drives --dataset graph --samples samples --store mmap --cache 30%
   diskgnn simulate drives --dataset graph --samples samples --record rows.trace
   diskgnn simulate drives --trace rows.trace --drive samsung-980pro --count 1,2,3,4

The reads of each store follow from the samples' rows: rows, one read for each row;
packed, one chunk for each batch; mmap, page faults; gids, reads by the GPU; memory, no
reads. Sampling and computing are not simulated: --compute and --sampling set the seconds
of a batch, which a run's report shows.

The drives are presets from data sheets, and the drives of --drives FILE.yaml, a file of
this form:

   drives:
     mine: {latency_us: 80, requests_per_second: 500000,
            bytes_per_second: 3000000000, queue_depth: 256}

bench io measures these figures. For each number of drives the output has the time and its
bound; then the number of drives that this GPU can use, the effect of halving and doubling
each parameter and, by --prices, the drives and memory with the most batches for the money.
All figures are simulated or predicted, none is measured.`

// simulateCommand has the simulations of other machines.
func simulateCommand() command {
	return command{
		name:    "simulate",
		usage:   "predict times on other machines",
		form:    "diskgnn simulate drives|beacon [flags]",
		subs:    []command{simulateDrivesCommand(), simulateBeaconCommand()},
		unknown: "no subcommand %q; use drives or beacon",
		missing: "name a subcommand: drives or beacon",
	}
}

// simulateDrives has the options of simulate drives.
type simulateDrives struct {
	dataset, samples string
	trace, record    string
	store            string
	batches, warmup  int
	cache            *budget.Size
	gpuCache         int64
	window           int
	accumulate       bool
	drive, drives    string
	link             string
	count            []float64
	threads          int
	slots            int
	compute          float64
	sampling         float64
	prices, machine  string
	memory           int64
}

// simulated is simulate drives' output.
type simulated struct {
	Store      string       `json:"store"`
	Batches    int          `json:"batches"`
	Warmup     int          `json:"warmup_batches"`
	RowBytes   int64        `json:"row_bytes"`
	TableBytes int64        `json:"table_bytes"`
	CacheBytes int64        `json:"cache_bytes"`
	Drive      string       `json:"drive"`
	Figures    drives.Drive `json:"drive_figures"`
	Link       int64        `json:"link_bytes_per_second"`

	Runs          []priced             `json:"runs"`
	Enough        int                  `json:"enough_drives"`
	Sensitivities []drives.Sensitivity `json:"sensitivities"`

	Machine    string             `json:"machine"`
	Currency   string             `json:"currency"`
	Suggestion *drives.Suggestion `json:"suggestion"`
}

// priced is a run with the price of its machine.
type priced struct {
	drives.Result
	Cost    *float64 `json:"cost"`
	PerCost *float64 `json:"batches_per_second_per_cost"`
}

func simulateDrivesCommand() command {
	o := simulateDrives{
		store: "rows", batches: 64, cache: &budget.Size{Value: 10, Unit: budget.UnitPercent}, gpuCache: 4 << 30, window: 8,
		drive: "intel-p5510", count: []float64{1, 2, 4, 8}, machine: "a", warmup: -1,
	}
	return command{
		name:    "simulate drives",
		usage:   "predict the time of an epoch on other drives",
		teaches: simulateDrivesTeaches,
		flags: flags{
			stringFlag("dataset", "DIR", "dataset with the rows that are read", &o.dataset),
			stringFlag("samples", "DIR", "samples of the dataset: the batches of the first sample epoch are used", &o.samples),
			stringFlag("trace", "FILE", "trace to replay, in place of samples", &o.trace),
			outputFlag("record", "FILE", "write the samples' batches to a new file, as a trace", &o.record),
			stringFlag("store", "NAME", "store to simulate: "+strings.Join(drives.Stores(), ", ")+"; for a trace that has only reads, recorded", &o.store),
			intFlag("batches", "number of training batches, from the first; they are held in memory", "", &o.batches, 1),
			intFlag("warmup", "first batches that only fill caches and do not count", "a quarter; none of recorded", &o.warmup, 0),
			sizeFlag("cache", "RAM of the store for its hottest rows; for mmap, the page cache", "", budget.UnitPercent, &o.cache),
			bytesFlag("gpu-cache", "with gids: GPU memory for pages", "4GiB", &o.gpuCache),
			intFlag("window", "with gids: batches ahead with pages that the GPU's cache keeps", "", &o.window, 0),
			boolFlag("accumulate", "read small batches together, as GIDS's accumulator does", &o.accumulate),
			stringFlag("drive", "NAME", "kind of drive: "+strings.Join(slices.Sorted(maps.Keys(drives.Known().Drives)), ", ")+", or one in --drives", &o.drive),
			flag("drives", "FILE", "YAML file with more kinds of drives, links, software", "", func(s string) error { o.drives = s; return nil }),
			floatsFlag("count", "numbers of drives to simulate", &o.count),
			flag("link", "NAME", "link of the GPU: "+strings.Join(slices.Sorted(maps.Keys(drives.Known().Links)), ", ")+", or one in --drives", "the machine's", func(s string) error { o.link = s; return nil }),
			intFlag("threads", "threads that submit reads; for mmap, page faults at a time", "the store's", &o.threads, 1),
			intFlag("slots", "batches under way at once; 1: nothing overlaps", "2; of recorded, the run's", &o.slots, 1),
			floatFlag("compute", "seconds of computing a batch; 0: from the trace", &o.compute),
			floatFlag("sampling", "seconds of sampling a batch; 0: from the trace", &o.sampling),
			flag("prices", "FILE", "YAML file of prices", "Hyperion's report", func(s string) error { o.prices = s; return nil }),
			stringFlag("machine", "NAME", "machine of the prices that has the simulated drives", &o.machine),
			memoryFlag(&o.memory),
		},
		run: shows(o.run, simulated.outcome),
	}
}

// counts returns the numbers of drives to simulate.
func (o *simulateDrives) counts() (counts []int, err error) {
	for _, x := range o.count {
		n := int(x)
		if float64(n) != x || n < 1 || n > drives.MaxDrives {
			return nil, fault.New(fault.ErrUsage, "--count %v is no number of drives from 1 to %d", x, drives.MaxDrives)
		}
		counts = append(counts, n)
	}
	if len(counts) == 0 || len(counts) > 64 {
		return nil, fault.New(fault.ErrUsage, "--count has %d numbers; give 1 to 64", len(counts))
	}
	return counts, nil
}

// run simulates, predicts and prices.
func (o *simulateDrives) run(ctx context.Context, s *session) (v simulated, err error) {
	counts, err := o.counts()
	if err != nil {
		return v, err
	}
	if o.compute < 0 || o.sampling < 0 || o.compute > 1e6 || o.sampling > 1e6 {
		return v, fault.New(fault.ErrUsage, "--compute %v, --sampling %v: the seconds of a batch must be from 0 to a million", o.compute, o.sampling)
	}
	prices, err := drives.ReadPrices(vfs.OS, o.prices)
	if err != nil {
		return v, err
	}
	priced, err := prices.Find(o.machine)
	if err != nil {
		return v, err
	}
	if o.memory == 0 {
		o.memory, _ = budget.Default()
	}
	w, h, err := o.workload(ctx, s.rep)
	if err != nil {
		return v, err
	}
	if w.Nodes == 0 && !slices.Contains(s.given, "store") {
		o.store = "recorded"
	}
	on, err := o.machineOf(priced, h)
	if err != nil {
		return v, err
	}
	caches, err := o.caches(w)
	if err != nil {
		return v, err
	}
	if err := budget.Check("the batches and the caches' tables", w.Bytes()+drives.PlanBytes(o.store, w), o.memory); err != nil {
		return v, err
	}
	loads, err := drives.Plan(o.store, w, caches)
	if err != nil {
		return v, err
	}
	v = simulated{
		Store: o.store, Batches: len(loads), Warmup: caches.Warmup, RowBytes: w.RowBytes, TableBytes: w.TableBytes(), CacheBytes: caches.Memory,
		Drive: o.drive, Figures: on.Drive, Link: on.Link, Machine: o.machine, Currency: prices.Currency, Enough: drives.Enough(loads, on),
	}
	if err := o.simulate(ctx, &v, loads, on, counts); err != nil {
		return v, err
	}
	if _, known := prices.Drives[o.drive]; !known {
		s.rep.Logf("the drive %s has no price: costs are left out", o.drive)
		return v, nil
	}
	priced.Drive = o.drive
	for i := range v.Runs {
		r := &v.Runs[i]
		c := prices.With(priced, r.Drives, caches.Memory)
		per := drives.PerCost(r.Batches, r.Seconds, c)
		r.Cost, r.PerCost = &c, &per
	}
	best, err := prices.Suggest(priced, on, max(16, slices.Max(counts)), memories(w), func(memory int64) ([]drives.Load, error) {
		c := caches
		c.Memory = memory
		return drives.Plan(o.store, w, c)
	})
	v.Suggestion = &best
	return v, err
}

// simulate simulates every number of drives, and the first number with each parameter changed.
func (o *simulateDrives) simulate(ctx context.Context, v *simulated, loads []drives.Load, on drives.Machine, counts []int) error {
	var cases []drives.Case
	for _, n := range counts {
		on.Drives = n
		together := loads
		if o.accumulate {
			together = drives.Accumulate(loads, on.Drive.Accesses(n))
		}
		cases = append(cases, drives.Case{Loads: together, Machine: on})
	}
	results, err := drives.RunAll(ctx, cases)
	if err != nil {
		return err
	}
	for _, r := range results {
		v.Runs = append(v.Runs, priced{Result: r})
	}
	v.Sensitivities, err = drives.Sensitivities(ctx, cases[0])
	return err
}

// memories returns the amounts of memory for suggestions, ascending.
func memories(w *drives.Workload) (m []int64) {
	for _, percent := range []int64{0, 1, 2, 5, 10, 20, 30, 50, 75, 100} {
		m = append(m, w.TableBytes()/100*percent)
	}
	return slices.Compact(m)
}

// machineOf returns the simulated machine, without the number of its drives. A recorded run keeps
// its numbers of batches and reads under way.
func (o *simulateDrives) machineOf(m drives.Priced, h trace.Header) (on drives.Machine, err error) {
	p, err := drives.ReadPresets(vfs.OS, o.drives)
	if err != nil {
		return on, err
	}
	if o.link == "" {
		o.link = m.Link
	}
	drive, known := p.Drives[o.drive]
	if !known {
		return on, fault.New(fault.ErrUsage, "unknown drive %q; use one of %s; --drives FILE.yaml adds more", o.drive, strings.Join(slices.Sorted(maps.Keys(p.Drives)), ", "))
	}
	link, known := p.Links[o.link]
	if !known {
		return on, fault.New(fault.ErrUsage, "unknown link %q; use one of %s; --drives FILE.yaml adds more", o.link, strings.Join(slices.Sorted(maps.Keys(p.Links)), ", "))
	}
	software, known := p.Software[o.store]
	if !known {
		return on, fault.New(fault.ErrUsage, "no store %q can be simulated; use one of %s", o.store, strings.Join(drives.Stores(), ", "))
	}
	if o.threads > 0 {
		software.Threads = o.threads
	}
	slots := cmp.Or(o.slots, 2)
	if o.store == "recorded" {
		software.InFlight = cmp.Or(h.InFlight, software.InFlight)
		slots = cmp.Or(o.slots, h.Slots, slots)
	}
	on = drives.Machine{Drive: drive, Drives: 1, Link: link.Bytes, Software: software, Slots: slots}
	return on, on.Check()
}

// caches returns the store's memory for a workload.
func (o *simulateDrives) caches(w *drives.Workload) (c drives.Caches, err error) {
	c = drives.Caches{GPU: o.gpuCache, Window: o.window, Warmup: o.warmup}
	if o.warmup < 0 {
		c.Warmup = len(w.Batches) / 4
		if o.store == "recorded" {
			c.Warmup = 0 // the trace has the state of the caches
		}
	}
	if w.RowBytes == 0 {
		return c, nil // the trace has recorded reads
	}
	rows, err := o.cache.Rows(w.Nodes, int(w.RowBytes))
	if err != nil {
		return c, fmt.Errorf("--cache: %w", err)
	}
	c.Memory = min(rows, w.Nodes) * w.RowBytes
	return c, nil
}

// workload reads the batches of a trace or of samples, and the trace's header.
func (o *simulateDrives) workload(ctx context.Context, rep progress.Reporter) (w *drives.Workload, h trace.Header, err error) {
	given := o.dataset != "" || o.samples != ""
	switch {
	case o.trace != "" && (given || o.record != ""):
		return nil, h, fault.New(fault.ErrUsage, "--trace takes the place of --dataset, --samples and --record")
	case o.trace != "":
		w, h, err = o.replay(ctx)
	default:
		if err := errors.Join(required("dataset", o.dataset), required("samples", o.samples)); err != nil {
			return nil, h, err
		}
		w, h, err = o.draw(ctx, rep)
	}
	if err != nil {
		return nil, h, err
	}
	for i := range w.Batches {
		b := &w.Batches[i]
		if o.compute > 0 {
			b.ComputeNanos = int64(o.compute * 1e9)
		}
		if o.sampling > 0 {
			b.SampleNanos = int64(o.sampling * 1e9)
		}
	}
	if o.compute == 0 && !slices.ContainsFunc(w.Batches, func(b trace.Batch) bool { return b.ComputeNanos > 0 }) {
		rep.Logf("computing takes no time: --compute sets the seconds of a batch")
	}
	return w, h, nil
}

// replay reads a trace's first batches.
func (o *simulateDrives) replay(ctx context.Context) (*drives.Workload, trace.Header, error) {
	w := &drives.Workload{}
	var h trace.Header
	enough := errors.New("enough batches")
	_, err := trace.Open(vfs.OS, o.trace, func(r *trace.Reader, b *trace.Batch) error {
		h = r.Header()
		w.Nodes, w.RowBytes, w.LongestRead, w.Files = h.Nodes, h.RowBytes, int64(h.LongestRead), r.Files()
		if len(w.Batches) == o.batches {
			return enough
		}
		return errors.Join(ctx.Err(), o.hold(w, b))
	})
	if err != nil && !errors.Is(err, enough) {
		return nil, h, err
	}
	if len(w.Batches) == 0 {
		return nil, h, fault.New(fault.ErrInput, "%s has no batches", o.trace)
	}
	return w, h, nil
}

// hold adds a batch to w, or returns an error if the memory does not suffice.
func (o *simulateDrives) hold(w *drives.Workload, b *trace.Batch) error {
	if err := budget.Check("the list of batches (see --batches)", w.Bytes()+4*int64(len(b.Rows))+24*int64(len(b.Reads)), o.memory); err != nil {
		return err
	}
	return w.Add(b)
}

// draw reads the first batches of samples, and records them if the options ask for it.
func (o *simulateDrives) draw(ctx context.Context, rep progress.Reporter) (w *drives.Workload, h trace.Header, err error) {
	d, err := dataset.Open(vfs.OS, o.dataset)
	if err != nil {
		return nil, h, err
	}
	r, err := mbfile.Open(vfs.OS, o.samples)
	if err != nil {
		return nil, h, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if h, err = drives.Samples(d, r); err != nil {
		return nil, h, err
	}
	w = &drives.Workload{Nodes: h.Nodes, RowBytes: h.RowBytes}
	if err := budget.Check("the hotness of the nodes", 4*h.Nodes, o.memory); err != nil {
		return nil, h, err
	}
	if w.Hotness, err = r.Hotness(); err != nil {
		return nil, h, err
	}
	task := rep.Task("read", int64(min(o.batches, r.Facts().BatchesPerEpoch)), progress.Batches)
	defer task.Done()
	if err := drives.Each(ctx, r, o.batches, func(b *trace.Batch) error {
		task.Add(1)
		return o.hold(w, b)
	}); err != nil {
		return nil, h, err
	}
	if len(w.Batches) == 0 {
		return nil, h, fault.New(fault.ErrInput, "%s has no training batches", o.samples)
	}
	if o.record == "" {
		return w, h, nil
	}
	return w, h, trace.Create(vfs.OS, o.record, h, func(t *trace.Writer) error {
		for i := range w.Batches {
			if err := t.Append(&w.Batches[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (v simulated) outcome() outcome {
	o := outcome{object: v, lines: []line{
		{"simulated", fmt.Sprintf("%s of the store %s, after %s that fill caches; nothing here is measured", units.Of(v.Batches, "batch"), v.Store, units.Of(v.Warmup, "batch"))},
		{"drive", fmt.Sprintf("%s: %s, %s requests/s, %s (%s)", v.Drive, units.BytesPerSecond(float64(v.Figures.Bytes)), units.Short(v.Figures.Requests), units.Seconds(v.Figures.LatencyMicros/1e6), v.Figures.Source)},
		{"link", units.BytesPerSecond(float64(v.Link))},
	}}
	first := v.Runs[0]
	o.add("reads", "%s, %s; %s of %s hit; %s useful", units.Of(first.Requests, "request"), budget.FormatBytes(first.BytesRead), percent(first.HitRatio), units.Of(first.Rows, "row"), budget.FormatBytes(first.UsefulBytes))
	for _, r := range v.Runs {
		text := fmt.Sprintf("%s, %.2f× the first; reading at %s, %s requests/s; bound by %s", units.Seconds(r.Seconds), ratio(first.Seconds, r.Seconds), units.BytesPerSecond(r.BytesPerSecond), units.Short(int64(r.RequestsPerSecond)), r.Bound)
		if r.Cost != nil {
			text += fmt.Sprintf("; %.3g batches/s per 1,000 %s of %s", 1000**r.PerCost, v.Currency, units.Count(int64(*r.Cost)))
		}
		o.lines = append(o.lines, line{units.Of(r.Drives, "drive"), text})
	}
	o.add("enough", "%s: any larger number is less than 5%% faster (predicted)", units.Of(v.Enough, "drive"))
	for _, s := range v.Sensitivities {
		if s.Change <= -0.005 || s.Change >= 0.005 {
			o.add("sensitivity", "%s: %+.1f%%, %s", s.What, 100*s.Change, units.Seconds(s.Seconds))
		}
	}
	if b := v.Suggestion; b != nil {
		o.lines = append(o.lines, line{"most for the money", fmt.Sprintf("%s with %s of RAM in machine %s: %.3g batches/s per 1,000 %s of %s (predicted)",
			units.Of(b.Drives, "drive"), budget.FormatBytes(b.Memory), v.Machine, 1000*b.PerCost, v.Currency, units.Count(int64(b.Cost)))})
	}
	return o
}

// ratio returns a over b, and 1 if both are 0.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 1
	}
	return a / b
}
