package engine

import (
	"context"

	"diskgnn/device/cuda"
)

// Reducer sums memory of several devices: nccl.Comm is one.
type Reducer interface {
	// AllReduce enqueues what replaces x, of float32, by its sum over all devices, which is the
	// same on each. All of them enqueue the same, in the same order.
	AllReduce(ctx context.Context, s *cuda.Stream, x cuda.Buffer) error
}

// Sharing is an Engine whose gradients lie on a device, where those of several engines can be
// summed. The config has more than one batch a step, and is not Apart.
type Sharing interface {
	Engine
	// Share makes the engine one of several, whose batches make a step together: its own begin
	// with the first-th.
	Share(first int) error
	// Reduce enqueues what makes the sum of the step under way, which may have no batch of this
	// engine, that of all engines' batches. labelled and batches are those of all. Apply takes
	// the step along it.
	Reduce(ctx context.Context, r Reducer, labelled int64, batches int) error
}
