package epoch

import (
	"fmt"
	"time"

	"diskgnn/featurestore"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/pipeline"
	"diskgnn/train/decide"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// Config is the configuration of a trainer.
type Config struct {
	Recipe   *recipe.Recipe // resolved
	Schedule decide.Schedule
	Facts    *featurestore.Facts
	Store    featurestore.Store
	Stack    iostack.Stack // its reads are counted
	Serial   bool          // there is one slot: all is known of a batch before the next begins

	CheckpointEvery rundir.Interval
	Keep            int         // checkpoints at a time
	Dir             *rundir.Dir // of the process with rank 0, which alone writes; nil: nothing is written
	Result          *rundir.Result
	Events          Stream
	Recorder        *pipeline.Recorder // of spans; nil: none are recorded
	Began           time.Time          // when the run would have begun, had it never been interrupted
	From            *Point             // nil: the beginning
	Exact           Exact              // that scores the weights, with rank 0; nil: evaluation batches do
}

// Trainer drives the epochs of one replica. It belongs to one goroutine.
type Trainer struct {
	Config
	*Replica
	schedule *schedule
	batches  *pipeline.Pipeline[*Slot]
	counted  iostack.Stats // of earlier epochs

	looked time.Time // when the times of links were last looked at for subscribers

	eval        validator // nil without validation and test batches, or engine
	scorer      score.Scorer
	scorerState int64 // its most bytes

	account
	done      int          // batches of the epoch that are trained on, in whole steps
	open      bool         // a step is under way: some of its batches are computed
	release   func()       // of the pipeline's context; nil: it is the run's
	exchanged int64        // bytes between ranks in earlier epochs
	shared    int          // batches of the epoch that rank 0's sums are of
	found     []Found      // of this rank's batches since
	unscored  []byte       // the state of a scorer that nothing was added to
	ended     func() error // why to stop after a step that has several batches; nil: the pipeline stops by itself

	// Events of every step, which are reused.
	computed Computed
	outcome  Outcome
	taken    StepTaken

	best   []float32         // weights of the best epoch; a checkpoint has them until it is written
	copies map[string][]byte // of the engine's state for a checkpoint, likewise

	saved time.Time // when the latest checkpoint was written, or training began
	fresh bool      // something was done since
	kept  *Standing // where the run stood at the latest checkpoint, the Dir's until Wait; nil: there is none
}

// Standing is the progress of a run: epochs, and batches of the next.
type Standing struct {
	Epoch, Batch     int
	epochs, perEpoch int
}

// String says "after 3 of 10 epochs and 7 of 20 batches".
func (s Standing) String() string {
	text := fmt.Sprintf("after %d of %d epochs", s.Epoch, s.epochs)
	if s.Batch > 0 {
		text += fmt.Sprintf(" and %d of %d batches", s.Batch, s.perEpoch)
	}
	return text
}

func (t *Trainer) standing(epoch, batch int) *Standing {
	return &Standing{epoch, batch, t.schedule.Epochs, t.schedule.PerEpoch}
}

// Stands returns the run's progress after its last step.
func (t *Trainer) Stands() Standing { return *t.standing(t.now.Epoch, t.done) }

// Kept returns the run's progress at its latest checkpoint, nil if there is none.
func (t *Trainer) Kept() *Standing { return t.kept }

// judges reports whether the weights are scored at the end of an epoch.
func (t *Trainer) judges(epoch int) bool { return judges(t.Recipe, t.Facts.Valid > 0, epoch) }

// begin makes an epoch the one under way.
func (t *Trainer) begin(epoch int) {
	t.reset(epoch, t.schedule.PerEpoch)
	t.done, t.shared = 0, 0
	t.Events.Tell(&Began{})
}

// note publishes a note for the user.
func (t *Trainer) note(format string, args ...any) {
	t.Events.Tell(&Note{fmt.Sprintf(format, args...)})
}

// diverged is the error of training with numbers beyond float32. The clause evidence names the
// number. If files that the batches were read from have changed, that is the error.
func (t *Trainer) diverged(evidence string) error {
	if t.Dir != nil {
		if err := t.Dir.CheckSources(); err != nil {
			return err
		}
	}
	return fault.New(fault.ErrUsage, "%s: training diverged (try a lower --lr than %v), or the features are not finite", evidence, t.Recipe.LR)
}
