package beacon

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/rng"
	"diskgnn/simulate/directgraph"
)

// Options select the simulations.
type Options struct {
	Platforms []Platform
	Workloads []Workload // or
	Samples   *Samples
	Modes     []Mode
	Settings  []string // NAME=VALUE, for all simulations
	Sweeps    []Sweep  // one at a time, with Settings for the other parameters
	Batches   int
	Seed      uint64
	Workers   int   // 0: one per processor
	Memory    int64 // limit of the memory of batches and runs, in bytes; 0: none
}

// Sweep is a parameter and its values.
type Sweep struct {
	Name   string
	Values []string
}

// ParseSweep reads a sweep in the form NAME=VALUE,VALUE…. Errors are of kind fault.ErrUsage.
func ParseSweep(s string) (Sweep, error) {
	name, values, found := strings.Cut(s, "=")
	if !found || values == "" {
		return Sweep{}, fault.New(fault.ErrUsage, "%q: give NAME=VALUE,VALUE…, such as channels=4,8,16", s)
	}
	sweep := Sweep{Name: strings.TrimSpace(name), Values: strings.Split(values, ",")}
	for _, v := range sweep.Values {
		if err := Defaults(Strict).Set(sweep.Name + "=" + v); err != nil {
			return sweep, err
		}
	}
	return sweep, nil
}

// StandardSweeps returns the sweeps of the publication: the drive's parameters one by one, and the
// firmware's cost, which decides the router's gain. For samples it leaves out the batch size, which they
// fix.
func StandardSweeps(samples bool) []Sweep {
	list := func(name, values string) Sweep { return Sweep{name, strings.Split(values, ",")} }
	all := []Sweep{
		list("channels", "4,8,16,32"), list("dies", "2,4,8,16"), list("channel.rate", "333M,800M,1.6G,2.4G"), list("die.tr", "0us,3us,20us,50us"),
		list("firmware.cores", "1,2,4,8"), list("firmware.command", "0.1us,0.2us,0.4us,1us"), list("batch", "32,64,128,256"),
	}
	if samples {
		all = all[:len(all)-1]
	}
	return all
}

// Row is the outcome of one platform, with its workload, mode and setting. Setting is "" except in sweeps.
type Row struct {
	Workload string `json:"workload"` // "samples" for those
	Mode     Mode   `json:"mode"`
	Setting  string `json:"setting"` // NAME=VALUE of a sweep; "": none
	Outcome
}

// Result has the outcomes of a simulation.
type Result struct {
	Batches int      `json:"batches"`
	Seed    uint64   `json:"seed"`
	Set     []string `json:"set"`
	Rows    []Row    `json:"rows"`
	// Inflation is the inflation by DirectGraph of each graph (see directgraph.Layout.Inflation). For a
	// workload it is the inflation of nodes drawn by its degree law.
	Inflation map[string]float64 `json:"inflation"`
	Claims    []Claim            `json:"claims"`
	// Doubts are the claims with other degree laws in faithful mode: with deviations of 0.5 and 1.5 times the
	// default.
	Doubts []Doubt `json:"doubts"`
	// EnergyDoubts are the figures of energy with other assumptions.
	EnergyDoubts []EnergyDoubt `json:"energy_doubts"`
}

// Runs returns the number of runs of Simulate: one for each batch on each platform.
func (o *Options) Runs() (n int64, err error) {
	studies, _, err := o.studies()
	if err != nil {
		return 0, err
	}
	doubted, err := o.doubts()
	for _, s := range append(studies, doubted...) {
		n += int64(len(s.Platforms) * o.Batches)
	}
	return n, err
}

// Memory of a trace, in bytes a node: up to two commands a node, while its slices grow. Memory of a run:
// its events and queues in bytes a node, its dies in bytes a die, and channels and timelines in bytes.
const (
	traceNodeBytes = 160
	runNodeBytes   = 360
	runDieBytes    = 64
	runBytes       = 1 << 20
)

// fit returns an error of kind fault.ErrBudget if the batches of all studies, which are in memory
// together, and their runs need more than Memory. For samples, with batches of unknown size, it sets the
// most nodes of a batch instead.
func (o *Options) fit(studies []Study) error {
	if o.Memory == 0 {
		return nil
	}
	runs := int64(o.Workers)
	if runs == 0 {
		runs = int64(runtime.GOMAXPROCS(0))
	}
	var traces, largest, dies float64
	for _, s := range studies {
		traces += s.Params.Commands()
		largest = max(largest, s.Params.Commands())
		dies = max(dies, float64(s.Params.dies()))
	}
	besides := runs * (int64(dies)*runDieBytes + runBytes)
	if o.Samples != nil {
		o.Samples.most = max(0, min(maxCommands, (o.Memory-o.Samples.held-besides)/(int64(len(studies))*traceNodeBytes+runs*runNodeBytes)))
		return nil
	}
	return budget.Check("simulating all workloads, modes and settings side by side",
		besides+int64(traces*traceNodeBytes+largest*float64(runs)*runNodeBytes), o.Memory)
}

// Simulate runs the simulations that the options select. It calls done, unless nil, after each run, from
// several goroutines: Runs times.
func Simulate(ctx context.Context, o Options, done func()) (*Result, error) {
	r := &Result{Batches: o.Batches, Seed: o.Seed, Set: o.Settings, Inflation: map[string]float64{}}
	studies, rows, err := o.studies()
	if err != nil {
		return nil, err
	}
	doubted, err := o.doubts()
	if err != nil {
		return nil, err
	}
	all := append(studies, doubted...)
	if err := o.fit(all); err != nil {
		return nil, err
	}
	outcomes, err := RunAll(ctx, all, o.Batches, o.Workers, done)
	if err != nil {
		return nil, err
	}
	if o.Samples != nil {
		if err := o.Samples.Unchanged(); err != nil {
			return nil, err
		}
	}
	for i, row := range rows {
		for _, out := range outcomes[i] {
			row.Outcome = out
			if row.Setting != "" { // rows of sweeps have no timelines
				row.BinSeconds, row.DieTimeline, row.ChannelTimeline, row.CoreTimeline = 0, nil, nil, nil
			}
			r.Rows = append(r.Rows, row)
		}
	}
	if r.Claims = Claims(r.by(rowsOf(r.Rows, ""))); r.Claims != nil {
		r.Doubts, r.EnergyDoubts = o.doubted(outcomes[len(studies):])
	}
	return r, o.inflate(r)
}

func rowsOf(rows []Row, setting string) (of []*Row) {
	for i := range rows {
		if rows[i].Setting == setting {
			of = append(of, &rows[i])
		}
	}
	return of
}

func (r *Result) by(rows []*Row) map[Mode]map[string]map[string]*Outcome {
	by := map[Mode]map[string]map[string]*Outcome{}
	for _, row := range rows {
		if by[row.Mode] == nil {
			by[row.Mode] = map[string]map[string]*Outcome{}
		}
		if by[row.Mode][row.Workload] == nil {
			by[row.Mode][row.Workload] = map[string]*Outcome{}
		}
		by[row.Mode][row.Workload][row.Platform] = &row.Outcome
	}
	return by
}

func (o *Options) params(m Mode, settings ...string) (*Params, error) {
	p := Defaults(m)
	if o.Samples != nil {
		p.Model.Batch = o.Samples.BatchSize()
		for _, s := range append(slices.Clone(o.Settings), settings...) {
			if name, _, _ := strings.Cut(s, "="); slices.Contains([]string{"batch", "fanout"}, strings.TrimSpace(name)) {
				return nil, fault.New(fault.ErrUsage, "%s cannot be set for samples: presample fixed their batches and fanouts", s)
			}
		}
	}
	return p, p.Set(append(append([]string{}, o.Settings...), settings...)...)
}

// sources returns the sources of batches by name, in order.
func (o *Options) sources() (names []string, sources []Source) {
	for _, w := range o.Workloads {
		names, sources = append(names, w.Name), append(sources, Trees{w, o.Seed})
	}
	if o.Samples != nil {
		names, sources = append(names, "samples"), append(sources, o.Samples)
	}
	return names, sources
}

// studies returns the studies to run, and for each a row without its outcome.
func (o *Options) studies() (studies []Study, rows []Row, err error) {
	settings := []string{""}
	for _, s := range o.Sweeps {
		for _, v := range s.Values {
			settings = append(settings, s.Name+"="+v)
		}
	}
	names, sources := o.sources()
	for i, name := range names {
		for _, m := range o.Modes {
			for _, setting := range settings {
				var more []string
				if setting != "" {
					more = []string{setting}
				}
				p, err := o.params(m, more...)
				if err != nil {
					return nil, nil, err
				}
				studies = append(studies, Study{sources[i], p, o.Platforms})
				rows = append(rows, Row{Workload: name, Mode: m, Setting: setting})
			}
		}
	}
	return studies, rows, nil
}

// inflate computes the inflation of each graph.
func (o *Options) inflate(r *Result) error {
	if o.Samples != nil {
		r.Inflation["samples"] = o.Samples.Layout().Inflation()
	}
	p, err := o.params(Faithful)
	if err != nil {
		return err
	}
	for _, w := range o.Workloads {
		const nodes = 20_000 // drawn by the law; more nodes change only the third digit
		source := rng.New(rng.Key(o.Seed, 1))
		l, err := directgraph.New(directgraph.Shape{Page: p.Flash.Page, Feature: w.Feature}, nodes, func(int64) int64 {
			return min(w.degree(&source), directgraph.Shape{Page: p.Flash.Page, Feature: w.Feature}.MaxDegree())
		})
		if err != nil {
			return err
		}
		r.Inflation[w.Name] = l.Inflation()
	}
	return nil
}

// columns are the columns of the CSV: numbers or names.
var columns = []struct {
	name string
	of   func(*Row) any
}{
	{"workload", func(r *Row) any { return r.Workload }},
	{"mode", func(r *Row) any { return r.Mode }},
	{"setting", func(r *Row) any { return r.Setting }},
	{"platform", func(r *Row) any { return r.Platform }},
	{"seconds_per_batch", func(r *Row) any { return r.Seconds }},
	{"preparation_seconds", func(r *Row) any { return r.Preparation }},
	{"compute_seconds", func(r *Row) any { return r.Compute }},
	{"targets_per_second", func(r *Row) any { return r.Targets }},
	{"batches_per_second", func(r *Row) any { return r.PerSecond }},
	{"nodes", func(r *Row) any { return r.Nodes }},
	{"commands", func(r *Row) any { return r.Commands }},
	{"host_round_trips", func(r *Row) any { return r.RoundTrips }},
	{"channel_bytes", func(r *Row) any { return r.ChannelBytes }},
	{"pcie_bytes", func(r *Row) any { return r.PCIeBytes }},
	{"useful_bytes", func(r *Row) any { return r.UsefulBytes }},
	{"dies_busy", func(r *Row) any { return r.DiesBusy }},
	{"channels_busy", func(r *Row) any { return r.ChannelsBusy }},
	{"cores_busy", func(r *Row) any { return r.CoresBusy }},
	{"die_queue", func(r *Row) any { return r.DieQueue }},
	{"channel_queue", func(r *Row) any { return r.ChannelQueue }},
	{"latency_host_seconds", func(r *Row) any { return r.Latency.Host }},
	{"latency_pcie_seconds", func(r *Row) any { return r.Latency.PCIe }},
	{"latency_flash_seconds", func(r *Row) any { return r.Latency.Flash }},
	{"latency_dnn_seconds", func(r *Row) any { return r.Latency.DNN }},
	{"command_dispatch_seconds", func(r *Row) any { return r.Command.Dispatch }},
	{"command_wait_seconds", func(r *Row) any { return r.Command.Wait }},
	{"command_sense_seconds", func(r *Row) any { return r.Command.Sense }},
	{"command_sample_seconds", func(r *Row) any { return r.Command.Sample }},
	{"command_held_seconds", func(r *Row) any { return r.Command.Held }},
	{"command_transfer_seconds", func(r *Row) any { return r.Command.Transfer }},
	{"command_behind_seconds", func(r *Row) any { return r.Command.Behind }},
	{"joules", func(r *Row) any { return r.Joules.Total() }},
	{"joules_sensing", func(r *Row) any { return r.Joules.Sensing }},
	{"joules_channels", func(r *Row) any { return r.Joules.Channels }},
	{"joules_dram", func(r *Row) any { return r.Joules.DRAM }},
	{"joules_host_dram", func(r *Row) any { return r.Joules.HostDRAM }},
	{"joules_pcie", func(r *Row) any { return r.Joules.PCIe }},
	{"joules_accelerator", func(r *Row) any { return r.Joules.Accelerator }},
	{"joules_cores", func(r *Row) any { return r.Joules.Cores }},
	{"joules_samplers", func(r *Row) any { return r.Joules.Samplers }},
	{"joules_router", func(r *Row) any { return r.Joules.Router }},
	{"watts", func(r *Row) any { return r.Watts }},
}

// CSV writes the rows as CSV: a line of names, and a line for each row.
func (r *Result) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	var names []string
	for _, c := range columns {
		names = append(names, c.name)
	}
	if err := out.Write(names); err != nil {
		return err
	}
	for i := range r.Rows {
		var cells []string
		for _, c := range columns {
			v := c.of(&r.Rows[i])
			if f, number := v.(float64); number {
				cells = append(cells, strconv.FormatFloat(f, 'g', 9, 64))
			} else {
				cells = append(cells, fmt.Sprint(v))
			}
		}
		if err := out.Write(cells); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
