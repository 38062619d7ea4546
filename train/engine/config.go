package engine

import (
	"math"

	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
)

// Config describes an engine. Engines use the resolved seed, learning rate, optimizer, decay, loss,
// smoothing and precision of its recipe; the rest of the network is in Network.
type Config struct {
	recipe.Recipe
	Network model.Model
	// Sizes are the largest counts of the training batches, EvalSizes of the batches for Infer;
	// without EvalSizes there is no Infer.
	Sizes, EvalSizes graph.Sizes
	// Typical are the mean counts of the training batches, which decide Auto orders; the zero value
	// stands for Sizes.
	Typical graph.Sizes

	Threads int    // of the CPU's: workers, the caller's goroutine included; 0 stands for GOMAXPROCS
	BLAS    string // the CPU's, a kind that blas.Open knows; "" stands for "auto"

	// Device is the GPU of a gpu engine, for features and computing: opened with kernels.Code, and
	// closed after the engine. A cpu engine takes features in host memory.
	Device device.GPU
	// Buckets are smaller sizes, the smallest first: a batch that fits one of them is computed in
	// these sizes on the GPU.
	Buckets []graph.Sizes
	// InBits says that the blocks of all batches come in bits (graph.Block.Bits). It is for an engine that can decode them:
	// see gpu.Decodes.
	InBits   bool
	NoGraphs bool // launch every step kernel by kernel, without CUDA graphs
	// Apart leaves the sum of a step's batches to the caller, who reads Contribution and passes the
	// whole sum to ApplySum, in place of Apply.
	Apart bool
}

// Sums reports whether gradients of batches are added up, rather than divided by the labelled seed
// nodes of the only batch of a step.
func (c *Config) Sums() bool { return c.Apart || c.Accumulate > 1 }

// Resolve checks the part of the config that all engines share, and sets the typical sizes and the
// loss if they are unset.
func (c *Config) Resolve() error {
	if err := c.Network.Validate(); err != nil {
		return err
	}
	if err := CheckSizes(c.Network.Layers(), c.Sizes); err != nil {
		return err
	}
	if c.Typical.Src == nil {
		c.Typical = c.Sizes
	} else if err := CheckSizes(c.Network.Layers(), c.Typical); err != nil {
		return err
	}
	if c.Loss == "" {
		c.Loss = recipe.LossCrossEntropy
	}
	if c.LR == 0 || CheckRate(c.LR) != nil {
		return fault.New(fault.ErrUsage, "engine: invalid learning rate %v", c.LR)
	}
	if !(c.WeightDecay >= 0) || math.IsInf(c.WeightDecay, 0) {
		return fault.New(fault.ErrUsage, "engine: invalid weight decay %v", c.WeightDecay)
	}
	return model.Loss(c.Loss).Validate(c.LabelSmoothing)
}

// CheckRate refuses an invalid learning rate.
func CheckRate(rate float64) error {
	if !(rate >= 0) || math.IsInf(rate, 0) {
		return fault.New(fault.ErrUsage, "engine: invalid learning rate %v", rate)
	}
	return nil
}

// CheckSizes checks that the sizes fit the blocks of the layers.
func CheckSizes(layers int, s graph.Sizes) error {
	if len(s.Src) != layers || len(s.Dst) != layers || len(s.Edges) != layers || s.Rows != nil && len(s.Rows) != layers {
		return fault.New(fault.ErrUsage, "engine: sizes of %d blocks for %d layers", len(s.Src), layers)
	}
	for l := range layers {
		if s.Src[l] < 0 || s.Dst[l] < 0 || s.Edges[l] < 0 || l > 0 && s.Src[l] > s.Dst[l-1] {
			return fault.New(fault.ErrUsage, "engine: impossible sizes at layer %d", l)
		}
	}
	return nil
}
