package train

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"diskgnn/dataset"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/iostack/all"
	"diskgnn/train/decide"
	"diskgnn/train/exact"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
)

// Exact validation computes the scores of validation and test nodes as `eval --exact` does, with the weights of the
// run, on its engine and within its memory. Rank 0 does it. It needs the dataset; a pack has its fingerprint.

// exactly reports whether this process scores weights exactly.
func (o *Options) exactly() bool { return o.Validation == recipe.Exact && o.root() }

// openValidator opens the validator of exact scores, if the process has one, and returns its needs; else nil.
func (r *runner) openValidator(ctx context.Context, o *Options) (*decide.Exact, error) {
	var splits []string
	if r.facts.Valid > 0 {
		splits = append(splits, dataset.Valid)
	}
	if r.facts.Test > 0 {
		splits = append(splits, dataset.Test)
	}
	if !o.exactly() || len(splits) == 0 {
		return nil, nil
	}
	before, beside := r.needs.held(), r.needs.Engine+r.needs.Stack
	v, err := exact.OpenValidator(ctx, r.fs, exact.ValidationOptions{Run: o.Out, Scratch: filepath.Join(o.Out, rundir.ScratchDir), Dataset: o.Dataset,
		Batches: r.found.Dir(), Lineage: r.found.Lineage().Dataset, Model: o.Network(), Metric: o.Metric, Splits: splits,
		Memory: o.Memory - beside, Threads: o.Threads, IO: all.Beside(o.IO), BLAS: o.BLAS, GPU: r.needs.gpu}, r.report)
	if errors.Is(err, fault.ErrBudget) {
		err = fmt.Errorf("%w beside the engine, which takes %s: raise --memory, or give --validate sampled", err, budget.FormatBytes(beside))
	}
	if err != nil {
		return nil, err
	}
	r.onClose(func() { _ = v.Close() }) // only read from
	r.exact = v
	needs := v.Needs()
	needs.GPUFixed = r.needs.held() - before
	return &needs, nil
}

// held returns the bytes that the run holds of its first GPU.
func (n *engineNeeds) held() int64 {
	if n.gpu == nil {
		return 0
	}
	device, _ := n.gpu.Held()
	return device
}

// arrange gives the validator its memory.
func (r *runner) arrange() error {
	if r.exact == nil {
		return nil
	}
	m := &r.decision.Memory
	return r.exact.Arrange(m.Exact, m.GPUExact)
}

// outside returns the bytes outside of Go's heap.
func (r *runner) outside() int64 {
	n := r.decision.Outside()
	if r.exact != nil {
		n += r.exact.Outside()
	}
	return n
}
