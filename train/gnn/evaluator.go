package gnn

import (
	"context"

	"diskgnn/graph"
	"diskgnn/train/gnn/model"
)

// Evaluator computes logits with an engine's current weights, which it shares,
// without dropout. It must not be used while the engine steps, nor after the
// engine's Close.
type Evaluator struct {
	plan     *plan
	net      *machine
	preparer *Preparer
}

// NewEvaluator makes an evaluator for batches of at most these sizes, which may be
// far larger than the training ones. Layers whose order was Auto get the cheaper
// one for a forward pass at these sizes.
func (e *Engine) NewEvaluator(sizes graph.Sizes) (*Evaluator, error) {
	p, err := e.evaluationPlan(sizes)
	if err != nil {
		return nil, err
	}
	v := &Evaluator{plan: p, preparer: newPreparer(p.model, p.orders, sizes, false)}
	v.net, err = newMachine(p, e.pool, e.blas, e.opt.weights, nil)
	return v, err
}

// EvaluatorBytes predicts the memory that NewEvaluator's evaluator will hold.
func (e *Engine) EvaluatorBytes(sizes graph.Sizes) (int64, error) {
	p, err := e.evaluationPlan(sizes)
	if err != nil {
		return 0, err
	}
	return 4 * int64(p.inferenceFloats()), nil
}

func (e *Engine) evaluationPlan(sizes graph.Sizes) (*plan, error) {
	if err := checkSizes(e.plan.model, sizes); err != nil {
		return nil, err
	}
	return newPlan(e.plan.model, resolveOrders(e.plan.model, sizes, e.blas, false), sizes, e.plan.threads), nil
}

// Preparer returns what makes batches ready for Infer.
func (v *Evaluator) Preparer() *Preparer { return v.preparer }

// Orders returns the layers' orders of operations.
func (v *Evaluator) Orders() []model.Order { return v.plan.orders }

// Infer returns the logits of the batch's seed nodes, row-major, a column per class,
// in the evaluator's own memory: valid until its next call.
func (v *Evaluator) Infer(ctx context.Context, in *Input) ([]float32, error) {
	if err := checkInput(v.plan, v.preparer, in); err != nil {
		return nil, err
	}
	if err := v.net.run(ctx, in, 0, 0); err != nil {
		return nil, err
	}
	last := v.net.layers[len(v.net.layers)-1]
	return last.data[:in.Prepared.batch.NumSeeds()*last.outDim], nil
}

// CountCorrect returns how many of the labelled rows of logits have their largest
// value at their class, the first of equals deciding, and how many are labelled.
func CountCorrect(logits []float32, labels []int32) (correct, count int) {
	if len(labels) == 0 {
		return 0, 0
	}
	classes := len(logits) / len(labels)
	for i, y := range labels {
		if y == graph.Unlabelled {
			continue
		}
		count++
		if argmax(logits[i*classes:(i+1)*classes]) == int(y) {
			correct++
		}
	}
	return correct, count
}
