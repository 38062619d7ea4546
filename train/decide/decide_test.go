package decide

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/featurestore"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/presample/sampler/topology"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
)

var update = flag.Bool("update", false, "write testdata/decisions.txt anew")

// A decided is a case of the table: what a user wants and what was found, as they differ from a run of ten
// epochs of fifty batches on the CPU, with 1 GiB of memory and nothing else said.
type decided struct {
	name   string
	change func(o *Options, f *Facts)
}

var table = []decided{
	{"nothing is said", func(*Options, *Facts) {}},
	{"little memory: what is left of it is the cache", func(o *Options, _ *Facts) { o.Memory = 125 << 20 }},
	{"a cache of its own size", func(o *Options, _ *Facts) { o.RAMCache = &budget.Size{Value: 32 << 20, Unit: budget.UnitBytes} }},
	{"one slot: nothing overlaps", func(o *Options, _ *Facts) { o.Slots = 1 }},
	{"an epoch of two batches", func(o *Options, f *Facts) { o.Epochs, f.Store.BatchesPerEpoch = 1, 2 }},
	{"too little memory", func(o *Options, _ *Facts) { o.Memory = 75 << 20 }},
	{"a cache that memory does not hold", func(o *Options, _ *Facts) { o.RAMCache = &budget.Size{Value: 2 << 30, Unit: budget.UnitBytes} }},
	{"a checkpoint that does not fit when the run goes on", func(_ *Options, f *Facts) { f.Needs.Resume = 2 << 30 }},
	{"an earlier process' store had a large state", func(_ *Options, f *Facts) { f.Needs.State = 900 << 20 }},
	{"a store that refuses whatever the memory", func(_ *Options, f *Facts) {
		f.Plan = func(featurestore.PlanOptions) (featurestore.Layout, error) {
			return featurestore.Layout{}, fault.New(fault.ErrUsage, "--gpu-cache 10%%: this store holds rows in RAM")
		}
	}},
	{"no validation and no test batches", func(_ *Options, f *Facts) { f.Store.Valid, f.Store.Test = 0, 0 }},
	{"nothing computes", func(o *Options, f *Facts) { o.Engine, f.Info, f.Needs = EngineNone, nil, Needs{} }},
	{"a GPU", func(o *Options, f *Facts) {
		o.Engine = EngineGPU
		f.Needs.OnGPU, f.Needs.InBits, f.Needs.GPULeft = true, true, 4<<30
		f.Info = &engine.Info{Device: "NVIDIA H100", BLAS: "cuBLAS 12.4", Precision: recipe.PrecisionTF32, Orders: []model.Order{model.Aggregate, model.Multiply}}
	}},
	{"a GPU that was left alone", func(_ *Options, f *Facts) { f.Note = "the GPU is not used: 3 GiB do not fit" }},
	{"four ranks, two of them here", func(o *Options, f *Facts) {
		o.Ranks, o.Accumulate, f.Needs.Replicas = 4, 8, 2
		f.Said = []string{"gradients are summed on the GPUs by NCCL 2.20"}
	}},
	{"weights of another run", func(o *Options, _ *Facts) { o.InitFrom, o.WeightsPath = "1234", "old/weights.safetensors" }},
	{"weights without a checksum", func(o *Options, f *Facts) { o.InitFrom, o.WeightsPath, f.Unsummed = "1234", "torch.safetensors", true }},
	{"batches are drawn, on a held topology", func(_ *Options, f *Facts) {
		f.Drawing = &Drawing{Topology: topology.Cached, TopologyBytes: 40 << 20, Heap: [2]int64{1 << 20, 2 << 20}, Host: 8 << 20}
	}},
	{"a store whose rows lie in the page cache", func(_ *Options, f *Facts) { f.Store.Paged = true }},
	{"a store that holds rows for evaluation", func(_ *Options, f *Facts) { f.Plan = holding(100 << 20) }},
	{"a store that holds a part of them", func(o *Options, f *Facts) { o.Memory, f.Plan = 200<<20, holding(100<<20) }},
	{"a rank that does not evaluate", func(o *Options, f *Facts) { o.Rank, o.Ranks, o.Accumulate, f.Plan = 1, 2, 2, holding(100<<20) }},
	{"what happens is recorded", func(_ *Options, f *Facts) { f.Records = 50 << 20 }},
	{"exact validation, a quarter of the memory", exactly(1<<30, Exact{Fixed: 7 << 20, Least: 3 << 20, Most: 900 << 20})},
	{"exact validation, as much as it has a use for", exactly(1<<30, Exact{Fixed: 7 << 20, Least: 3 << 20, Most: 20 << 20})},
	{"exact validation with its least", exactly(100<<20, Exact{Fixed: 7 << 20, Least: 15 << 20, Most: 900 << 20})},
	{"exact validation that does not fit", exactly(120<<20, Exact{Fixed: 7 << 20, Least: 100 << 20, Most: 900 << 20})},
	{"exact validation by another rank", func(o *Options, f *Facts) {
		o.Rank, o.Ranks, o.Accumulate, o.Validation = 1, 2, 2, recipe.Exact
	}},
}

// exactly is a case of exact validation with this memory.
func exactly(memory int64, e Exact) func(*Options, *Facts) {
	return func(o *Options, f *Facts) { o.Memory, o.Validation, f.Exact = memory, recipe.Exact, &e }
}

// TestExactMemory, by hand: a validation takes its share before the cache, and then the memory that is left; it has no
// slots. A GPU's memory is divided alike, and its store has the rest.
func TestExactMemory(t *testing.T) {
	decided := func(memory, left int64, e Exact) (d Decision, last featurestore.PlanOptions, err error) {
		o, f := ordinary()
		o.Epochs, f.Needs.GPULeft, f.Needs.OnGPU = 1, left, left > 0
		f.Info.Device = "a GPU"
		exactly(memory, e)(&o, &f)
		f.Plan = func(o featurestore.PlanOptions) (featurestore.Layout, error) { last = o; return divided(o) }
		d, err = Decide(o, f)
		return d, last, err
	}
	const fixed = 32<<20 + 20<<20 + EpochBytes
	for _, c := range []struct {
		memory      int64
		least, most int64
		first, want int64 // before the cache is planned, and at last
	}{
		{1 << 30, 3 << 20, 900 << 20, 256 << 20, 1<<30 - fixed - 7<<20 - (64+1+6*11)<<20},
		{1 << 30, 3 << 20, 20 << 20, 20 << 20, 20 << 20},
		{1 << 30, 300 << 20, 310 << 20, 300 << 20, 310 << 20},
		{160 << 20, 3 << 20, 900 << 20, 40 << 20, 40 << 20},
		{120 << 20, 20 << 20, 900 << 20, 30 << 20, 30 << 20},
		{100 << 20, 15 << 20, 900 << 20, 15 << 20, 15 << 20},
	} {
		d, last, err := decided(c.memory, 0, Exact{Fixed: 7 << 20, Opening: 5, Least: c.least, Most: c.most})
		if err != nil {
			t.Fatal(err)
		}
		m := &d.Memory
		if m.Exact != c.want || m.EvalSlots != 0 || last.EvalSlots != 0 || last.Memory != c.memory-fixed-7<<20-c.first-int64(last.Slots)<<20 {
			t.Errorf("of %d: %d, want %d; the store has %d", c.memory, m.Exact, c.want, last.Memory)
		}
		if s := d.Setup(0); s.ExactSize != c.want || s.EvalSlots != 0 || m.Total > c.memory {
			t.Errorf("%+v", s)
		}
	}
	const labels = 700 << 20 // of all nodes, before there are buffers
	if d, _, err := decided(1<<30, 0, Exact{Opening: labels, Least: 1 << 20, Most: 1 << 20}); err != nil || d.Memory.Total != fixed+1<<20+labels {
		t.Errorf("%d bytes with the labels of all nodes: %v", d.Memory.Total, err)
	}
	for _, c := range []struct{ left, least, most, want int64 }{
		{100 << 20, 1 << 20, 90 << 20, 24 << 20},
		{100 << 20, 1 << 20, 9 << 20, 9 << 20},
		{100 << 20, 50 << 20, 90 << 20, 50 << 20},
		{54 << 20, 50 << 20, 90 << 20, 50 << 20},
		{54<<20 - 1, 50 << 20, 90 << 20, -1},
	} {
		d, last, err := decided(1<<30, c.left, Exact{Least: 1, Most: 1, GPUFixed: 4 << 20, GPULeast: c.least, GPUMost: c.most})
		if c.want < 0 {
			if !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "at least 50.0 MiB of the GPU's memory, but the engine leaves 50.0 MiB") || !strings.Contains(err.Error(), "--validate sampled") {
				t.Errorf("%v", err)
			}
			continue
		}
		if err != nil || d.Memory.GPUExact != c.want || last.GPUMemory != c.left-4<<20-c.want || d.Setup(1000).GPUBytes != 1000+c.want {
			t.Errorf("of %d: %d, want %d; the store has %d: %v", c.left, d.Memory.GPUExact, c.want, last.GPUMemory, err)
		}
	}
}

// divided is the arithmetic of a store whose rows are 64 MiB, and whose slots are of 10 and 6 MiB.
func divided(o featurestore.PlanOptions) (featurestore.Layout, error) {
	l := featurestore.Layout{TableBytes: 1 << 20, SlotBytes: 10 << 20, EvalSlotBytes: 6 << 20}
	const rows = 64 << 20
	left := o.Memory - l.Bytes(o.Slots, o.EvalSlots)
	switch {
	case o.Least:
	case o.Cache != nil:
		l.RAMBytes = int64(o.Cache.Value)
	default:
		l.RAMBytes = min(rows, left)
	}
	if left < l.RAMBytes || left < 0 {
		return l, fault.New(fault.ErrBudget, "%d slots and the cache need %s, %s is left for them", o.Slots, budget.FormatBytes(l.Bytes(o.Slots, o.EvalSlots)), budget.FormatBytes(o.Memory))
	}
	l.CacheRows = l.RAMBytes >> 10
	return l, nil
}

// holding is divided for a store that holds rows for evaluation, at most the given bytes; then slots for
// evaluation are smaller.
func holding(most int64) func(featurestore.PlanOptions) (featurestore.Layout, error) {
	return func(o featurestore.PlanOptions) (featurestore.Layout, error) {
		l, err := divided(o)
		if l.HeldBytes = min(o.Hold.Memory, most); l.HeldBytes == most {
			l.EvalSlotBytes = 2 << 20
		}
		return l, err
	}
}

// ordinary is the run that the cases differ from.
func ordinary() (Options, Facts) {
	o := Options{Recipe: recipe.Defaults(), Engine: EngineCPU, Ranks: 1}
	o.Memory, o.Threads, o.Epochs, o.Accumulate = 1<<30, 4, 10, 1
	f := Facts{
		Store: Store{Facts: featurestore.Facts{BatchesPerEpoch: 50, Epochs: 1, Train: 50, Valid: 5, Test: 5}, Name: "packed", Dir: "pack", Which: "packed, of --pack"},
		IO:    Stack{Name: "uring", How: "uring: auto took the best"},
		Needs: Needs{Engine: 20 << 20, Work: 1 << 20, EvalWork: 1 << 20, Resume: 6 << 20},
		Info:  &engine.Info{BLAS: "OpenBLAS 0.3.26", SIMD: "avx2", Orders: []model.Order{model.Aggregate, model.Multiply}},
		Plan:  divided,
	}
	return o, f
}

// TestDecide: what is decided, recorded and said, by options and facts alone.
func TestDecide(t *testing.T) {
	var b strings.Builder
	for _, c := range table {
		o, f := ordinary()
		c.change(&o, &f)
		fmt.Fprintf(&b, "# %s\n", c.name)
		d, err := Decide(o, f)
		if err != nil {
			kind := "usage"
			if errors.Is(err, ErrMemory) {
				kind = "memory"
			}
			fmt.Fprintf(&b, "refused (%s): %v\n\n", kind, err)
			continue
		}
		s := d.Setup(1 << 30)
		for _, line := range d.Lines(&s) {
			fmt.Fprintln(&b, line)
		}
		fmt.Fprintf(&b, "-> slots %d+%d, planned %s, cache %s, checkpoint %s, outside the heap %s", s.Slots, s.EvalSlots,
			budget.FormatBytes(s.Planned), budget.FormatBytes(s.CacheSize), budget.FormatBytes(d.Checkpoint()), budget.FormatBytes(d.Outside()))
		for _, what := range []struct {
			name  string
			value any
			none  bool
		}{{"ranks", s.Ranks, s.Ranks == 0}, {"page cache", s.PageCache, s.PageCache == ""}, {"topology", s.Topology, s.Topology == ""}, {"state", budget.FormatBytes(s.StoreState), s.StoreState == 0}} {
			if !what.none {
				fmt.Fprintf(&b, ", %s %v", what.name, what.value)
			}
		}
		fmt.Fprint(&b, "\n\n")
		if s.Planned > o.Memory {
			t.Errorf("%s: %d bytes are planned, of %d", c.name, s.Planned, o.Memory)
		}
	}
	const golden = "testdata/decisions.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), b.String()); d != "" {
		t.Errorf("decided otherwise (-update writes it anew):\n%s", d)
	}
}

// TestHoldFor: the memory for held rows is all that is left, and the plan is asked for them with the number
// of validations of the run.
func TestHoldFor(t *testing.T) {
	o, f := ordinary()
	o.ValidateEvery = 4 // epochs 3, 7 and 9
	var last featurestore.PlanOptions
	f.Plan = func(o featurestore.PlanOptions) (featurestore.Layout, error) { last = o; return divided(o) }
	d, err := Decide(o, f)
	if err != nil {
		t.Fatal(err)
	}
	two := d.Memory // before more than three slots
	two.Slots = 3
	if want := (featurestore.Hold{Memory: o.Memory - two.Sum(&f.Needs), Validations: 3}); last.Hold != want || last.Slots != 3 || last.EvalSlots != 1 {
		t.Errorf("%+v, want %+v", last, want)
	}
	f.Plan = holding(7 << 20)
	d, err = Decide(o, f)
	if s := d.Setup(0); err != nil || s.HeldSize != 7<<20 || d.Outside() < 7<<20 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestReduce: all ranks sum on their devices, or none does.
func TestReduce(t *testing.T) {
	able, not := AbleToReduce{By: "NCCL 2.20"}, AbleToReduce{Why: "no library"}
	for _, c := range []struct {
		wanted string
		all    []AbleToReduce
		want   Reduction
	}{
		{ReduceAuto, []AbleToReduce{able, able}, Reduction{By: "NCCL 2.20"}},
		{ReduceAuto, []AbleToReduce{able, {By: "NCCL 2.19"}}, Reduction{By: "NCCL 2.20, rank 1 has NCCL 2.19"}},
		{ReduceAuto, []AbleToReduce{able, not}, Reduction{Why: "rank 1: no library"}},
		{ReduceAuto, []AbleToReduce{not, not}, Reduction{Why: "no library"}},
		{ReduceNCCL, []AbleToReduce{able, not}, Reduction{Why: "rank 1: no library", Refused: true}},
		{ReduceHost, []AbleToReduce{{Why: "--reduce host"}, {Why: "--reduce host"}}, Reduction{Why: "--reduce host"}},
	} {
		if d := cmp.Diff(c.want, Reduce(c.wanted, c.all)); d != "" {
			t.Errorf("%s, %+v: %s", c.wanted, c.all, d)
		}
	}
}
