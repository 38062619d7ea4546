package epoch

import (
	"context"
	"fmt"
	"sync/atomic"

	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/iostack"
	"diskgnn/pipeline"
	"diskgnn/train/collective"
	"diskgnn/train/cpu"
	"diskgnn/train/score"
)

// Names of the pipelines in traces and events.
const (
	trainName    = "train"
	evaluateName = "evaluate"
)

// A validator scores an engine's present weights. It belongs to the trainer.
type validator interface {
	// expect says that this epoch's validation is the next score.
	expect(epoch int)
	// validate returns the score of the validation nodes, undefined without any, and the bytes read.
	validate(ctx context.Context, epoch int) (score.Score, int64, error)
	// test returns the score of the test nodes. It comes once, after all validations.
	test(ctx context.Context) (score.Score, error)
	exact() bool
	close()
}

// Exact scores weights, as an engine's Snapshot has them, on the nodes of a split, with all of their neighbours, and
// returns the bytes that it read. Without nodes the score is undefined.
type Exact interface {
	Score(ctx context.Context, weights []float32, split string) (score.Score, int64, error)
}

// wholeGraph is the validator that scores exactly.
type wholeGraph struct {
	by      Exact
	replica *Replica
	weights []float32
}

func (w *wholeGraph) expect(int) {}

func (w *wholeGraph) validate(ctx context.Context, _ int) (score.Score, int64, error) {
	return w.score(ctx, dataset.Valid)
}

func (w *wholeGraph) test(ctx context.Context) (score.Score, error) {
	s, _, err := w.score(ctx, dataset.Test)
	return s, err
}

func (w *wholeGraph) score(ctx context.Context, split string) (_ score.Score, _ int64, err error) {
	if w.weights, err = w.replica.Engine.Snapshot(w.weights[:0]); err != nil {
		return score.Undefined, 0, err
	}
	return w.by.Score(ctx, w.weights, split)
}

func (w *wholeGraph) exact() bool { return true }

func (w *wholeGraph) close() {} // the caller's

// evaluation scores the weights on the store's validation and test batches. They are the items of
// one pipeline: the validation batches once for every epoch that is validated, then the test
// batches. No item begins before it is requested, or expected in an epoch that will be validated. So the
// test batches may also follow when training stops early: the batch of an item depends on the requests
// and expectations so far.
type evaluation struct {
	valid, tests, rounds int          // batches of each, and how often at most the former come
	asked                atomic.Int64 // items to validate with so far: those beyond are test batches
	expected             bool         // asked includes the batches of the next validation
	epoch                atomic.Int64 // that is validated
	replica              *Replica
	stack                iostack.Stack // nil within a run: the places of its training have the reads
	scorer               score.Scorer
	events               Stream
	diverged             func(what string) error // the error of logits that are not finite
	batches              *pipeline.Pipeline[*Slot]
	bytes                int64 // read for the batches scored since the last look
}

// start makes the evaluation's pipeline over slots, which it takes over.
func (v *evaluation) start(ctx context.Context, slots []*Slot, r *pipeline.Recorder) error {
	p, err := pipeline.Start(ctx, pipeline.Config[*Slot]{
		Links: append(loadingLinks(v.ref, len(slots)), pipeline.Link[*Slot]{Name: LinkCompute, Do: v.infer}),
		Slots: slots, Items: v.rounds*v.valid + v.tests, Label: v.label,
		Abort: drain, Free: free, Recorder: r, Name: evaluateName,
	})
	if err != nil {
		freeAll(slots)
		return err
	}
	v.batches = p
	v.events.Tell(opened(evaluateName, p, nil, v.stack))
	return nil
}

// at returns the batch of an item.
func (v *evaluation) at(item int) (test bool, i int) {
	if asked := int(v.asked.Load()); item >= asked {
		return true, item - asked
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
	return fmt.Sprintf("epoch %d, validation batch %d", v.epoch.Load(), item%v.valid)
}

func (v *evaluation) infer(ctx context.Context, sl *Slot, _ int) error {
	logits, err := v.replica.Engine.Infer(ctx, sl.work, sl.Slot)
	if err != nil {
		return err
	}
	if !cpu.Finite(logits) { // which no score shows: NaN is the largest of nothing
		return v.diverged("the logits are not finite")
	}
	b := sl.Batch()
	v.scorer.Add(logits, b.Labels, b.Targets)
	v.bytes += sl.Counts().BytesRead
	v.events.Tell(&Evaluated{})
	return nil
}

// expect lets the first batches of the validation load, as far as there are slots.
func (v *evaluation) expect(epoch int) {
	v.epoch.Store(int64(epoch))
	if v.expected {
		return
	}
	v.expected = true
	v.asked.Add(int64(v.valid))
	v.batches.Expect(v.valid)
}

func (v *evaluation) validate(_ context.Context, epoch int) (score.Score, int64, error) {
	v.expect(epoch)
	v.expected = false
	s, err := v.run("validate", v.valid)
	bytes := v.bytes
	v.bytes = 0
	return s, bytes, err
}

func (v *evaluation) test(context.Context) (score.Score, error) { return v.run("test", v.tests) }

func (v *evaluation) exact() bool { return false }

func (v *evaluation) run(name string, n int) (score.Score, error) {
	if n == 0 {
		return score.Undefined, nil
	}
	v.events.Tell(&EvaluationBegan{name, n})
	defer v.events.Tell(&EvaluationEnded{})
	if err := v.batches.Run(n); err != nil {
		return score.Undefined, err
	}
	return v.scorer.Score(), nil
}

func (v *evaluation) close() {
	if v.batches != nil {
		v.batches.Close()
		v.events.Tell(&Closed{evaluateName})
	}
}

// Evaluate scores an engine's weights on the validation and test batches of a store, once, in this
// number of slots. stack has the store's reads. diverged returns the error for logits that are not finite.
func (r *Replica) Evaluate(ctx context.Context, f *featurestore.Facts, metric string, slots int, stack iostack.Stack, events Stream, diverged func(what string) error) (valid, test score.Score, bytes int64, err error) {
	all, err := r.newSlots(slots, true, nil)
	if err != nil {
		return valid, test, 0, err
	}
	v := &evaluation{valid: f.Valid, tests: f.Test, rounds: 1, replica: r, scorer: score.New(EvalJudging(metric, f)), events: events, stack: stack, diverged: diverged}
	defer v.close()
	if err := v.start(ctx, all, nil); err != nil {
		return valid, test, 0, err
	}
	if valid, bytes, err = v.validate(ctx, 0); err != nil {
		return valid, test, bytes, err
	}
	test, err = v.test(ctx)
	return valid, test, bytes + v.bytes, err
}

// TrainJudging returns the options of the scorer for a store's training batches.
func TrainJudging(metric string, f *featurestore.Facts) score.Options {
	return score.Options{Metric: metric, MultiLabel: f.MultiLabel(), Classes: f.Classes, Rows: f.EpochSeeds}
}

// EvalJudging returns the options of the scorer for a store's evaluation batches.
func EvalJudging(metric string, f *featurestore.Facts) score.Options {
	return score.Options{Metric: metric, MultiLabel: f.MultiLabel(), Classes: f.Classes, Rows: f.EvalSeeds}
}

// opened returns the event of a new pipeline. Its places have the reads of the stack and the rank that the
// group waits for; both may be nil.
func opened(name string, p *pipeline.Pipeline[*Slot], g *collective.Group, stack iostack.Stack) *Opened {
	return &Opened{Name: name, Moved: p.Moved, Stands: func() Place {
		at := Place{Pipeline: name, Batches: p.Standing()}
		if stack != nil {
			at.Reads = stack.Stats().UnderWay
		}
		if g == nil {
			return at
		}
		if rank, waits := g.Awaits(); waits {
			at.Rank = &rank
		}
		return at
	}}
}
