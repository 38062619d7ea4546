package gpu

import (
	"context"
	"errors"
	"math"

	"diskgnn/internal/binio"
	"diskgnn/train/engine"
	"diskgnn/train/model"
)

// Infer returns the logits of the batch in w, row-major, a column per class, computed with the
// current weights and without dropout. They are in the engine's memory, valid until its next call.
func (e *Engine) Infer(ctx context.Context, work engine.Work, f engine.Features) ([]float32, error) {
	w := work.(*Work)
	if e.eval == nil {
		return nil, errNoEvaluation
	}
	if err := w.check(e.eval.plan, f); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	_, raw, _ := e.evalInput.parts()
	logits := binio.View[float32](raw)[:w.prepared.Batch().NumSeeds()*e.opts.Network.Classes()]
	return logits, e.device.Attached(func() error {
		if err := e.refresh(); err != nil {
			return err
		}
		i := &e.evalInput
		err := errors.Join(i.take(e.main, w, f, false), i.awaitGather(e.main))
		if err == nil {
			e.eval.compute(i)
			err = errors.Join(e.eval.forward(), e.main.CopyOut(binio.Bytes(logits), e.eval.last().data), i.told(e.main))
		}
		if err = errors.Join(err, e.main.Synchronize()); err != nil { // after an error too: the caller may free the source of a copy
			return err
		}
		return errors.Join(i.wrong(), engine.Landed(f))
	})
}

// refresh computes batch norms' factors for evaluation from the weights: 1/√(running variance + ε).
func (e *Engine) refresh() error {
	if !e.stale {
		return nil
	}
	for _, k := range e.eval.layers {
		o := k.tail.norm
		if o == nil || !o.batch {
			continue
		}
		v := make([]float32, k.width)
		if err := errors.Join(e.main.CopyOut(binio.Bytes(v), o.runVar), e.main.Synchronize()); err != nil {
			return err
		}
		if err := e.main.CopyIn(o.inverse, binio.Bytes(inverseRoots(v))); err != nil {
			return err
		}
	}
	e.stale = false
	return nil
}

// inverseRoots returns batch norm's factors: 1/√(running variance + ε).
func inverseRoots(variance []float32) []float32 {
	to := make([]float32, len(variance))
	for c, v := range variance {
		to[c] = float32(1 / math.Sqrt(float64(v)+model.NormEpsilon))
	}
	return to
}
