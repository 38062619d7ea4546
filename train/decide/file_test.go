package decide

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/featurestore"
	"diskgnn/internal/dtype"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
)

// TestFile: run.json has what was decided; a run that goes on keeps its parents and its command, and
// how many epochs it was begun with.
func TestFile(t *testing.T) {
	ordinarily := func() Decision {
		o, f := ordinary()
		o.Command, o.Keep, o.Preferences.Keep = []string{"train", "--epochs", "10"}, 4, 4
		o.Precision = recipe.PrecisionTF32
		f.Store.Lineage = featurestore.Lineage{Store: "p", Samples: "s", Dataset: "d"}
		f.Store.TargetBytes = 1
		return Decision{Options: o, Facts: f}
	}
	was := func(epochs, first int, command []string) *rundir.File {
		f := rundir.File{Pack: "earlier p", Samples: "earlier s", Dataset: "earlier d", Command: command, FirstEpochs: first}
		f.Params.Epochs = epochs
		return &f
	}
	for name, c := range map[string]struct {
		change                        func(d *Decision)
		pack, samples, command, label string
		precision                     string
		first                         int
	}{
		"a new run":           {func(*Decision) {}, "p", "s", "train", "multi-hot", "", 0},
		"on a GPU":            {func(d *Decision) { d.Options.Engine = EngineGPU }, "p", "s", "train", "multi-hot", recipe.PrecisionTF32, 0},
		"one class":           {func(d *Decision) { d.Facts.Store.TargetBytes = 0 }, "p", "s", "train", "class", "", 0},
		"one that goes on":    {func(d *Decision) { d.Facts.Was = was(10, 0, []string{"began"}) }, "earlier p", "earlier s", "began", "multi-hot", "", 0},
		"made longer":         {func(d *Decision) { d.Facts.Was = was(6, 0, []string{"began"}) }, "earlier p", "earlier s", "began", "multi-hot", "", 6},
		"made longer again":   {func(d *Decision) { d.Facts.Was = was(8, 6, []string{"began"}) }, "earlier p", "earlier s", "began", "multi-hot", "", 6},
		"an old one, unnamed": {func(d *Decision) { d.Facts.Was = was(10, 0, nil) }, "earlier p", "earlier s", "train", "multi-hot", "", 0},
	} {
		d := ordinarily()
		c.change(&d)
		f := d.File(rundir.Setup{Engine: "as given"})
		if f.Pack != c.pack || f.Samples != c.samples || f.Dataset != "d" || f.Command[0] != c.command || f.LabelKind != c.label || f.Params.Precision != c.precision || f.FirstEpochs != c.first {
			t.Errorf("%s: %+v", name, f)
		}
		if f.Setup.Engine != "as given" || f.Preferences.Keep != 4 || f.Store != "packed" || f.PackFacts.BatchesPerEpoch != 50 || f.PackFacts.Epochs != 1 || f.PackFacts.Dir != "pack" || f.Params.Epochs != 10 {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestIdentity: ranks differ by what decides bits, and by nothing else. The first difference is said.
func TestIdentity(t *testing.T) {
	identity := func(change func(o *Options, f *Facts)) Identity {
		o, f := ordinary()
		f.Store.Lineage = featurestore.Lineage{Store: "0123456789abcdef", Samples: "s", Dataset: "d"}
		change(&o, &f)
		d, err := Decide(o, f)
		if err != nil {
			t.Fatal(err)
		}
		file := d.File(d.Setup(0))
		id, err := d.Identity(&file)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	root := identity(func(*Options, *Facts) {})
	for want, change := range map[string]func(o *Options, f *Facts){
		"its pack is fedcba987654…, rank 0's is 0123456789ab…":                                func(_ *Options, f *Facts) { f.Store.Lineage.Store = "fedcba9876543210" },
		"its pack is none, rank 0's is 0123456789ab…":                                         func(_ *Options, f *Facts) { f.Store.Lineage.Store = "" },
		"its samples are other…, rank 0's are s…":                                             func(_ *Options, f *Facts) { f.Store.Lineage.Samples = "other" },
		"its dataset is other…, rank 0's is d…":                                               func(_ *Options, f *Facts) { f.Store.Lineage.Dataset = "other" },
		"its store is rows, rank 0's is packed":                                               func(_ *Options, f *Facts) { f.Store.Name = "rows" },
		"its --hidden is 7, rank 0's is 256":                                                  func(o *Options, _ *Facts) { o.Hidden = 7 },
		"its engine is gpu, rank 0's is cpu":                                                  func(o *Options, _ *Facts) { o.Engine = EngineGPU },
		"its results would differ in rounding: matrix products by OpenBLAS 0.3.26, now gonum": func(_ *Options, f *Facts) { info := *f.Info; info.BLAS, f.Info = "gonum", &info },
		"": func(o *Options, f *Facts) {
			o.Memory, o.Threads, o.Slots, o.Out, o.Rank, f.IO.Name, f.Store.Dir = 512<<20, 9, 2, "elsewhere", 1, "pread", "my pack"
		},
	} {
		other := identity(change)
		if got := other.Differs(&root); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

// TestScheduleOfRank: of the run's batches, by what was decided.
func TestScheduleOfRank(t *testing.T) {
	o, f := ordinary()
	o.Seed, o.ShuffleBatches, o.Accumulate, o.Ranks = 5, true, 6, 3
	f.Store.Epochs = 2
	d := Decision{Options: o, Facts: f}
	want := Schedule{Epochs: 10, PerEpoch: 50, Sampled: 2, Shuffle: true, Seed: 5, Accumulate: 6, Rank: 2, World: 3}
	if diff := cmp.Diff(want, d.Schedule(2)); diff != "" {
		t.Error(diff)
	}
}

// TestPackFacts: what run.json says of the store, for people.
func TestPackFacts(t *testing.T) {
	o, f := ordinary()
	s := &f.Store
	s.Nodes, s.Dim, s.Classes, s.DType, s.RowBytes, s.Fanout = 1, 2, 3, dtype.Float16, 4, []int{5, 6}
	s.Description = featurestore.Description{Codec: "c", Policy: "p"}
	d := Decision{Options: o, Facts: f}
	want := rundir.PackFacts{Dir: "pack", Nodes: 1, Dim: 2, Classes: 3, DType: dtype.Float16, RowBytes: 4, Fanout: []int{5, 6}, Epochs: 1, BatchesPerEpoch: 50, Description: s.Description}
	if diff := cmp.Diff(want, d.File(rundir.Setup{}).PackFacts); diff != "" {
		t.Error(diff)
	}
}

// TestOtherNetwork: ranks of equal options whose network is another are told apart.
func TestOtherNetwork(t *testing.T) {
	o, f := ordinary()
	d := Decision{Options: o, Facts: f}
	file := d.File(rundir.Setup{})
	root, err := d.Identity(&file)
	if err != nil {
		t.Fatal(err)
	}
	file.Params.Network.Dims = []int{1, 2}
	other, err := d.Identity(&file)
	if err != nil {
		t.Fatal(err)
	}
	if got := other.Differs(&root); got != "its options differ from rank 0's" {
		t.Errorf("%q", got)
	}
}
