package engine

import (
	"math"

	"diskgnn/device/cuda"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
)

// Config describes an engine. Of its recipe engines take the seed, the learning rate, the
// optimizer, its decay, the loss, its smoothing and the precision, all resolved; the rest is
// in Network.
type Config struct {
	recipe.Recipe
	Network model.Model
	// Sizes are the largest counts of the training batches, EvalSizes those of the batches
	// for Infer; without the latter there is none.
	Sizes, EvalSizes graph.Sizes
	// Typical are the mean counts of the training batches, by which Auto orders are chosen;
	// the zero value stands for Sizes.
	Typical graph.Sizes

	Threads int    // of the CPU's: workers, the caller's goroutine included; 0 stands for GOMAXPROCS
	BLAS    string // the CPU's, a kind that blas.Open knows; "" stands for "auto"

	// Device is the GPU's, on which it wants features: opened with kernels.Code, and closed
	// after the engine. The CPU's wants them in host memory.
	Device *cuda.Device
	// Buckets are smaller sizes, the smallest first: of a batch that fits one of them, the
	// GPU gets only so much work.
	Buckets  []graph.Sizes
	NoGraphs bool // launch every step kernel by kernel, without CUDA graphs
	// Apart leaves what batches add to a step to the caller, who takes it by Contribution and
	// brings back the whole by ApplySum, in Apply's place.
	Apart bool
}

// Sums reports whether gradients of batches are added up, rather than divided by the labelled
// seed nodes of the only batch of a step.
func (c *Config) Sums() bool { return c.Apart || c.Accumulate > 1 }

// Resolve checks what every engine needs of the config, and fills in the typical sizes and the
// loss where they are left open.
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
		return fault.New(fault.ErrUsage, "engine: learning rate %v", c.LR)
	}
	if !(c.WeightDecay >= 0) || math.IsInf(c.WeightDecay, 0) {
		return fault.New(fault.ErrUsage, "engine: weight decay %v", c.WeightDecay)
	}
	return model.Loss(c.Loss).Validate(c.LabelSmoothing)
}

// CheckRate refuses a learning rate that no step can have.
func CheckRate(rate float64) error {
	if !(rate >= 0) || math.IsInf(rate, 0) {
		return fault.New(fault.ErrUsage, "engine: learning rate %v", rate)
	}
	return nil
}

// CheckSizes makes sure that the sizes can be those of the layers' blocks.
func CheckSizes(layers int, s graph.Sizes) error {
	if len(s.Src) != layers || len(s.Dst) != layers || len(s.Edges) != layers {
		return fault.New(fault.ErrUsage, "engine: sizes of %d blocks for %d layers", len(s.Src), layers)
	}
	for l := range layers {
		if s.Src[l] < 0 || s.Dst[l] < 0 || s.Edges[l] < 0 || l > 0 && s.Src[l] > s.Dst[l-1] {
			return fault.New(fault.ErrUsage, "engine: impossible sizes at layer %d", l)
		}
	}
	return nil
}
