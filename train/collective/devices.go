package collective

import (
	"context"
	"errors"
	"fmt"
	"time"

	"diskgnn/internal/fault"
	"diskgnn/train/engine"
)

// Communicator sums arrays over the ranks' devices, as nccl.Comm does.
type Communicator interface {
	engine.Reducer
	// Check returns the first known failure of any rank.
	Check() error
	// Abort ends the communicator and its operations, which return why. Any goroutine may call it.
	Abort(why error)
}

// Devices sums gradients on the ranks' devices, by a communicator. The number of seed nodes of a
// step and the signals travel through the group. All ranks get the same bits, which may differ from
// Ordered's by rounding: the library chooses the order in which it adds the ranks.
type Devices struct {
	group    *Group
	comm     Communicator
	forget   func() bool // stops the communicator's end with the group's
	labelled int64       // of this rank's batches in the step
	batches  int
}

// NewDevices prepares the group for steps of at most batches batches, each of them per rank. It
// must be called before the engine's first batch, and assigns the rank's batches to it. An engine
// that is no engine.Sharing is an error. When the group loses a rank, the communicator is aborted,
// so that no device waits for that rank. The caller closes the communicator after the reduction.
func NewDevices(g *Group, comm Communicator, e engine.Engine, batches, each int) (*Devices, error) {
	s, ok := e.(engine.Sharing)
	if !ok {
		return nil, fault.New(fault.ErrUsage, "the engine %T cannot sum gradients on its device", e)
	}
	if err := s.Share(g.Rank() * each); err != nil {
		return nil, err
	}
	g.prepareAgreement(batches)
	return &Devices{group: g, comm: comm, forget: context.AfterFunc(g.Context(), func() { comm.Abort(errors.Join(g.Lost(), context.Canceled)) })}, nil
}

// Close unlinks the communicator from the group: a later loss of a rank does not abort it.
func (d *Devices) Close() { d.forget() }

// Add implements Reduction.
func (d *Devices) Add(_ engine.Engine, labelled int) error {
	d.labelled += int64(labelled)
	d.batches++
	return nil
}

// Step implements Reduction.
func (d *Devices) Step(e engine.Engine, asked Signals) (Signals, error) {
	all, err := d.group.agree(agreement{Signals: asked, Labelled: d.labelled, Batches: d.batches})
	d.labelled, d.batches = 0, 0
	if err != nil {
		return all.Signals, err
	}
	if err := d.comm.Check(); err != nil {
		return 0, d.lost(err)
	}
	if err := e.(engine.Sharing).Reduce(d.group.Context(), d.comm, all.Labelled, all.Batches); err != nil {
		return 0, d.lost(err)
	}
	return all.Signals, e.Apply()
}

// lost returns the group's loss of a rank if the communicator was given up for it. It waits a
// moment for the group to notice.
func (d *Devices) lost(err error) error {
	select {
	case <-d.group.Context().Done():
		if l := d.group.Lost(); l != nil {
			return l
		}
	case <-time.After(time.Second):
	}
	return fmt.Errorf("sum on the devices: %w", err)
}

var _ Reduction = (*Devices)(nil)
