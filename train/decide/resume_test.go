package decide

import (
	"errors"
	"strings"
	"testing"

	"diskgnn/featurestore"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
)

// earlierRun is a run on the CPU that aggregates first, on a pack of float32 rows.
func earlierRun() *rundir.File {
	f := &rundir.File{Dataset: "graph", Samples: "drawn", Pack: "packed"}
	f.PackFacts.DType = dtype.Float32
	f.Setup.Engine = EngineCPU
	f.Setup.Orders = []model.Order{model.Aggregate, model.Multiply}
	f.Setup.EvalOrders = []model.Order{model.Aggregate, model.Aggregate}
	return f
}

// TestOtherStores: what a run that goes on refuses of a store, and what the batches alone refuse.
func TestOtherStores(t *testing.T) {
	const samples = "RUN was trained on the samples drawn…, but DIR is of the samples others…; to train anew, give --force or another --out"
	for name, c := range map[string]struct {
		was     func(f *rundir.File)
		lineage featurestore.Lineage
		rows    dtype.Type // of the store; "": those of the run
		batches string     // SameBatches says; "": they are the same
		all     string     // SameSamples says; "": the run goes on
	}{
		"the same pack":             {nil, featurestore.Lineage{Dataset: "graph", Samples: "drawn", Store: "packed"}, "", "", ""},
		"its pack, of other rows":   {nil, featurestore.Lineage{Dataset: "graph", Samples: "drawn", Store: "packed"}, dtype.Int8, "", ""},
		"its pack, without samples": {func(f *rundir.File) { f.Samples = "" }, featurestore.Lineage{Dataset: "graph", Samples: "drawn", Store: "packed"}, "", "", ""},
		"another pack":              {nil, featurestore.Lineage{Dataset: "graph", Samples: "drawn", Store: "repacked"}, "", "the pack packed…, but DIR is repacked…", "the pack packed…, but DIR is repacked…"},
		"the pack's samples":        {nil, featurestore.Lineage{Dataset: "graph", Samples: "drawn"}, "", "", ""},
		"other samples":             {nil, featurestore.Lineage{Dataset: "graph", Samples: "others"}, "", samples, samples},
		"no samples known":          {func(f *rundir.File) { f.Samples = "" }, featurestore.Lineage{Samples: "drawn"}, "", "go on with that pack", "go on with that pack"},
		"samples, then their pack":  {func(f *rundir.File) { f.Pack = "" }, featurestore.Lineage{Dataset: "graph", Samples: "drawn", Store: "packed"}, "", "", ""},
		"samples, then another's pack": {func(f *rundir.File) { f.Pack = "" },
			featurestore.Lineage{Dataset: "graph", Samples: "others", Store: "packed"}, "", samples, samples},
		"the same samples":      {func(f *rundir.File) { f.Pack, f.Setup.Engine = "", EngineGPU }, featurestore.Lineage{Samples: "drawn"}, dtype.Int8, "", ""},
		"samples, then others":  {func(f *rundir.File) { f.Pack = "" }, featurestore.Lineage{Samples: "others"}, "", samples, samples},
		"drawn, the same graph": {func(f *rundir.File) { f.Pack, f.Params.Fanout = "", "3,4" }, featurestore.Lineage{Dataset: "graph", Samples: "drawn"}, "", "", ""},
		"drawn, another graph": {func(f *rundir.File) { f.Pack, f.Params.Fanout = "", "3,4" },
			featurestore.Lineage{Dataset: "else", Samples: "others"}, "", "the dataset graph…, but DIR is else…", "the dataset graph…, but DIR is else…"},
		"rows of another dtype": {nil, featurestore.Lineage{Samples: "drawn"}, dtype.Int8, "", "RUN was trained on rows of float32, but the rows of DIR are int8"},
		"nothing computes":      {func(f *rundir.File) { f.Setup.Engine, f.Setup.Orders = EngineNone, []model.Order{model.Multiply} }, featurestore.Lineage{Samples: "drawn"}, "", "", ""},
		"a GPU":                 {func(f *rundir.File) { f.Setup.Engine = EngineGPU }, featurestore.Lineage{Samples: "drawn"}, "", "", "with --engine gpu the last bits of the weights depend on the order"},
		"a layer multiplies first": {func(f *rundir.File) { f.Setup.Orders = []model.Order{model.Multiply} },
			featurestore.Lineage{Samples: "drawn"}, "", "", "RUN cannot be resumed on another store: with an input projection, or a layer that multiplies"},
	} {
		f := earlierRun()
		if c.was != nil {
			c.was(f)
		}
		s := Store{Dir: "DIR", Lineage: c.lineage}
		if s.DType = c.rows; c.rows == "" {
			s.DType = f.PackFacts.DType
		}
		for _, check := range []struct {
			what string
			err  error
			says string
		}{{"batches", SameBatches(f, "RUN", &s), c.batches}, {"all", SameSamples(f, "RUN", &s), c.all}} {
			if err := check.err; (err == nil) != (check.says == "") || err != nil && (!errors.Is(err, fault.ErrLineage) || !strings.Contains(err.Error(), check.says)) {
				t.Errorf("%s, %s: %v, not %q", name, check.what, err, check.says)
			}
		}
	}
}

// Resolve refuses the store of another run.
func TestResolveAsksTheRunThatGoesOn(t *testing.T) {
	o := Options{Recipe: recipe.Defaults(), Engine: EngineCPU, Ranks: 1, Samples: "pack", Out: "RUN"}
	s := Store{Facts: featurestore.Facts{Dim: 8, Classes: 3, Train: 20, Epochs: 2, BatchesPerEpoch: 10, Fanout: []int{3, 4}}, Dir: "DIR", Lineage: featurestore.Lineage{Samples: "others"}}
	if _, err := Resolve(o, &s, earlierRun()); !errors.Is(err, fault.ErrLineage) || !strings.Contains(err.Error(), "RUN was trained on the samples drawn") {
		t.Error(err)
	}
	s.Lineage.Samples = "drawn"
	s.DType = dtype.Float32
	if _, err := Resolve(o, &s, earlierRun()); err != nil {
		t.Error(err)
	}
}

// Only the outermost layer reads input nodes; both of training and of evaluation count.
func TestInputOrderFree(t *testing.T) {
	const a, m = model.Aggregate, model.Multiply
	for _, c := range []struct {
		projection   int
		orders, eval []model.Order
		want         bool
	}{
		{0, nil, nil, true},
		{0, []model.Order{a, m}, []model.Order{a, m}, true},
		{0, []model.Order{m, a}, []model.Order{a, a}, false},
		{0, []model.Order{a, a}, []model.Order{m, a}, false},
		{1, []model.Order{a}, []model.Order{a}, false},
	} {
		if got := InputOrderFree(&model.Model{InputProjection: c.projection}, &engine.Info{Orders: c.orders, EvalOrders: c.eval}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestArithmetic: each difference is named, with what was and what is; that of the products'
// precision is none, which the recipe has.
func TestArithmetic(t *testing.T) {
	const a, m = model.Aggregate, model.Multiply
	was := engine.Info{BLAS: "OpenBLAS", SIMD: "avx2", Device: "H100", Precision: "tf32", Orders: []model.Order{a}, EvalOrders: []model.Order{m}, Note: "was"}
	for _, c := range []struct {
		change func(i *engine.Info)
		says   string // "": nothing differs
	}{
		{func(i *engine.Info) { i.Note = "is" }, ""},
		{func(i *engine.Info) { i.BLAS = "gonum" }, "matrix products by OpenBLAS, now gonum"},
		{func(i *engine.Info) { i.SIMD = "avx512" }, "kernels avx2, now avx512"},
		{func(i *engine.Info) { i.Device = "H200" }, "the GPU H100, now H200"},
		{func(i *engine.Info) { i.Orders = []model.Order{m} }, "layer orders [aggregate] [multiply], now [multiply] [multiply]"},
		{func(i *engine.Info) { i.EvalOrders = []model.Order{a} }, "layer orders [aggregate] [multiply], now [aggregate] [aggregate]"},
		{func(i *engine.Info) { i.BLAS, i.Device = "gonum", "H200" }, "matrix products by OpenBLAS, now gonum; the GPU H100, now H200"},
	} {
		now := was
		c.change(&now)
		if got := DifferentArithmetic(&was, now); got != c.says {
			t.Errorf("%q, not %q", got, c.says)
		}
		f := &rundir.File{Setup: rundir.Setup{Info: was}}
		err := SameArithmetic(f, now)
		if (err == nil) != (c.says == "") || err != nil && (!errors.Is(err, fault.ErrLineage) || !strings.HasSuffix(err.Error(), "trained with "+c.says)) {
			t.Errorf("%v, not %q", err, c.says)
		}
	}
}
