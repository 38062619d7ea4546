package beacon

import (
	"context"
	"encoding/csv"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/presample"
	"diskgnn/simulate/kernel"
)

// near reports whether two figures differ in rounding alone.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12*max(math.Abs(a), math.Abs(b)) }

// An outcome is the mean of its batches, and their first's timelines. Two batches of two pages
// each, one of one target, the other as if of two.
func TestOutcome(t *testing.T) {
	p := Defaults(Faithful)
	pf := platform(t, "GLIST")
	var s sum
	var batches []*Batch
	for _, targets := range []int64{1, 2} {
		b, err := Run(p, pf, chain(400, 0, 1))
		if err != nil {
			t.Fatal(err)
		}
		b.Targets = targets
		batches = append(batches, b)
		s.add(b, p)
	}
	o := s.outcome("GLIST")
	// Of each: 2 × (0.2 + 3 + 5) µs of flash, 10 µs of the host, 0.5 µs of PCIe.
	const prep = 26.9e-6
	a := batches[0]
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"seconds", o.Seconds, prep}, {"preparation", o.Preparation, prep}, {"compute", o.Compute, a.Compute.Seconds()},
		{"targets", o.Targets, 1.5 / prep}, {"a second", o.PerSecond, 1 / prep},
		{"nodes", o.Nodes, 2}, {"commands", o.Commands, 2}, {"round trips", o.RoundTrips, 1},
		{"channel bytes", o.ChannelBytes, 8000}, {"PCIe bytes", o.PCIeBytes, 4000}, {"useful bytes", o.UsefulBytes, 808},
		{"dies busy", o.DiesBusy, 6 / 26.4}, {"channels busy", o.ChannelsBusy, 10 / 26.4}, {"cores busy", o.CoresBusy, 0.4 / 26.4},
		{"host", o.Latency.Host, 10e-6}, {"PCIe", o.Latency.PCIe, 0.5e-6}, {"flash", o.Latency.Flash, 16.4e-6}, {"DNN", o.Latency.DNN, a.Compute.Seconds()},
		{"dispatch", o.Command.Dispatch, 0.2e-6}, {"wait", o.Command.Wait, 0}, {"sense", o.Command.Sense, 3e-6}, {"sample", o.Command.Sample, 0},
		{"held", o.Command.Held, 0}, {"transfer", o.Command.Transfer, 5e-6}, {"behind", o.Command.Behind, 0},
		{"joules", o.Joules.Total(), a.Joules.Total()}, {"watts", o.Watts, a.Joules.Total() / prep}, {"events", o.Events, float64(a.Events)},
		{"bin", o.BinSeconds, 5e-6}, {"dies", float64(o.Dies), 128}, {"channels", float64(o.Channels), 16}, {"cores", float64(o.Cores), 4}, {"batches", float64(o.Batches), 2},
	} {
		if !near(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
	// The first hop senses from 0.2 to 3.2 µs, the second from 18.4 to 21.4, after 8.2 µs and a
	// round trip.
	if want := []float64{0.6, 0, 0, 0.32, 0.28}; !slices.EqualFunc(o.DieTimeline, want, near) {
		t.Errorf("dies over time: %v, want %v", o.DieTimeline, want)
	}
	if want := []HopSpan{{0, 8.2e-6, 1}, {18.2e-6, 26.4e-6, 1}}; !slices.EqualFunc(o.Hops, want, func(a, b HopSpan) bool {
		return near(a.Start, b.Start) && near(a.End, b.End) && a.Commands == b.Commands
	}) {
		t.Errorf("hops %v, want %v", o.Hops, want)
	}
	if len(o.ChannelTimeline) != len(a.ChannelBusy.Busy) || len(o.CoreTimeline) != len(a.FirmwareBusy.Busy) || o.Platform != "GLIST" {
		t.Errorf("%s: %d bins of channels, %d of cores", o.Platform, len(o.ChannelTimeline), len(o.CoreTimeline))
	}
	// Queues are the longest of any batch's.
	a.DieQueue, a.ChannelQueue = 7, 8
	s.add(a, p)
	if o = s.outcome("GLIST"); o.DieQueue != 7 || o.ChannelQueue != 8 {
		t.Errorf("queues %d, %d", o.DieQueue, o.ChannelQueue)
	}
}

// Queues at their longest: of ten reads of one die two are in its buffers, one of which is
// sensed; of a channel's four dies' pages three wait.
func TestQueues(t *testing.T) {
	p := Defaults(Faithful)
	if err := p.Set("firmware.command=0us"); err != nil {
		t.Fatal(err)
	}
	b, err := Run(p, platform(t, "BG-DG"), leaves(400, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
	if err != nil || b.DieQueue != 9 || b.ChannelQueue != 1 {
		t.Errorf("ten reads of a die: %d wait for it, %d for its channel: %v", b.DieQueue, b.ChannelQueue, err)
	}
	b, err = Run(p, platform(t, "BG-DG"), leaves(400, 0, 16, 32, 48))
	if err != nil || b.DieQueue > 1 || b.ChannelQueue != 3 {
		t.Errorf("four dies of a channel: %d wait for dies, %d for the channel: %v", b.DieQueue, b.ChannelQueue, err)
	}
}

// The table has a line for each row, of numbers that are the rows'.
func TestCSV(t *testing.T) {
	workloads, err := FindWorkloads("ogbn,ppi")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Workloads: workloads, Platforms: platforms[6:], Modes: []Mode{Strict}, Batches: 1, Seed: 3, Settings: []string{"batch=8"}, Sweeps: []Sweep{{"channels", []string{"2", "4"}}}}
	if n, err := o.Runs(); n != 2*2*3 || err != nil {
		t.Errorf("%d runs: %v", n, err)
	}
	r, err := Simulate(context.Background(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Claims != nil || r.Doubts != nil || r.EnergyDoubts != nil || len(r.Inflation) != 2 || len(r.Rows) != 12 {
		t.Fatalf("%d rows, %d claims, inflation %v", len(r.Rows), len(r.Claims), r.Inflation)
	}
	var b strings.Builder
	if err := r.CSV(&b); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
	if err != nil || len(lines) != 13 {
		t.Fatalf("%d lines: %v", len(lines), err)
	}
	for i, line := range lines[1:] {
		row := &r.Rows[i]
		for k, v := range map[string]float64{
			"seconds_per_batch": row.Seconds, "preparation_seconds": row.Preparation, "compute_seconds": row.Compute, "targets_per_second": row.Targets, "batches_per_second": row.PerSecond,
			"nodes": row.Nodes, "commands": row.Commands, "host_round_trips": row.RoundTrips, "channel_bytes": row.ChannelBytes, "pcie_bytes": row.PCIeBytes, "useful_bytes": row.UsefulBytes,
			"dies_busy": row.DiesBusy, "channels_busy": row.ChannelsBusy, "cores_busy": row.CoresBusy, "die_queue": float64(row.DieQueue), "channel_queue": float64(row.ChannelQueue),
			"latency_dnn_seconds": row.Latency.DNN, "command_wait_seconds": row.Command.Wait, "joules": row.Joules.Total(), "joules_cores": row.Joules.Cores, "watts": row.Watts,
		} {
			at := slices.Index(lines[0], k)
			if at < 0 {
				t.Fatalf("no column %s", k)
			}
			if got, err := strconv.ParseFloat(line[at], 64); err != nil || math.Abs(got-v) > 1e-8*math.Abs(v) {
				t.Errorf("line %d, %s: %s, want %v: %v", i, k, line[at], v, err)
			}
		}
		if want := []string{row.Workload, string(row.Mode), row.Setting, row.Platform}; !slices.Equal(line[:4], want) {
			t.Errorf("line %d is of %v, want %v", i, line[:4], want)
		}
		if (row.Setting == "") != (row.DieTimeline != nil) || (row.Setting == "") != (row.BinSeconds > 0) || (row.Setting == "") != (row.CoreTimeline != nil) {
			t.Errorf("%s: %d bins of %v s", row.Setting, len(row.DieTimeline), row.BinSeconds)
		}
	}
	if r.Rows[0].Seconds >= r.Rows[2].Seconds || r.Rows[2].Seconds <= r.Rows[4].Seconds || r.Rows[2].Setting != "channels=2" || r.Rows[4].Setting != "channels=4" {
		t.Errorf("%v s of %s, %v s of %s", r.Rows[2].Seconds, r.Rows[2].Setting, r.Rows[4].Seconds, r.Rows[4].Setting)
	}
}

// Sweeps are read, and refused, before anything runs.
func TestSweeps(t *testing.T) {
	if s, err := ParseSweep(" channels =4,8"); err != nil || s.Name != "channels" || !slices.Equal(s.Values, []string{"4", "8"}) {
		t.Errorf("%v: %v", s, err)
	}
	for _, bad := range []string{"channels", "channels=", "nothing=1", "channels=4,x"} {
		if _, err := ParseSweep(bad); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, samples := range []bool{false, true} {
		all := StandardSweeps(samples)
		for _, s := range all {
			if _, err := ParseSweep(s.Name + "=" + strings.Join(s.Values, ",")); err != nil {
				t.Error(err)
			}
		}
		if has := slices.ContainsFunc(all, func(s Sweep) bool { return s.Name == "batch" }); has == samples || len(all) < 6 {
			t.Errorf("%d sweeps, of batch sizes too: %v", len(all), has)
		}
	}
	for name, c := range map[string]struct {
		value string
		want  float64
		found bool
	}{"channels": {"8", 8, true}, "die.tr": {"20us", 20, true}, "host.round_trip": {"1ms", 1000, true}, "channel.rate": {"1.6G", 1.6e9, true}, "dram.wait": {"true", 0, false}, "fanout": {"3/3", 0, false}, "dies": {"0", 0, false}} {
		q, err := FindParameter(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, found := q.Number(c.value); got != c.want || found != c.found {
			t.Errorf("%s=%s: %v, %v", name, c.value, got, found)
		}
	}
}

// Samples of a dataset are its batches, with vectors of as many numbers as it has; what does not
// belong to them is refused.
func TestSamples(t *testing.T) {
	dir := t.TempDir()
	data, samples := filepath.Join(dir, "dataset"), filepath.Join(dir, "samples")
	datasettest.Create(t, dir, datasettest.Params{Nodes: 300, AvgDegree: 8, Dim: 25, Seed: 2}.Raw())
	if _, err := presample.Run(t.Context(), vfs.OS, presample.Options{Dataset: data, Out: samples, BatchSize: 6, Epochs: 1, Fanout: []int{2, 3}}, progress.Discard); err != nil {
		t.Fatal(err)
	}
	open := func(paths Paths, page int, memory int64) (*Samples, error) {
		return OpenSamples(t.Context(), progress.Discard, vfs.OS, data, samples, paths, page, memory)
	}
	s, err := open(Tree, 4096, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p := Defaults(Strict)
	tr, err := s.Trace(t.Context(), p, 0)
	if err != nil || tr.Width != 25 || tr.Feature != 100 || tr.Hops[0] != 6 || len(tr.Hops) != 3 || s.BatchSize() != 6 || s.Batches() < 1 || s.Layout().Nodes() != 300 {
		t.Fatalf("%d numbers in %d bytes, hops %v, batches of %d: %v", tr.Width, tr.Feature, tr.Hops, s.BatchSize(), err)
	}
	o := Options{Samples: s, Platforms: platforms[7:], Modes: []Mode{Strict}, Batches: 1, Workers: 1}
	r, err := Simulate(t.Context(), o, nil)
	if err != nil || len(r.Rows) != 1 || r.Rows[0].Workload != "samples" || r.Rows[0].Nodes != float64(tr.Nodes()) || r.Inflation["samples"] != s.Layout().Inflation() {
		t.Fatalf("%+v: %v", r, err)
	}
	// The accelerator multiplies vectors of 25 numbers.
	all, _ := p.products(tr.Hops, 25)
	if want := p.Accelerator.compute(all); kernel.FromSeconds(r.Rows[0].Compute) != want {
		t.Errorf("computes for %v s, want %v", r.Rows[0].Compute, want)
	}
	for _, set := range []string{"batch=4", "fanout=2/2", " batch =4"} {
		o.Settings = []string{set}
		if _, err := Simulate(t.Context(), o, nil); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("%s: %v", set, err)
		}
	}
	o.Settings = []string{"page=8192"}
	if _, err := Simulate(t.Context(), o, nil); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("another page: %v", err)
	}
	// A node takes what is planned for it: with one byte less the batch is refused.
	o.Settings = nil
	least := int64(tr.Nodes())*(traceNodeBytes+runNodeBytes) + s.held + 128*runDieBytes + runBytes
	for memory, want := range map[int64]error{least: nil, least - 1: fault.ErrBudget, s.held: fault.ErrBudget} {
		o.Memory = memory
		if _, err := Simulate(t.Context(), o, nil); !errors.Is(err, want) {
			t.Errorf("%d bytes of %d: %v", memory, least, err)
		}
	}
	if err := s.Write(t.Context(), vfs.OS, filepath.Join(dir, "graph"), s.held+s.Layout().WriteBytes()-1); !errors.Is(err, fault.ErrBudget) {
		t.Errorf("writing in too little: %v", err)
	}
	if err := s.Write(t.Context(), vfs.OS, filepath.Join(dir, "graph"), s.held+s.Layout().WriteBytes()); err != nil {
		t.Error(err)
	}
	if _, err := open(Tree, 4096, s.held-1); !errors.Is(err, fault.ErrBudget) {
		t.Errorf("opened in too little: %v", err)
	}
	if _, err := open(Tree, 64, 1<<30); !errors.Is(err, fault.ErrInput) {
		t.Errorf("vectors longer than pages: %v", err)
	}
	elsewhere := t.TempDir()
	other := filepath.Join(elsewhere, "dataset")
	datasettest.Create(t, elsewhere, datasettest.Params{Nodes: 300, AvgDegree: 8, Dim: 25, Seed: 3}.Raw())
	if _, err := OpenSamples(t.Context(), progress.Discard, vfs.OS, other, samples, Tree, 4096, 1<<30); !errors.Is(err, fault.ErrLineage) {
		t.Errorf("samples of another dataset: %v", err)
	}
	for _, missing := range [][2]string{{filepath.Join(dir, "none"), samples}, {data, filepath.Join(dir, "none")}} {
		if _, err := OpenSamples(t.Context(), progress.Discard, vfs.OS, missing[0], missing[1], Tree, 4096, 1<<30); err == nil {
			t.Errorf("%v is opened", missing)
		}
	}
}

// The graph changes after it was laid out: nothing is simulated, and nothing written.
func TestSamplesChange(t *testing.T) {
	dir := t.TempDir()
	data, samples := filepath.Join(dir, "dataset"), filepath.Join(dir, "samples")
	datasettest.Create(t, dir, datasettest.Params{Nodes: 300, AvgDegree: 8, Dim: 25, Seed: 2}.Raw())
	if _, err := presample.Run(t.Context(), vfs.OS, presample.Options{Dataset: data, Out: samples, BatchSize: 6, Epochs: 1, Fanout: []int{2, 3}}, progress.Discard); err != nil {
		t.Fatal(err)
	}
	for _, c := range datasettest.Changes() {
		datasettest.Age(t, data)
		changed, err := OpenSamples(t.Context(), progress.Discard, vfs.OS, data, samples, Tree, 4096, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		undo := c.Do(t, data)
		o := Options{Samples: changed, Platforms: platforms[7:], Modes: []Mode{Strict}, Batches: 1, Workers: 1}
		_, simulated := Simulate(t.Context(), o, nil)
		name := filepath.Join(dir, "changed")
		written := changed.Write(t.Context(), vfs.OS, name, 1<<30)
		for _, err := range []error{simulated, written} {
			if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), c.File) {
				t.Errorf("%s: %v", c.Name, err)
			}
		}
		if found, err := vfs.Exists(vfs.OS, name); found || err != nil {
			t.Errorf("%s: a graph is written (%v)", c.Name, err)
		}
		undo()
		if err := changed.Close(); err != nil {
			t.Error(err)
		}
	}
}
