package train

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/internal/budget"
	"diskgnn/presample/sampler/topology"
	"diskgnn/train/decide"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
)

// TestPreferences: the flags that decide nothing of the result, and what people read of each. A row that
// is lost here is a flag that a resumed run forgets.
func TestPreferences(t *testing.T) {
	var rows []string
	for _, p := range preferences {
		rows = append(rows, p.Name+": "+p.name)
	}
	want := []string{"threads: threads", "io: io", "memory: memory", "ram-cache: cache", "cache-policy: cache policy", "accumulator: accumulator", "fault-threads: fault threads",
		"topology: topology", "topology-memory: held topology", "topology-order: ", "page-cache: page cache", "gpu-memory: ", "gpu-cache: GPU cache",
		"slots: slots", ": slots for evaluation", ": ranks", "checkpoint-every: ", "keep: ", "trace: "}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("wanted (−), found (+):\n%s", diff)
	}
}

// preferring are options of every preference, by which a graph's batches are drawn and read from a store.
func preferring(store string) Options {
	o := Options{Stores: builtin, Recipe: recipe.Recipe{Fanout: "3,4"}, Store: store, Dataset: "graph"}
	o.Resources = rundir.Resources{Memory: 1, Threads: 2, RAMCache: &budget.Size{Value: 3, Unit: budget.UnitBytes}, CachePolicy: builtin.Design("rows").Policies[0], FaultThreads: 4, Accumulator: "11",
		PageCache: decide.PageCacheDrop, Slots: 5, GPUMemory: 6, GPUCache: &budget.Size{Value: 7, Unit: budget.UnitPercent}, IO: "pread"}
	o.Topology.Level, o.Topology.Memory, o.Topology.Order = topology.Cached, &budget.Size{Value: 8, Unit: budget.UnitBytes}, "degree"
	o.CheckpointEvery, o.Keep, o.Trace = rundir.Interval{Batches: 9}, 10, true
	for _, p := range preferences {
		if p.Name != "" {
			o.Given = append(o.Given, p.Name)
		}
	}
	return o
}

// TestPreferencesAreKept: each is noted where it was given, and taken over by a process that was not
// given it, as far as its store has a use for it.
func TestPreferencesAreKept(t *testing.T) {
	for _, c := range []struct{ store, fanout, level, lost string }{
		{"gids", "3,4", topology.Cached, "cache-policy fault-threads page-cache"},
		{"rows", "3,4", topology.Cached, "accumulator fault-threads page-cache"},
		{"mmap", "3,4", topology.Cached, "cache-policy accumulator"},
		{"memory", "3,4", topology.Cached, "ram-cache cache-policy accumulator fault-threads page-cache"},
		{"rows", "", topology.Cached, "accumulator fault-threads topology topology-memory topology-order page-cache"},
		{"rows", "3,4", topology.Mapped, "accumulator fault-threads topology-memory topology-order page-cache"},
	} {
		was := preferring(c.store)
		was.Topology.Level = c.level
		p := was.preferences()
		now := Options{Stores: builtin, Recipe: recipe.Recipe{Fanout: c.fanout}, Store: c.store, Dataset: "graph"}
		if c.fanout == "" {
			now.Samples = "samples"
		}
		now.prefer(&p)
		var lost []string
		for _, flag := range was.Given {
			if !slices.Contains(now.Given, flag) {
				lost = append(lost, flag)
			}
		}
		if got := strings.Join(lost, " "); got != c.lost {
			t.Errorf("%+v: lost are %s", c, got)
		}
		again := now.preferences()
		for _, lost := range preferences {
			if lost.Name != "" && !slices.Contains(now.Given, lost.Name) {
				lost.keep(&again, &was) // what was not taken over differs in nothing else
			}
		}
		if diff := cmp.Diff(p, again); diff != "" {
			t.Errorf("%+v: was (−), is (+):\n%s", c, diff)
		}
	}
}

// TestPreferencesOfNobody: what was not given is not noted, and what an earlier process was not given
// leaves the defaults; what this one was given stays.
func TestPreferencesOfNobody(t *testing.T) {
	o := preferring("rows")
	o.Given = nil
	if diff := cmp.Diff(rundir.Preferences{}, o.preferences()); diff != "" {
		t.Errorf("noted:\n%s", diff)
	}
	before := o
	if o.prefer(&rundir.Preferences{}); len(o.Given) > 0 || o.Keep != before.Keep || o.Memory != before.Memory || !o.Trace || o.CheckpointEvery != before.CheckpointEvery {
		t.Errorf("%+v", o)
	}
	o.Given = []string{"keep"}
	if o.prefer(&rundir.Preferences{Keep: 1, Resources: rundir.Resources{Threads: 99}}); o.Keep != 10 || o.Threads != 99 || !slices.Equal(o.Given, []string{"keep", "threads"}) {
		t.Errorf("%+v", o)
	}
}

// TestChanges: what people read of a process that goes on otherwise, each part alone.
func TestChanges(t *testing.T) {
	was := func() *rundir.File {
		f := &rundir.File{Version: "v1", ProgramHash: "aa"}
		f.Setup = rundir.Setup{Threads: 2, IO: "uring", Memory: 1 << 30, Slots: 3}
		return f
	}
	for _, c := range []struct {
		change func(f *rundir.File)
		want   string
	}{
		{func(*rundir.File) {}, ""},
		{func(f *rundir.File) { f.Setup.Threads = 4 }, "threads 4 (was 2)"},
		{func(f *rundir.File) { f.Setup.IO = "pread" }, "io pread (was uring)"},
		{func(f *rundir.File) { f.Setup.Memory = 1 << 31 }, "memory 2.00 GiB (was 1.00 GiB)"},
		{func(f *rundir.File) { f.Setup.CacheSize = 1 << 20 }, "cache 1.0 MiB (was 0 B)"},
		{func(f *rundir.File) { f.Setup.CachePolicy = "lru" }, "cache policy lru (was )"},
		{func(f *rundir.File) { f.Setup.FaultThreads = 1 }, "fault threads 1 (was 0)"},
		{func(f *rundir.File) { f.Setup.Accumulator = 5 }, "accumulator 5 (was 0)"},
		{func(f *rundir.File) { f.Setup.Topology = "cached" }, "topology cached (was mapped)"},
		{func(f *rundir.File) { f.Setup.Topology = topology.Mapped }, ""},
		{func(f *rundir.File) { f.Setup.TopologySize = 1 << 20 }, "held topology 1.0 MiB (was 0 B)"},
		{func(f *rundir.File) { f.Setup.PageCache = "drop" }, "page cache drop (was )"},
		{func(f *rundir.File) { f.Setup.GPUCacheSize = 1 << 20 }, "GPU cache 1.0 MiB (was 0 B)"},
		{func(f *rundir.File) { f.Setup.Slots, f.Setup.EvalSlots = 1, 1 }, "slots 1 (was 3), slots for evaluation 1 (was 0)"},
		{func(f *rundir.File) { f.Setup.Ranks = 1 }, ""},
		{func(f *rundir.File) { f.Setup.Ranks = 2 }, "ranks 2 (was 1)"},
		{func(f *rundir.File) { f.ProgramHash = "bb" }, "program v1, SHA-256 bb (was v1, SHA-256 aa)"},
		{func(f *rundir.File) { f.ProgramHash = "" }, ""},
		{func(f *rundir.File) { f.Version, f.ProgramHash = "v2", "" }, "program v2 (was v1)"},
	} {
		now := was()
		c.change(now)
		if got := changes(was(), now); got != c.want {
			t.Errorf("%q, not %q", got, c.want)
		}
	}
}

// TestLongerByHand: more epochs make a run longer where they are asked for; one that is finished is
// done unless they are, and one that stopped early is done with any number.
func TestLongerByHand(t *testing.T) {
	for _, c := range []struct {
		epochs  int
		given   bool
		state   rundir.State
		result  *rundir.Result
		longer  bool
		finally bool
	}{
		{4, true, rundir.StateFinished, &rundir.Result{}, true, false},
		{3, true, rundir.StateFinished, &rundir.Result{}, false, true},
		{2, true, rundir.StateFinished, &rundir.Result{}, false, true},
		{10, false, rundir.StateFinished, &rundir.Result{}, false, true}, // a default asks for nothing
		{4, true, rundir.StateFinished, &rundir.Result{StoppedEarly: true}, true, true},
		{3, true, rundir.StateInterrupted, &rundir.Result{}, false, false},
		{3, true, rundir.StateFinished, nil, false, false},
	} {
		var o Options
		if o.Epochs = c.epochs; c.given {
			o.Given = []string{"epochs"}
		}
		f := &rundir.File{State: c.state, Result: c.result}
		f.Params.Epochs = 3
		if o.longer(f) != c.longer || o.done(f) != c.finally {
			t.Errorf("%s: longer %v, done %v", fmt.Sprintf("%+v", c), o.longer(f), o.done(f))
		}
	}
}
