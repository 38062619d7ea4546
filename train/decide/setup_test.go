package decide

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/rundir"
)

const mib = 1 << 20

// planned decides for an ordinary run whose store comes to a given layout.
func planned(t *testing.T, l featurestore.Layout, change func(o *Options, f *Facts)) Decision {
	t.Helper()
	o, f := ordinary()
	f.Plan = func(featurestore.PlanOptions) (featurestore.Layout, error) { return l, nil }
	change(&o, &f)
	d, err := Decide(o, f)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestSetup: what a run records has every part of the layout, of the engine's and of the batches that
// are drawn while training.
func TestSetup(t *testing.T) {
	info := engine.Info{Device: "H100", BLAS: "cuBLAS", Orders: []model.Order{model.Aggregate}, Note: "the engine's"}
	d := planned(t, featurestore.Layout{CacheRows: 7, RAMBytes: 11, SlotBytes: 13, EvalSlotBytes: 17, StateBytes: 19, GPURows: 23, GPURowsBytes: 29, GPUSlotBytes: 31,
		Policy: "lru", FaultThreads: 37, Accesses: 61, Unchecked: true}, func(o *Options, f *Facts) {
		o.Engine, o.Slots = EngineGPU, 4
		f.Info, f.Note, f.Needs.OnGPU = &info, "", true
		f.Drawing = &Drawing{Topology: "cached", TopologyBytes: 41, GPU: [2]int64{1000, 100_000}}
	})
	// 32 MiB of the program, 20 of the engine, 100 KiB of ten epochs, and slots of which each has 1 MiB of work.
	planned := int64(52*mib + 10*EpochBytes + 4*(mib+13) + 2*(mib+17) + 11)
	want := rundir.Setup{Engine: "gpu", IO: "uring", Threads: 4, Memory: 1 << 30, Planned: max(planned, 58*mib+10*EpochBytes+19+11),
		CacheRows: 7, CacheSize: 11, CachePolicy: "lru", StoreState: 19, FaultThreads: 37, Accumulator: 61, Unchecked: true, Topology: "cached", TopologySize: 41,
		Slots: 4, EvalSlots: 2, GPUCacheRows: 23, GPUCacheSize: 29, GPUBytes: 1<<30 + 4*31 + 4*1000 + 2*100_000, Info: info}
	if diff := cmp.Diff(want, d.Setup(1<<30)); diff != "" {
		t.Errorf("wanted (−), recorded (+):\n%s", diff)
	}
	d.Facts.Note, d.Options.Ranks, d.Facts.Needs.State = "the choice's", 2, 43
	d.Facts.Drawing = nil
	if s := d.Setup(5); s.Note != "the choice's" || s.Ranks != 2 || s.StoreState != 43 || s.GPUBytes != 5+4*31 || s.Topology != "" {
		t.Errorf("%+v", s)
	}
}

// TestPageCache: a store whose rows lie there has them in a cgroup, or dropped.
func TestPageCache(t *testing.T) {
	for _, c := range []struct {
		paged, grouped bool
		want           string
	}{{false, false, ""}, {false, true, ""}, {true, false, PageCacheDrop}, {true, true, PageCacheCgroup}} {
		d := Decision{Facts: Facts{Store: Store{Paged: c.paged}}, Grouped: c.grouped}
		if got := d.Setup(0).PageCache; got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestLinesOfALayout: what the store notes, reads by the GPU and rows there are said.
func TestLinesOfALayout(t *testing.T) {
	d := planned(t, featurestore.Layout{RAMBytes: 2 * mib, GPU: &cuda.Device{}, GPURowsBytes: 3 * mib, SlotBytes: mib, QueueBytes: 1, Note: "the store's note"}, func(o *Options, f *Facts) {
		o.Slots, f.Store.Valid, f.Store.Test = 1, 0, 0
	})
	s := d.Setup(0)
	got := strings.Join(d.Lines(&s)[2:5], "\n")
	want := "GPU cache: 3.0 MiB; memory: 58.1 MiB = 2.0 MiB cache + 1 slots of 1.0 MiB + 52.1 MiB engine and program\n" +
		"the store's note\n" +
		"the GPU submits the reads of training batches, and completes a batch's reads when it takes the batch"
	if got != want {
		t.Errorf("said is\n%s\nnot\n%s", got, want)
	}
}

// TestLinesOfRanks: two ranks are several, and one is not.
func TestLinesOfRanks(t *testing.T) {
	for ranks, want := range map[int]string{1: "", 2: "a step has 6 batches; each of the 2 ranks computes 3 of them"} {
		d := planned(t, featurestore.Layout{}, func(o *Options, _ *Facts) { o.Ranks, o.Accumulate = ranks, 6 })
		s := d.Setup(0)
		if said := strings.Join(d.Lines(&s), "\n"); strings.Contains(said, "a step has") != (want != "") || !strings.Contains(said, want) {
			t.Errorf("%d ranks: said is\n%s", ranks, said)
		}
	}
}

// TestUnused: the parts of a batch that a model does not use.
func TestUnused(t *testing.T) {
	all, none := featurestore.Unused{Ranks: true, Degrees: true}, featurestore.Unused{}
	for name, c := range map[string]struct {
		model, norm string
		projects    bool
		needs       Needs
		want        featurestore.Unused
	}{
		"sums":                     {model: "sage", want: all},
		"attention":                {model: "gat", want: all},
		"degrees of the graph":     {model: "gcn", want: featurestore.Unused{Ranks: true}},
		"degrees of the block":     {model: "gcn", norm: "block", want: all},
		"a projection of input":    {model: "sage", projects: true, want: featurestore.Unused{Degrees: true}},
		"a process that takes all": {model: "sage", needs: Needs{Shared: true}, want: none},
	} {
		o, _ := ordinary()
		o.Model, o.InputProjection = c.model, c.projects
		if c.norm != "" {
			o.GCNNorm = c.norm
		}
		if got := o.unused(&c.needs); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestWhatIsAskedOfAStore: the store's arithmetic is given every option that it knows, for the slots
// of all replicas, and the memory that the rest leaves.
func TestWhatIsAskedOfAStore(t *testing.T) {
	var asked []featurestore.PlanOptions
	o, f := ordinary()
	o.RAMCache, o.GPUCache = &budget.Size{Value: 5, Unit: budget.UnitBytes}, &budget.Size{Value: 7, Unit: budget.UnitPercent}
	o.CachePolicy, o.FaultThreads, o.Accumulator = "lru", 11, "59"
	f.Needs = Needs{Engine: 20 * mib, Work: mib, EvalWork: 2 * mib, Replicas: 2, Stack: 3 * mib, GPULeft: 13}
	f.Records = 4 * mib
	refusal := fault.New(fault.ErrBudget, "no")
	f.Plan = func(p featurestore.PlanOptions) (featurestore.Layout, error) {
		asked = append(asked, p)
		if p.Memory > 1<<40 {
			return featurestore.Layout{}, nil
		}
		return featurestore.Layout{}, refusal
	}
	if _, err := Decide(o, f); !errors.Is(err, ErrMemory) || !errors.Is(err, refusal) {
		t.Error(err)
	}
	left := int64(1<<30 - 59*mib - 10*EpochBytes - 2*mib) // less the works of training
	three := featurestore.PlanOptions{Cache: o.RAMCache, Memory: left - 6*mib, Policy: "lru", FaultThreads: 11, Accesses: 59, Slots: 6, EvalSlots: 1, GPUMemory: 13, GPUCache: o.GPUCache, MostSlots: 12,
		Unused: featurestore.Unused{Ranks: true, Degrees: true}}
	two := three
	two.Slots, two.Memory = 4, left-4*mib
	endless, least := two, two
	least.Least = true
	for _, p := range []*featurestore.PlanOptions{&endless, &least} {
		p.Memory = asked[2].Memory // far more than there is
	}
	if diff := cmp.Diff([]featurestore.PlanOptions{three, two, endless, least, two}, asked); diff != "" {
		t.Errorf("wanted (−), asked (+):\n%s", diff)
	}
}

// TestSlots: of training slots that take 11 MiB and evaluation slots that take 7, of as many as
// memory holds beside the 52 MiB and the epochs' of the rest: one more for evaluation first, then
// training's up to six.
func TestSlots(t *testing.T) {
	const fixed = 52*mib + 100<<10
	plain := func(*Options, *Facts) {}
	epoch := func(batches int) func(*Options, *Facts) {
		return func(_ *Options, f *Facts) { f.Store.BatchesPerEpoch, f.Store.Valid, f.Store.Test = batches, 1, 0 }
	}
	for _, c := range []struct {
		left         int64
		change       func(o *Options, f *Facts)
		slots, evals int // 0: refused
	}{
		{29*mib - 1, plain, 0, 0},
		{29 * mib, plain, 2, 1},
		{40*mib - 1, plain, 2, 2},
		{40 * mib, plain, 3, 1},
		{47*mib - 1, plain, 3, 1},
		{47 * mib, plain, 3, 2},
		{58*mib - 1, plain, 3, 2},
		{58 * mib, plain, 4, 2},
		{500 * mib, plain, 6, 2},
		{500 * mib, func(o *Options, _ *Facts) { o.Slots = 9 }, 9, 2},
		{500 * mib, func(o *Options, _ *Facts) { o.Slots = 1 }, 1, 2},
		{500 * mib, func(_ *Options, f *Facts) { f.Needs.Replicas = 2 }, 6, 2},
		{(8*11 + 2*7) * mib, func(_ *Options, f *Facts) { f.Needs.Replicas = 2 }, 4, 2},
		{(8*11+2*7)*mib - 1, func(_ *Options, f *Facts) { f.Needs.Replicas = 2 }, 3, 2},
		{500 * mib, func(_ *Options, f *Facts) { f.Store.Valid, f.Store.Test = 0, 0 }, 6, 0},
		{500 * mib, func(_ *Options, f *Facts) { f.Store.Valid, f.Store.Test = 1, 0 }, 6, 1},
		{500 * mib, func(_ *Options, f *Facts) { f.Store.Valid, f.Store.Test = 0, 1 }, 6, 1},
		{500 * mib, func(_ *Options, f *Facts) { f.Store.Valid, f.Store.Test = 1, 1 }, 6, 1},
		{500 * mib, func(_ *Options, f *Facts) { f.Store.Valid, f.Store.Test = 0, 2 }, 6, 2},
		{500 * mib, func(o *Options, f *Facts) { o.Epochs = 1; epoch(1)(o, f) }, 1, 1},
		{500 * mib, func(o *Options, f *Facts) { o.Epochs, o.Slots = 1, 9; epoch(4)(o, f) }, 4, 1},
		{500 * mib, func(o *Options, f *Facts) { o.Epochs = 1; epoch(5)(o, f) }, 5, 1},
	} {
		o, f := ordinary()
		o.Memory = fixed + c.left
		f.Needs.Resume = 0
		f.Plan = func(p featurestore.PlanOptions) (featurestore.Layout, error) {
			l := featurestore.Layout{SlotBytes: 10 * mib, EvalSlotBytes: 6 * mib}
			if l.Bytes(p.Slots, p.EvalSlots) > p.Memory {
				return l, fault.New(fault.ErrBudget, "too little")
			}
			return l, nil
		}
		c.change(&o, &f)
		d, err := Decide(o, f)
		if c.slots == 0 {
			if !errors.Is(err, ErrMemory) {
				t.Errorf("%d MiB: %v", c.left/mib, err)
			}
			continue
		}
		if m := d.Memory; err != nil || m.Slots != c.slots || m.EvalSlots != c.evals || m.Total > o.Memory {
			t.Errorf("%d bytes, %+v: %d+%d slots, not %d+%d; %v", c.left, f.Store.Facts, m.Slots, m.EvalSlots, c.slots, c.evals, err)
		}
	}
}

// A run that could not go on from its checkpoint is refused from the first byte that lacks.
func TestCheckpointFillsMemory(t *testing.T) {
	for _, c := range []struct {
		lack int64
		err  error
	}{{0, nil}, {1, ErrMemory}} {
		o, f := ordinary()
		o.Slots, o.Memory = 1, 52*mib+10*EpochBytes+3+5*mib-c.lack
		f.Store.Valid, f.Store.Test, f.Needs.Work, f.Needs.Resume = 0, 0, 0, 5*mib
		f.Plan = func(featurestore.PlanOptions) (featurestore.Layout, error) {
			return featurestore.Layout{TableBytes: 3}, nil
		}
		if _, err := Decide(o, f); !errors.Is(err, c.err) {
			t.Errorf("%d bytes lack: %v", c.lack, err)
		}
	}
}

// TestMebibytes: what is said to suffice does.
func TestMebibytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0MiB", 1: "1MiB", mib: "1MiB", mib + 1: "2MiB", 3*mib - 1: "3MiB"} {
		if got := mebibytes(n); got != want {
			t.Errorf("%d: %s, not %s", n, got, want)
		}
	}
}

// TestUnderWay: as many batches as slots are given or at most made, but no more than there are steps.
func TestUnderWay(t *testing.T) {
	for _, c := range []struct{ slots, steps, want int }{{0, 50, 6}, {0, 4, 4}, {9, 50, 9}, {2, 50, 2}, {9, 5, 5}} {
		o := Options{Resources: rundir.Resources{Slots: c.slots}}
		if got := o.UnderWay(c.steps); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
