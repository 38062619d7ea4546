package decide

import (
	"fmt"
	"strings"

	"diskgnn/internal/fault"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/rundir"
)

// SameBatches refuses a store with other batches than the run was trained on.
func SameBatches(f *rundir.File, out string, now *Store) error {
	l := now.Lineage
	refuse := func(format string, args ...any) error {
		return fault.New(fault.ErrLineage, format+"; to train anew, give --force or another --out", args...)
	}
	switch {
	case f.Params.Live() && f.Dataset != l.Dataset:
		return refuse("%s was trained on the dataset %.12s…, but %s is %.12s…: it changed since, or is another one", out, f.Dataset, now.Dir, l.Dataset)
	case f.Pack != "" && f.Pack == l.Store:
		return nil
	case f.Pack != "" && l.Store != "":
		return refuse("%s was trained on the pack %.12s…, but %s is %.12s…", out, f.Pack, now.Dir, l.Store)
	case f.Samples == "":
		return refuse("%s was trained on the pack %.12s…, by a version of this program that did not record its samples: go on with that pack", out, f.Pack)
	case f.Samples != l.Samples:
		return refuse("%s was trained on the samples %.12s…, but %s is of the samples %.12s…", out, f.Samples, now.Dir, l.Samples)
	}
	return nil
}

// SameSamples refuses to resume a run at out on another store, unless the bits of the weights and
// scores are the same on both.
func SameSamples(f *rundir.File, out string, now *Store) error {
	l := now.Lineage
	if f.Pack == l.Store && (f.Pack != "" || f.Samples == l.Samples) {
		return nil
	}
	if err := SameBatches(f, out, now); err != nil {
		return err
	}
	refuse := func(format string, args ...any) error { return fault.New(fault.ErrLineage, format, args...) }
	switch {
	case f.PackFacts.DType != now.DType:
		return refuse("%s was trained on rows of %s, but the rows of %s are %s", out, f.PackFacts.DType, now.Dir, now.DType)
	case f.Setup.Engine == EngineNone:
		return nil
	case f.Setup.Engine != EngineCPU:
		return refuse("%s cannot be resumed on another store: with --engine %s the last bits of the weights depend on the order of a batch's input nodes, which differs between stores", out, f.Setup.Engine)
	case !InputOrderFree(&f.Params.Network, &f.Setup.Info):
		return refuse("%s cannot be resumed on another store: with an input projection, or a layer that multiplies before it aggregates, the last bits of the weights depend on the order of a batch's input nodes, which differs between stores (train with --layer-order aggregate and without --input-projection)", out)
	}
	return nil
}

// InputOrderFree reports whether no bit of the weights and of the scores depends on the order of a
// batch's input nodes: the outermost layer sums their rows, edge by edge, before any other
// operation.
func InputOrderFree(m *model.Model, i *engine.Info) bool {
	if m.InputProjection > 0 {
		return false
	}
	for _, orders := range [][]model.Order{i.Orders, i.EvalOrders} {
		if len(orders) > 0 && orders[0] != model.Aggregate {
			return false
		}
	}
	return true
}

// SameArithmetic refuses to resume on a machine that rounds differently.
func SameArithmetic(f *rundir.File, now engine.Info) error {
	differ := DifferentArithmetic(&f.Setup.Info, now)
	if differ == "" {
		return nil
	}
	return fault.New(fault.ErrLineage, "the run cannot be resumed here: it was trained with %s", differ)
}

// DifferentArithmetic describes the libraries or instructions that round differently, "" if there
// are none.
func DifferentArithmetic(i *engine.Info, now engine.Info) string {
	var differ []string
	for _, d := range []struct{ what, was, now string }{
		{"matrix products by", i.BLAS, now.BLAS},
		{"kernels", i.SIMD, now.SIMD},
		{"the GPU", i.Device, now.Device},
		{"layer orders", fmt.Sprint(i.Orders, i.EvalOrders), fmt.Sprint(now.Orders, now.EvalOrders)},
	} {
		if d.was != d.now {
			differ = append(differ, fmt.Sprintf("%s %s, now %s", d.what, d.was, d.now))
		}
	}
	return strings.Join(differ, "; ")
}
