package train

import (
	"context"
	"errors"

	"diskgnn/device/cuda"
	"diskgnn/device/nccl"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/train/collective"
	"diskgnn/train/decide"
	"diskgnn/train/engine"
	"diskgnn/train/ranks"
)

// byNCCL sums by NVIDIA's library.
var byNCCL = reducing{
	available: func() (string, error) {
		if _, err := cuda.Devices(); err != nil {
			return "", err
		}
		l, err := nccl.Open()
		if err != nil {
			return "", err
		}
		return l.String(), nil
	},
	id: func() ([]byte, error) {
		l, err := nccl.Open()
		if err != nil {
			return nil, err
		}
		id, err := l.NewID()
		return id[:], err
	},
	join: func(ctx context.Context, _ *cuda.Device, id []byte, world, rank int) (collective.Communicator, error) {
		l, err := nccl.Open()
		if err != nil {
			return nil, err
		}
		return l.Join(ctx, nccl.ID(id), world, rank, nccl.Options{})
	},
}

// chooseReduction settles where the ranks' gradients are summed, which engines must know: on the
// devices if all ranks have one, and the library.
func (r *runner) chooseReduction(o *Options, on *reducing) error {
	if o.world() == 1 {
		return nil
	}
	r.apart = true
	var mine decide.AbleToReduce
	switch {
	case o.Reduce == decide.ReduceHost:
		mine.Why = "--reduce host"
	case o.Engine != EngineGPU && o.Engine != EngineAuto:
		mine.Why = "the engine is " + o.Engine
	default:
		var err error
		if mine.By, err = on.available(); err != nil {
			mine.Why = err.Error()
		}
	}
	all, err := ranks.Gather(r.group, mine, ranks.MostTold)
	if err != nil {
		return err
	}
	var by decide.Reduction
	if o.root() {
		if by = decide.Reduce(o.Reduce, all); by.By != "" {
			if by.ID, err = on.id(); err != nil {
				return err
			}
		}
	}
	if err := ranks.Broadcast(r.group, &by, ranks.MostTold); err != nil {
		return err
	}
	switch {
	case by.Refused:
		return ranks.Agreed(fault.New(fault.ErrUsage, "--reduce nccl: %s", by.Why))
	case by.By == "":
		r.say("gradients are summed on the host of rank 0: %s", by.Why)
	default:
		r.say("gradients are summed on the GPUs by %s", by.By)
		r.apart, r.reduceID = false, by.ID
	}
	return nil
}

// joinDevices makes the communicator on the engines' devices, before what is left of their memory
// is divided.
func (r *runner) joinDevices(ctx context.Context, o *Options, on *reducing, needs *engineNeeds) error {
	if o.world() == 1 || r.apart {
		return nil
	}
	for _, rep := range r.replicas {
		if _, ok := rep.Engine.(engine.Sharing); !ok || rep.Device == nil {
			return fault.New(fault.ErrUsage, "the engine is %s, whose gradients are not on a GPU; give --engine gpu, or --reduce host, to all ranks", o.Engine)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.group.Context(), func() { cancel(r.group.Lost()) })()
	g, ctx := errgroup.WithContext(ctx)
	for i, rep := range r.replicas {
		g.Go(func() error {
			return rep.Device.Attached(func() (err error) {
				rep.Comm, err = on.join(ctx, rep.Device, r.reduceID, o.world(), o.Job.Index+i)
				return err
			})
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, rep := range r.replicas {
		left, err := gpuLeft(rep.Device, o.GPUMemory)
		if err != nil {
			return err
		}
		needs.GPULeft = min(needs.GPULeft, left)
	}
	return nil
}

// errNoMore gives a communicator up whose run is over.
var errNoMore = errors.New("the run is over")

// leaveDevices gives the communicators up: what they do has ended, or never will.
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
