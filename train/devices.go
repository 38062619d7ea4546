package train

import (
	"context"
	"errors"

	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/train/engine"
	"diskgnn/train/gpu"
	"diskgnn/train/ranks"
)

// chooseReduction settles where the ranks' gradients are summed; engines are made for that choice.
func (r *runner) chooseReduction(o *Options, on *ranks.Reducing) error {
	if o.world() == 1 {
		return nil
	}
	by, err := on.Choose(r.group, o.Reduce, o.Engine)
	if err != nil {
		return err
	}
	if r.apart = by.By == ""; r.apart {
		r.say("gradients are summed on the host of rank 0: %s", by.Why)
		return nil
	}
	r.say("gradients are summed on the GPUs by %s", by.By)
	r.reduceID = by.ID
	return nil
}

// joinDevices makes the communicator on the engines' devices, before the rest of their memory is
// divided.
func (r *runner) joinDevices(ctx context.Context, o *Options, on *ranks.Reducing, needs *engineNeeds) error {
	if o.world() == 1 || r.apart {
		return nil
	}
	for _, rep := range r.replicas {
		if _, ok := rep.Engine.(engine.Sharing); !ok || rep.Device == nil {
			return fault.New(fault.ErrUsage, "the gradients of the engine %s are not on a GPU; give all ranks --engine gpu, or --reduce host", o.Engine)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.group.Context(), func() { cancel(r.group.Lost()) })()
	g, ctx := errgroup.WithContext(ctx)
	for i, rep := range r.replicas {
		g.Go(func() error {
			return rep.Device.Attached(func() (err error) {
				rep.Comm, err = on.Join(ctx, rep.Device, r.reduceID, o.world(), o.Job.Index+i)
				return err
			})
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, rep := range r.replicas {
		left, err := gpu.Left(rep.Device, o.GPUMemory)
		if err != nil {
			return err
		}
		needs.GPULeft = min(needs.GPULeft, left)
	}
	return nil
}

// errNoMore is the cause with which the communicators of a finished run are aborted.
var errNoMore = errors.New("the run is over")

// leaveDevices aborts the communicators: their operations have ended, or never will.
func (r *runner) leaveDevices() {
	for _, rep := range r.replicas {
		if rep.Devices != nil {
			rep.Devices.Close()
		}
		if rep.Comm != nil {
			rep.Comm.Abort(errNoMore)
		}
	}
}
