package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/simulate/beacon"
	"diskgnn/simulate/beacon/page"
	"diskgnn/train/rundir"
)

const simulateBeaconTeaches = `Simulates solid-state drives that draw neighbours inside the drive: BeaconGNN (HPCA 2024),
its steps from a drive on the market (CC) to sampling in the flash dies with a router between
channels (BG-2), and two predecessors. No such drive exists.

   diskgnn simulate beacon                                  amazon, the paper's example
   diskgnn simulate beacon --workload all                   beside published results
   diskgnn simulate beacon --dataset graph --samples samples --out pictures
   diskgnn simulate beacon --set die.tr=20us --sweep channels=4,8,16,32
   diskgnn simulate beacon --sweep standard --mode strict --out sweeps
   diskgnn simulate beacon --explain BG-2

The batches are trees, drawn by a law of degrees that stands for each of the paper's five
graphs. With --samples they are your samples: every path through their blocks (--paths
tree), or each node once per hop (--paths dedup), at the places of a DirectGraph layout of
the dataset. The mode faithful keeps the simplifications of the authors' simulator; strict
makes none of them. Both are printed. --run RUN adds the batches per second of a training
run on this machine.`

// simulateBeacon has the options of simulate beacon.
type simulateBeacon struct {
	beacon.Options
	platforms, workload, mode string
	dataset, samples, paths   string
	layout, run, explain      string
	out                       string
	standard                  bool // sweeps
	memory                    int64
}

// beaconed is simulate beacon's output.
type beaconed struct {
	beacon.Result
	Out      string           `json:"out"`
	Measured *beacon.Measured `json:"measured"`
}

func simulateBeaconCommand() command {
	o := simulateBeacon{platforms: "all", workload: "", mode: "both", paths: string(beacon.Tree)}
	o.Batches = 8
	return command{
		name:    "simulate beacon",
		usage:   "simulate sampling inside the drive",
		teaches: simulateBeaconTeaches,
		flags: flags{
			stringFlag("platforms", "LIST", "all, or some of "+strings.Join(beacon.PlatformNames(), ", "), &o.platforms),
			flag("workload", "LIST", "all, or some of "+strings.Join(beacon.WorkloadNames(), ", "), "amazon", text(&o.workload)),
			stringFlag("dataset", "DIR", "dataset, which gets a DirectGraph layout", &o.dataset),
			stringFlag("samples", "DIR", "samples of the dataset, in place of a workload", &o.samples),
			stringFlag("paths", "NAME", "with --samples: tree, one read for every path, or dedup, one for every node of a hop", &o.paths),
			intFlag("batches", "batches to simulate, each in an idle drive", "", &o.Batches, 1),
			stringFlag("mode", "NAME", "rules: faithful, strict, or both", &o.mode),
			flag("set", "NAME=VALUE", "change a parameter; may be repeated; --explain parameters lists them", "", func(s string) error {
				o.Settings = append(o.Settings, s)
				return nil
			}),
			flag("sweep", "NAME=LIST", "simulate with each value of a parameter; may be repeated; standard: seven sweeps", "", func(s string) error {
				if s == "standard" {
					o.standard = true
					return nil
				}
				sweep, err := beacon.ParseSweep(s)
				o.Sweeps = append(o.Sweeps, sweep)
				return err
			}),
			stringFlag("run", "DIR", "training run on this machine, for comparison", &o.run),
			outFlag(&o.out, "result.json, result.csv and page.html"),
			outputFlag("directgraph", "FILE", "write the dataset as a DirectGraph to a new file; it is held in memory", &o.layout),
			stringFlag("explain", "NAME", "describe a platform, or list the parameters, and end", &o.explain),
			seedFlag(&o.Seed),
			parallelFlag("workers", "simulations at a time, each of a batch on a platform", &o.Workers),
			memoryFlag(&o.memory),
		},
		run: func(ctx context.Context, s *session) (outcome, error) {
			if o.explain != "" {
				return explained(o.explain)
			}
			return shows(o.simulate, beaconed.outcome)(ctx, s)
		},
	}
}

// simulate checks the options, opens the workloads, and writes the results.
func (o *simulateBeacon) simulate(ctx context.Context, s *session) (v beaconed, err error) {
	if o.Platforms, err = beacon.FindPlatforms(o.platforms); err != nil {
		return v, err
	}
	modes := map[string][]beacon.Mode{"both": {beacon.Faithful, beacon.Strict}, "faithful": {beacon.Faithful}, "strict": {beacon.Strict}}
	if o.Modes = modes[o.mode]; o.Modes == nil {
		return v, fault.New(fault.ErrUsage, "--mode %s is not one of faithful, strict, both", o.mode)
	}
	if paths := beacon.Paths(o.paths); paths != beacon.Tree && paths != beacon.Dedup {
		return v, fault.New(fault.ErrUsage, "--paths %s is not one of tree, dedup", o.paths)
	}
	if o.memory == 0 {
		o.memory, _ = budget.Default()
	}
	if o.out != "" {
		if err := absent(o.out, "name a new directory"); err != nil {
			return v, err
		}
		if err := vfs.CheckParents(vfs.OS, o.out); err != nil {
			return v, err
		}
	}
	if err := o.open(ctx, s.rep); err != nil {
		return v, err
	}
	if o.Samples != nil {
		defer func() { err = errors.Join(err, o.Samples.Close()) }()
	}
	if o.standard {
		o.Sweeps = append(o.Sweeps, beacon.StandardSweeps(o.Samples != nil)...)
	}
	o.Memory = o.memory
	if o.layout != "" {
		if err := o.lay(ctx); err != nil {
			return v, err
		}
	}
	if o.run != "" {
		if v.Measured, err = measure(o.run); err != nil {
			return v, err
		}
	}
	n, err := o.Runs()
	if err != nil {
		return v, err
	}
	task := s.rep.Task("simulate", n, progress.Batches)
	result, err := beacon.Simulate(ctx, o.Options, func() { task.Add(1) })
	task.Done()
	if err != nil {
		return v, err
	}
	v.Result = *result
	if o.out == "" {
		return v, nil
	}
	v.Out = o.out
	return v, v.write(o.out)
}

// open finds the workloads, or opens samples.
func (o *simulateBeacon) open(ctx context.Context, rep progress.Reporter) (err error) {
	if o.samples == "" && o.dataset == "" {
		if o.layout != "" {
			return fault.New(fault.ErrUsage, "--directgraph writes a dataset: give --dataset and --samples")
		}
		o.Workloads, err = beacon.FindWorkloads(cmp.Or(o.workload, "amazon"))
		return err
	}
	if o.workload != "" {
		return fault.New(fault.ErrUsage, "--workload takes the place of --dataset and --samples")
	}
	if err := errors.Join(required("dataset", o.dataset), required("samples", o.samples)); err != nil {
		return err
	}
	page := beacon.Defaults(beacon.Strict)
	if err := page.Set(o.Settings...); err != nil {
		return err
	}
	o.Samples, err = beacon.OpenSamples(ctx, rep, vfs.OS, o.dataset, o.samples, beacon.Paths(o.paths), page.Flash.Page, o.memory)
	if err != nil {
		return err
	}
	if most := o.Samples.Batches(); o.Batches > most {
		o.Batches = most
	}
	return nil
}

// lay writes the dataset in DirectGraph's form.
func (o *simulateBeacon) lay(ctx context.Context) error {
	if err := absent(o.layout, "a DirectGraph is written to a new file only"); err != nil {
		return err
	}
	return o.Samples.Write(ctx, vfs.OS, o.layout, o.memory)
}

// absent refuses the name of an existing file.
func absent(name, advice string) error {
	found, err := vfs.Exists(vfs.OS, name)
	if found {
		return fault.New(fault.ErrExists, "%s exists: %s", name, advice)
	}
	return err
}

// measure reads the batches per second of a run, in the median epoch after the first, which fills
// caches.
func measure(dir string) (*beacon.Measured, error) {
	f, err := rundir.Read(vfs.OS, dir)
	if err != nil {
		return nil, err
	}
	epochs, err := f.ReadLines(vfs.OS, dir)
	if err != nil {
		return nil, err
	}
	var rates []float64
	for i, e := range epochs {
		if e.Seconds > 0 && (i > 0 || len(epochs) == 1) {
			rates = append(rates, float64(e.Batches)/e.Seconds)
		}
	}
	if len(rates) == 0 {
		return nil, fault.New(fault.ErrInput, "%s has no finished epoch", dir)
	}
	slices.Sort(rates)
	return &beacon.Measured{Run: dir, Store: cmp.Or(f.Store, "packed"), Engine: f.Setup.Engine, Epochs: len(epochs), PerSecond: rates[len(rates)/2]}, nil
}

// write makes the directory of results.
func (v *beaconed) write(dir string) error {
	if err := vfs.MakeParents(vfs.OS, dir); err != nil {
		return err
	}
	if err := vfs.OS.MkdirAll(dir); err != nil {
		return err
	}
	encoded, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		return err
	}
	if err := vfs.ReplaceFile(vfs.OS, filepath.Join(dir, "result.json"), append(encoded, '\n')); err != nil {
		return err
	}
	var table strings.Builder
	if err := v.CSV(&table); err != nil {
		return err
	}
	if err := vfs.ReplaceFile(vfs.OS, filepath.Join(dir, "result.csv"), []byte(table.String())); err != nil {
		return err
	}
	var shown strings.Builder
	if err := page.Write(&shown, &v.Result, v.Measured); err != nil {
		return err
	}
	return vfs.ReplaceFile(vfs.OS, filepath.Join(dir, "page.html"), []byte(shown.String()))
}

// explained describes a platform, or lists the parameters.
func explained(name string) (outcome, error) {
	if name == "parameters" {
		o := outcome{}
		type parameter struct{ Name, Faithful, Strict, About string }
		var all []parameter
		faithful, strict := beacon.Defaults(beacon.Faithful), beacon.Defaults(beacon.Strict)
		for _, q := range beacon.Parameters() {
			p := parameter{q.Name, q.Get(faithful), q.Get(strict), q.About}
			all = append(all, p)
			value := p.Faithful
			if p.Strict != value {
				value += ", strict " + p.Strict
			}
			o.lines = append(o.lines, line{p.Name, value + ": " + p.About})
		}
		o.object = all
		return o, nil
	}
	found, err := beacon.FindPlatforms(name)
	if err != nil {
		return outcome{}, err
	}
	var o outcome
	for i := range found {
		for k, text := range strings.Split(found[i].Explain(), "\n") {
			label := ""
			if k == 0 {
				label = found[i].Name
			}
			o.lines = append(o.lines, line{label, text})
		}
	}
	o.object = found
	return o, nil
}

func (v beaconed) outcome() outcome {
	o := outcome{object: v, lines: []line{
		{"simulated", fmt.Sprintf("%s on each platform; no such drive exists, nothing here is measured", units.Of(v.Batches, "batch"))},
	}}
	if v.Out != "" {
		o.lines = append(o.lines, line{"made", v.Out})
	}
	for _, name := range slices.Sorted(maps.Keys(v.Inflation)) {
		o.add("DirectGraph", "%s grows by %.1f%%", name, 100*v.Inflation[name])
	}
	before := ""
	for i := range v.Rows {
		r := &v.Rows[i]
		if table := strings.TrimSpace(r.Workload + ", " + string(r.Mode) + " " + r.Setting); table != before {
			before = table
			o.lines = append(o.lines, line{table, fmt.Sprintf("%11s %10s %6s %8s %6s %6s %9s %9s", "batch", "targets/s", "dies", "channels", "cores", "trips", "PCIe", "energy")})
		}
		o.lines = append(o.lines, line{r.Platform, fmt.Sprintf("%8.1f µs %10s %6.1f %8.1f %6.1f %6.0f %9s %6.2f mJ",
			1e6*r.Seconds, units.Short(int64(r.Targets)), r.DiesBusy, r.ChannelsBusy, r.CoresBusy, r.RoundTrips, budget.FormatBytes(int64(r.PCIeBytes)), 1e3*r.Joules.Total())})
	}
	for i, c := range v.Claims {
		if i == 0 {
			o.add("published", "%7s %8s %8s %8s %10s %10s", "paper", "authors'", "faithful", "strict", "σ halved", "σ × 1.5")
		}
		text := fmt.Sprintf("%7.2f %8.2f %8.2f %8.2f %10.2f %10.2f  %s", c.Paper, c.Authors, c.Faithful, c.Strict, v.Doubts[i].Halved, v.Doubts[i].More, c.What)
		if !c.Holds() {
			text += fmt.Sprintf(" (misses ±%.0f%%)", 100*c.Within)
		}
		o.lines = append(o.lines, line{"", text})
	}
	for i, d := range v.EnergyDoubts {
		if i == 0 {
			o.add("energy", "%7s %8s %8s %10s %10s", "/ CC", "/ BG-1", "watts", "BG-1 DRAM", "CC PCIe")
		}
		o.add("", "%7.2f %8.2f %8.1f %9.0f%% %9.0f%%  %s", d.OverCC, d.OverBG1, d.Watts, 100*d.DRAMShare, 100*d.PCIeShare, d.What)
	}
	if m := v.Measured; m != nil {
		o.add("measured here", "%.4g batches/s: %s of the store %s, engine %s", m.PerSecond, m.Run, m.Store, m.Engine)
		for i := range v.Rows {
			if r := &v.Rows[i]; r.Setting == "" {
				o.lines = append(o.lines, line{r.Platform, fmt.Sprintf("%.4g batches/s, %s, simulated: %.2f× the run's", r.PerSecond, r.Mode, r.PerSecond/m.PerSecond)})
			}
		}
		o.lines = append(o.lines, line{"assumed", beacon.Assumed})
	}
	return o
}
