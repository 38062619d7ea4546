package train

import (
	"context"
	"fmt"
	"math"
	"time"

	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
	"diskgnn/pipeline"
)

// trainer drives the epochs. All of it belongs to one goroutine.
type trainer struct {
	options  *Options
	schedule *schedule
	rowBytes int64 // of a packed row
	store    *featurestore.Store
	engine   engine // nil: batches are loaded and thrown away
	dir      *runDir
	report   progress.Reporter
	recorder *pipeline.Recorder // nil without a trace
	stack    iostack.Stack      // whose reads are counted
	counted  iostack.Stats      // those of earlier epochs

	batches *pipeline.Pipeline[*slot]
	eval    *evaluation // nil without validation and test batches, or engine
	scorer  scorer
	task    progress.Task

	now   Epoch   // the epoch under way
	loss  float64 // summed over its labelled seed nodes
	seeds int     // their number

	best []float32 // weights of the best epoch
}

// start makes the training pipeline over slots, which it takes over.
func (t *trainer) start(ctx context.Context, slots []*slot) error {
	name := stageCompute
	if t.engine == nil {
		name = stageConsume
	}
	stages := append(loadingStages(t.store, t.schedule, len(slots)), pipeline.Stage[*slot]{Name: name, Do: t.step})
	p, err := pipeline.Start(ctx, pipeline.Config[*slot]{
		Stages: stages, Slots: slots, Items: t.schedule.steps(), Label: t.schedule.label,
		Abort: drain(t.store), Free: free, Recorder: t.recorder, Name: "train",
	})
	if err != nil {
		freeAll(slots)
		return err
	}
	t.batches = p
	return nil
}

// run trains all epochs and judges the best one's weights on the test batches.
func (t *trainer) run(ctx context.Context, r *Result) error {
	t.task = t.report.Task("train", int64(t.schedule.steps()), progress.Batches)
	defer t.task.Done()
	r.BestEpoch, r.ValidAccuracy, r.TestAccuracy = -1, undefined, undefined
	for e := range t.schedule.epochs {
		if err := t.epoch(ctx, e, r); err != nil {
			return err
		}
	}
	if t.engine == nil {
		return nil
	}
	if err := t.dir.saveWeights(FinalFile, t.engine.Tensors(), t.schedule.epochs-1); err != nil {
		return err
	}
	if t.eval == nil {
		return nil
	}
	if err := t.engine.Restore(t.best); err != nil {
		return err
	}
	var err error
	r.TestAccuracy, err = t.eval.test()
	return err
}

// epoch trains one epoch, validates, and records both.
func (t *trainer) epoch(ctx context.Context, e int, r *Result) error {
	t.now = Epoch{Epoch: e, Loss: undefined, TrainAccuracy: undefined, ValidAccuracy: undefined, Batches: t.schedule.perEpoch}
	t.loss, t.seeds = 0, 0
	if err := t.batches.Run(t.schedule.perEpoch); err != nil {
		return err
	}
	table := t.batches.Table()
	t.now.Seconds, t.now.Stages = table.Seconds, table.Stages
	for _, s := range table.Stages {
		switch s.Stage {
		case stageRead:
			t.now.ReadSeconds = s.Busy
		case stageCompute:
			t.now.ComputeSeconds = s.Busy
		}
	}
	if e == 0 {
		t.now.Seconds += r.PreloadSeconds
	}
	isBest, err := t.judge(r)
	if err != nil {
		return err
	}
	t.now.ReadRate = t.readRate()
	r.Epochs = append(r.Epochs, t.now)
	if err := t.dir.appendMetrics(t.now); err != nil {
		return err
	}
	t.report.Logf("%s", t.line(table, isBest))
	t.dir.reportProgress()
	return ctx.Err()
}

// readRate returns the rate of all reads since the last call.
func (t *trainer) readRate() Score {
	before := t.counted
	t.counted = t.stack.Stats()
	done := t.counted.Sub(before)
	if done.BytesRead == 0 || done.InFlight <= 0 {
		return undefined
	}
	return Score(float64(done.BytesRead) / done.InFlight.Seconds())
}

// judge scores the epoch, and keeps its weights if they are the best so far.
func (t *trainer) judge(r *Result) (isBest bool, err error) {
	if t.engine == nil {
		return false, nil
	}
	if t.seeds > 0 {
		t.now.Loss = Score(t.loss / float64(t.seeds))
	}
	t.now.TrainAccuracy = t.scorer.score()
	if t.eval != nil {
		began := time.Now()
		if t.now.ValidAccuracy, t.now.ValidBytesRead, err = t.eval.validate(); err != nil {
			return false, err
		}
		t.now.ValidSeconds = time.Since(began).Seconds()
	}
	// Where nothing is scored, the latest is the best.
	if r.ValidAccuracy.Defined() && !(t.now.ValidAccuracy > r.ValidAccuracy) {
		return false, nil
	}
	r.BestEpoch, r.ValidAccuracy = t.now.Epoch, t.now.ValidAccuracy
	t.best = t.engine.Snapshot(t.best[:0])
	return true, t.dir.saveWeights(WeightsFile, t.engine.Tensors(), t.now.Epoch)
}

// step is the last stage of the training pipeline.
func (t *trainer) step(ctx context.Context, sl *slot, _ int) error {
	t.task.Add(1)
	t.now.BytesRead += sl.BytesRead
	t.now.UsefulBytes += sl.UsefulBytes
	t.now.SSDBytesRead += sl.SSDRead
	t.now.SSDUsefulBytes += sl.SSDUseful
	t.now.GraphBytesRead += sl.GraphRead
	t.now.RAMBytes += int64(sl.RAMRows) * t.rowBytes
	if t.engine == nil {
		return nil
	}
	loss, logits, err := t.engine.Step(ctx, sl.work, sl.X())
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return fault.New(fault.ErrUsage, "the loss is %v: training diverged (try a lower --lr than %v), or the features are not finite", loss, t.options.LR)
	}
	if err != nil {
		return err
	}
	t.scorer.add(logits, sl.Batch.Labels)
	for _, y := range sl.Batch.Labels {
		if y != graph.Unlabelled {
			t.seeds++
			t.loss += loss
		}
	}
	return nil
}

// line says in one line what an epoch came to.
func (t *trainer) line(table pipeline.Table, isBest bool) string {
	e := &t.now
	s := fmt.Sprintf("epoch %d:", e.Epoch)
	if t.engine != nil {
		s += fmt.Sprintf(" loss %.4f, train %s, valid %s", float64(e.Loss), t.say(e.TrainAccuracy), t.say(e.ValidAccuracy))
		if isBest && t.eval != nil {
			s += " (best)"
		}
		s += ","
	}
	s += fmt.Sprintf(" %.2f s", e.Seconds)
	if e.Seconds > 0 {
		s += fmt.Sprintf(", %.0f MB/s", float64(e.BytesRead)/1e6/e.Seconds)
	}
	return s + "; " + table.String()
}

// say writes a score for people.
func (t *trainer) say(s Score) string {
	switch {
	case !s.Defined():
		return "–"
	case t.options.Metric == MetricAUC:
		return fmt.Sprintf("AUC %.4f", float64(s))
	}
	return fmt.Sprintf("%.2f %%", 100*float64(s))
}

// close stops loading and gives the slots back.
func (t *trainer) close() {
	if t.batches != nil {
		t.batches.Close()
	}
	if t.eval != nil {
		t.eval.close()
	}
}
