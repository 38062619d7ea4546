package train

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/device/cuda"
	"diskgnn/device/nccl"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/train/collective"
	"diskgnn/train/engine"
)

// Where gradients of several ranks are summed, as --reduce names it.
const (
	ReduceAuto = "auto"
	ReduceNCCL = "nccl" // on the GPUs
	ReduceHost = "host" // on the host of rank 0, in the order of the batches
)

// reducing is how ranks sum on their devices; tests have one of their own.
type reducing struct {
	// available names what sums, or says why nothing does.
	available func() (string, error)
	// id names a new communicator, on rank 0.
	id func() ([]byte, error)
	// join makes this rank of it, on its device. The goroutine is attached.
	join func(ctx context.Context, d *cuda.Device, id []byte, world, rank int) (collective.Communicator, error)
}

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

// ableToReduce is what a rank says before engines are made.
type ableToReduce struct {
	By  string `json:"by,omitempty"`
	Why string `json:"why,omitempty"` // not
}

// reduceBy is what rank 0 makes of it.
type reduceBy struct {
	By      string `json:"by,omitempty"` // "": the host
	Why     string `json:"why,omitempty"`
	Refused bool   `json:"refused,omitempty"`
	ID      []byte `json:"id,omitempty"`
}

// chooseReduction settles where the ranks' gradients are summed, which engines must know: on the
// devices if all ranks have one, and the library.
func (r *runner) chooseReduction() error {
	o := &r.options
	if o.world() == 1 {
		return nil
	}
	o.apart = true
	if o.reducing == nil {
		o.reducing = &byNCCL
	}
	var mine ableToReduce
	switch {
	case o.Reduce == ReduceHost:
		mine.Why = "--reduce host"
	case o.Engine != EngineGPU && o.Engine != EngineAuto:
		mine.Why = "the engine is " + o.Engine
	default:
		var err error
		if mine.By, err = o.reducing.available(); err != nil {
			mine.Why = err.Error()
		}
	}
	all := []ableToReduce{mine}
	if r.group != nil {
		var err error
		if all, err = gather(r.group, mine); err != nil {
			return err
		}
	}
	var by reduceBy
	if o.root() {
		var err error
		if by, err = o.decideReduction(all); err != nil {
			return err
		}
	}
	if err := broadcast(r.group, &by); err != nil {
		return err
	}
	switch {
	case by.Refused:
		return agreed{fault.New(fault.ErrUsage, "--reduce nccl: %s", by.Why)}
	case by.By == "":
		r.report.Logf("gradients are summed on the host of rank 0: %s", by.Why)
	default:
		r.report.Logf("gradients are summed on the GPUs by %s", by.By)
		o.apart, r.reduceID = false, by.ID
	}
	return nil
}

// decideReduction decides for all ranks.
func (o *Options) decideReduction(all []ableToReduce) (by reduceBy, err error) {
	for rank, a := range all {
		if a.Why != "" {
			by = reduceBy{Why: fmt.Sprintf("rank %d: %s", rank, a.Why), Refused: o.Reduce == ReduceNCCL}
			if all[0].Why == a.Why {
				by.Why = a.Why
			}
			return by, nil
		}
		if a.By != all[0].By {
			by.Why = fmt.Sprintf(", rank %d has %s", rank, a.By)
		}
	}
	by = reduceBy{By: all[0].By + by.Why}
	by.ID, err = o.reducing.id()
	return by, err
}

// joinDevices makes the communicator on the engines' devices, before what is left of their memory
// is divided.
func (r *runner) joinDevices(ctx context.Context, needs *engineNeeds) error {
	o := &r.options
	if o.world() == 1 || o.apart {
		return nil
	}
	for _, rep := range r.replicas {
		if _, ok := rep.engine.(engine.Sharing); !ok || rep.device == nil {
			return fault.New(fault.ErrUsage, "the engine is %s, whose gradients are not on a GPU; give --engine gpu, or --reduce host, to all ranks", o.Engine)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if r.group != nil {
		defer context.AfterFunc(r.group.Context(), func() { cancel(r.group.Lost()) })()
	}
	g, ctx := errgroup.WithContext(ctx)
	for i, rep := range r.replicas {
		g.Go(func() error {
			return rep.device.Attached(func() (err error) {
				rep.comm, err = o.reducing.join(ctx, rep.device, r.reduceID, o.world(), o.Job.Index+i)
				return err
			})
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, rep := range r.replicas {
		left, err := gpuLeft(rep.device, o.GPUMemory)
		if err != nil {
			return err
		}
		needs.gpuLeft = min(needs.gpuLeft, left)
	}
	return nil
}

// errNoMore gives a communicator up whose run is over.
var errNoMore = errors.New("the run is over")

// leaveDevices gives the communicators up: what they do has ended, or never will.
func (r *runner) leaveDevices() {
	for _, rep := range r.replicas {
		if rep.devices != nil {
			rep.devices.Close()
		}
		if rep.comm != nil {
			rep.comm.Abort(errNoMore)
		}
	}
}
