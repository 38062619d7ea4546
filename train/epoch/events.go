package epoch

import (
	"time"

	"diskgnn/pipeline"
	"diskgnn/train/rundir"
)

// An Event is something that happens while a run trains. The trainer publishes events, and names
// no subscriber. An event belongs to the trainer, which uses it again: a subscriber copies the parts
// that it keeps.
type Event interface{ isEvent() }

type (
	// Opened says that a pipeline exists, until Closed with its name. Its functions may be called from
	// any goroutine, also later.
	Opened struct {
		Name   string
		Moved  func() time.Time // when a batch last entered or left a link
		Stands func() Place
	}
	// Closed says that a pipeline is gone.
	Closed struct{ Name string }
	// PhaseBegan says that the run enters a phase.
	PhaseBegan struct{ Phase Phase }
	// Filled says that the caches are filled.
	Filled struct {
		Bytes   int64
		Seconds float64
	}
	// Started says that batches follow. From the first call on, Sums returns the sums of the epoch
	// under way; Done batches of it are done in whole steps.
	Started struct {
		Name  string
		Items int
		Whole bool // the run's epochs, not a few batches
		Sums  func() rundir.Epoch
		Done  int
	}
	// Ended says that no more batches come.
	Ended struct{}
	// Began says that an epoch begins.
	Began struct{}
	// BatchesRan has the time since which batches of the epoch run.
	BatchesRan struct{ Since time.Time }
	// Computed says that a batch was computed.
	Computed struct {
		Slot      *Slot
		Took      time.Duration // computing
		BytesRead int64
	}
	// Outcome is the loss of a batch, which may be known some batches after it was computed.
	Outcome struct{ Found }
	// StepTaken has the number of the epoch's batches that are done.
	StepTaken struct {
		Sums func() rundir.Epoch
		Done int
	}
	// Judged has the metrics of an epoch.
	Judged struct {
		Epoch *rundir.Epoch
		Best  bool            // so far
		Table *pipeline.Table // where its time went
	}
	// EvaluationBegan says that batches are scored from now on.
	EvaluationBegan struct {
		Name    string
		Batches int
	}
	// Evaluated says that one of them was scored.
	Evaluated struct{}
	// EvaluationEnded says that all of them were.
	EvaluationEnded struct{}
	// Note is a sentence for the user.
	Note struct{ Text string }
)

func (*Opened) isEvent()          {}
func (*Closed) isEvent()          {}
func (*PhaseBegan) isEvent()      {}
func (*Filled) isEvent()          {}
func (*Started) isEvent()         {}
func (*Ended) isEvent()           {}
func (*Began) isEvent()           {}
func (*BatchesRan) isEvent()      {}
func (*Computed) isEvent()        {}
func (*Outcome) isEvent()         {}
func (*StepTaken) isEvent()       {}
func (*Judged) isEvent()          {}
func (*EvaluationBegan) isEvent() {}
func (*Evaluated) isEvent()       {}
func (*EvaluationEnded) isEvent() {}
func (*Note) isEvent()            {}

// Found is the loss of a batch: the mean over its labelled seed nodes.
type Found struct {
	Loss  float64 `json:"loss"`
	Seeds int     `json:"seeds"` // with a label
}

// Phase is a phase of a run.
type Phase int

const (
	Filling Phase = iota
	Training
	Validating
	Testing
)

// Subscriber takes events in their order, on the publishing goroutine. Its error ends the run.
type Subscriber interface{ On(e Event) error }

// Stream is a list of subscribers, which take an event in turn.
type Stream []Subscriber

// Publish gives an event to all subscribers, up to the first error.
func (s Stream) Publish(e Event) error {
	for _, to := range s {
		if err := to.On(e); err != nil {
			return err
		}
	}
	return nil
}

// Tell publishes an event that causes no error in any subscriber.
func (s Stream) Tell(e Event) { _ = s.Publish(e) }
