package train

import (
	"context"
	"fmt"

	"diskgnn/featurestore"
	"diskgnn/pipeline"
	"diskgnn/train/cpu"
	"diskgnn/train/score"
)

// evaluation scores the weights on the store's validation and test batches. They are
// the items of one pipeline: the validation batches once for every epoch that is
// validated, then the test batches. As no item begins before it is asked for, these may
// also follow when training stopped early: what an item is depends on what was asked for
// so far.
type evaluation struct {
	valid, tests, rounds int // batches of each, and how often at most the former come
	asked                int // items to validate with so far: those beyond are test batches
	epoch                int // that is validated
	replica              *replica
	scorer               score.Scorer
	events               stream
	diverged             func(what string) error // the error of logits that are not finite
	batches              *pipeline.Pipeline[*slot]
	bytes                int64 // read for the batches scored since the last look
}

// start makes the evaluation's pipeline over slots, which it takes over.
func (v *evaluation) start(ctx context.Context, slots []*slot, r *pipeline.Recorder) error {
	p, err := pipeline.Start(ctx, pipeline.Config[*slot]{
		Links: append(loadingLinks(v.ref, len(slots)), pipeline.Link[*slot]{Name: linkCompute, Do: v.infer}),
		Slots: slots, Items: v.rounds*v.valid + v.tests, Label: v.label,
		Abort: drain, Free: free, Recorder: r, Name: "evaluate",
	})
	if err != nil {
		freeAll(slots)
		return err
	}
	v.batches = p
	return nil
}

// at returns which batch an item is.
func (v *evaluation) at(item int) (test bool, i int) {
	if item >= v.asked {
		return true, item - v.asked
	}
	return false, item % v.valid
}

// ref names the batch of an item.
func (v *evaluation) ref(item int) featurestore.Ref {
	test, i := v.at(item)
	if test {
		return featurestore.Ref{Split: featurestore.Test, Index: i}
	}
	return featurestore.Ref{Split: featurestore.Valid, Index: i}
}

func (v *evaluation) label(item int) string {
	if test, i := v.at(item); test {
		return fmt.Sprintf("test batch %d", i)
	}
	return fmt.Sprintf("epoch %d, validation batch %d", v.epoch, item%v.valid)
}

func (v *evaluation) infer(ctx context.Context, sl *slot, _ int) error {
	logits, err := v.replica.engine.Infer(ctx, sl.work, sl.Slot)
	if err != nil {
		return err
	}
	if !cpu.Finite(logits) { // which no score shows: NaN is the largest of nothing
		return v.diverged("the logits are not finite")
	}
	b := sl.Batch()
	v.scorer.Add(logits, b.Labels, b.Targets)
	v.bytes += sl.Counts().BytesRead
	v.events.tell(&evaluated{})
	return nil
}

// validate scores the present weights on the validation batches; without any the
// score is undefined.
func (v *evaluation) validate() (score.Score, int64, error) {
	v.asked += v.valid
	s, err := v.run("validate", v.valid)
	bytes := v.bytes
	v.bytes = 0
	return s, bytes, err
}

// test scores the present weights on the test batches, once, after all validations.
func (v *evaluation) test() (score.Score, error) { return v.run("test", v.tests) }

func (v *evaluation) run(name string, n int) (score.Score, error) {
	if n == 0 {
		return score.Undefined, nil
	}
	v.events.tell(&evaluationBegan{name, n})
	defer v.events.tell(&evaluationEnded{})
	if err := v.batches.Run(n); err != nil {
		return score.Undefined, err
	}
	return v.scorer.Score(), nil
}

// visibleBatches are so many that evaluating them deserves a line of its own.
const visibleBatches = 32

func (v *evaluation) close() {
	if v.batches != nil {
		v.batches.Close()
	}
}
