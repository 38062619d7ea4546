package train

import (
	"context"
	"errors"

	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	engines "diskgnn/train/engine"
	"diskgnn/train/gpu"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
	"diskgnn/train/safetensors"
	"diskgnn/train/score"
)

// engine computes a model on batches. Its methods belong to one goroutine at a time,
// except that works are prepared on any.
type engine interface {
	// NewWork returns the memory in which batches are made ready, one at a time, for
	// Step or, with eval, for Infer. Their features will lie in the given memory, which
	// stays where it is until the work is closed; nil: anywhere.
	NewWork(eval bool, features []byte) (work, error)
	// Step trains on the batch that w holds, whose features are f; both may be used again
	// when it returns. It returns what it found, or what an earlier step did
	// that was still under way, or nil, if nothing is known yet. A loss that is not finite
	// comes with an error.
	Step(ctx context.Context, w work, f features) (*outcome, error)
	// Finish waits for the steps under way and returns what is left to be told of them,
	// or nil.
	Finish() (*outcome, error)
	// Infer returns the logits of the batch that w holds.
	Infer(ctx context.Context, w work, f features) (logits []float32, err error)
	// SetLR changes the learning rate of the steps to come.
	SetLR(rate float64) error
	// Snapshot appends the weights to dst, Restore puts such a copy back.
	Snapshot(dst []float32) ([]float32, error)
	Restore(weights []float32) error
	// State returns everything that training goes on from, in parts whose bytes may be
	// the engine's memory; LoadState puts it back.
	State() (map[string][]byte, error)
	LoadState(state map[string][]byte) error
	// Params describes the weights in the order in which a snapshot has them.
	Params() []model.Param
	Info() engines.Info
	// Device returns the GPU that features are wanted on; nil: they are wanted in host
	// memory.
	Device() *cuda.Device
	Close()
}

// features are a batch's rows of features, where the engine wants them.
type features interface {
	X() []float32 // in host memory, row-major
	gpu.Features
}

// work is what an engine derives from a batch's structure ahead of computing.
type work interface {
	// Prepare makes b ready. b must stay as it is until the batch is computed.
	Prepare(b *graph.Batch) error
	Close()
}

// outcome is what a step found before it changed the weights. The slices are the
// engine's or the batch's, until the engine's next step.
type outcome struct {
	loss    float64   // mean over the labelled seed nodes
	logits  []float32 // that it came from
	labels  []int32   // of the step's batch
	targets []byte
	times   gpu.Times // on the GPU
}

// engineNeeds is the memory that an engine holds and that its works hold.
type engineNeeds struct {
	engine, work, evalWork int64
	resume                 int64        // what a checkpoint takes while it is gone on from
	gpu                    *cuda.Device // that it computes on, if any
	gpuLeft                int64        // bytes that it leaves of its memory
	direct                 bool         // reads can land there
}

// scorers adds the memory of what scores the batches of a store.
func (n *engineNeeds) scorers(metric string, f *featurestore.Facts) {
	train, state := score.Bytes(trainJudging(metric, f))
	eval, _ := score.Bytes(evalJudging(metric, f))
	n.engine += train + eval + state // which a checkpoint holds
	n.resume += state
}

// chooseEngine makes the engine that the options name: auto is the GPU's, which onGPU makes,
// where there is one that the model fits.
func chooseEngine(o *Options, f featurestore.Facts, onGPU func(*Options, featurestore.Facts) (engine, engineNeeds, error)) (engine, engineNeeds, error) {
	var note string
	switch o.Engine {
	case EngineGPU:
		e, needs, err := onGPU(o, f)
		return e, needs, noGPUEngine(err)
	case EngineAuto:
		e, needs, err := onGPU(o, f)
		if err == nil {
			o.Engine = EngineGPU
			return e, needs, nil
		}
		if !errors.Is(err, cuda.ErrNoDevice) {
			note = "the GPU is left alone: " + err.Error()
		}
	}
	switch {
	case o.Precision != recipe.PrecisionFloat32:
		return nil, engineNeeds{}, fault.New(fault.ErrUsage, "--precision %s is for --engine %s", o.Precision, EngineGPU)
	case o.GPUCache != nil && o.GPUCache.Value != 0:
		return nil, engineNeeds{}, fault.New(fault.ErrUsage, "--gpu-cache %s is for --engine %s; use --ram-cache", o.GPUCache, EngineGPU)
	}
	o.Engine = EngineCPU
	e, needs, err := newCPUEngine(o, f)
	if c, ok := e.(*cpuEngine); ok && note != "" {
		c.note = note
	}
	return e, needs, err
}

// tensors returns a copy of the weights, named and oriented as PyTorch has them.
func tensors(e engine) ([]safetensors.Tensor, error) {
	weights, err := e.Snapshot(nil)
	if err != nil {
		return nil, err
	}
	params := e.Params()
	list := make([]safetensors.Tensor, len(params))
	for i, p := range params {
		t := &list[i]
		t.Name, t.Shape, t.Data = p.Name, p.Shape, make([]float32, p.Len())
		for in := range p.Rows {
			for out := range p.Cols {
				t.Data[out*p.Rows+in] = weights[in*p.Cols+out]
			}
		}
		weights = weights[p.Len():]
	}
	return list, nil
}
