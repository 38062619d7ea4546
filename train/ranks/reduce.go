package ranks

import (
	"context"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/nccl"
	"diskgnn/internal/fault"
	"diskgnn/train/collective"
	"diskgnn/train/decide"
)

// Reducing is a library by which ranks sum gradients on their devices.
type Reducing struct {
	// Available returns the library's name, or the reason why it cannot be used.
	Available func() (string, error)
	// ID names a new communicator, on rank 0.
	ID func() ([]byte, error)
	// Join makes this rank part of the communicator, on its device. The calling thread is attached
	// to the device.
	Join func(ctx context.Context, d device.GPU, id []byte, world, rank int) (collective.Communicator, error)
}

// ByNCCL sums with NCCL, NVIDIA's library.
var ByNCCL = Reducing{
	Available: func() (string, error) {
		if _, err := cuda.Devices(); err != nil {
			return "", err
		}
		l, err := nccl.Open()
		if err != nil {
			return "", err
		}
		return l.String(), nil
	},
	ID: func() ([]byte, error) {
		l, err := nccl.Open()
		if err != nil {
			return nil, err
		}
		id, err := l.NewID()
		return id[:], err
	},
	Join: func(ctx context.Context, _ device.GPU, id []byte, world, rank int) (collective.Communicator, error) {
		l, err := nccl.Open()
		if err != nil {
			return nil, err
		}
		return l.Join(ctx, nccl.ID(id), world, rank, nccl.Options{})
	},
}

// Choose settles for all ranks where their gradients are summed: on the devices if all ranks have a
// device and the library. It returns an error of kind ErrAgreed if that was required and is not
// possible.
func (on *Reducing) Choose(g *collective.Group, wanted, engine string) (by decide.Reduction, err error) {
	var mine decide.AbleToReduce
	switch {
	case wanted == decide.ReduceHost:
		mine.Why = "--reduce host"
	case engine != decide.EngineGPU && engine != decide.EngineAuto:
		mine.Why = "the engine is " + engine
	default:
		if mine.By, err = on.Available(); err != nil {
			mine.Why = err.Error()
		}
	}
	all, err := Gather(g, mine, MostTold)
	if err != nil {
		return by, err
	}
	if g.Rank() == 0 {
		if by = decide.Reduce(wanted, all); by.By != "" {
			if by.ID, err = on.ID(); err != nil {
				return by, err
			}
		}
	}
	if err := Broadcast(g, &by, MostTold); err != nil {
		return by, err
	}
	if by.Refused {
		return by, Agreed(fault.New(fault.ErrUsage, "--reduce nccl: %s", by.Why))
	}
	return by, nil
}
