// Package engine is what computes a network on mini-batches, as a run sees it: packages
// train/cpu and train/gpu implement Engine, and are made from one Config.
//
//	Work.Prepare ─► Backward ─► (Outcome), of every batch of a step; then Apply     training
//	Work.Prepare ─► Infer ─► logits                                               evaluation
//
// A step goes along the gradients of Recipe.Accumulate successive batches, or of what an epoch
// has left: their sum, over the seed nodes of all of them that have a label. Engines that train
// together have some of a step's batches each, and a Sum brings them together.
package engine

import (
	"context"
	"time"

	"diskgnn/device/cuda"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/train/model"
)

// MaxThreads bounds the number of threads: more is a slip, and would overflow sums of memory.
const MaxThreads = 1 << 12

// Place says which batch of a run is trained on: what its dropout depends on beside the seed.
type Place struct {
	Epoch, Batch int // Batch counts from 0 in every epoch, in the order in which they come
}

// Engine computes a network. Its methods belong to one goroutine at a time, except that
// works are prepared on any.
type Engine interface {
	// NewWork returns the memory in which batches are made ready, one at a time, for
	// Backward or, with eval, for Infer. Their features will lie in the given memory, which
	// stays where it is until the work is closed; nil: anywhere.
	NewWork(eval bool, features []byte) (Work, error)
	// Backward computes the loss and the gradients of the batch that w holds, whose features
	// are f, and adds the gradients to those of its step. It returns what the batch found, or
	// what an earlier one did that was still under way, or nil where nothing is known yet. A
	// loss that is not finite comes with an error. w and f may be used again when it returns.
	//
	// After an error there is nothing to apply, of the step's earlier batches either, and the
	// next Backward begins a step. Where the context ended first, the weights are as before.
	Backward(ctx context.Context, w Work, f Features, at Place) (*Outcome, error)
	// Apply takes the step along the gradients of the batches since the last one.
	Apply() error
	// Contribution copies to dst, of Params' elements, what the batch of the latest Backward
	// adds to its step: see Sum. The config says Apart.
	Contribution(dst []float32) error
	// ApplySum takes the step that s came to, which stays the caller's. The config says Apart.
	ApplySum(s *Sum) error
	// Finish waits for the batches under way and returns what no Backward has returned, or nil.
	Finish() (*Outcome, error)
	// Infer returns the logits of the batch that w holds, row-major, a column per class:
	// the engine's memory, valid until its next call.
	Infer(ctx context.Context, w Work, f Features) (logits []float32, err error)
	// SetLR changes the learning rate of the steps to come.
	SetLR(rate float64) error
	// Snapshot appends the weights to dst, Restore puts such a copy back and leaves the
	// optimizer as it is.
	Snapshot(dst []float32) ([]float32, error)
	Restore(weights []float32) error
	// State returns everything that training goes on from, in parts whose bytes may be
	// the engine's memory; LoadState puts it back.
	State() (map[string][]byte, error)
	LoadState(state map[string][]byte) error
	// Params describes the weights in the order in which a snapshot has them.
	Params() []model.Param
	Info() Info
	// Close gives all memory back. Works end with it.
	Close()
}

// Features are a batch's rows of features.
type Features interface {
	// X returns them in host memory, row-major, where the host computes.
	X() []float32
	// Fill enqueues the work that makes x the rows of features, float32, row-major: copies
	// on the given stream, and perhaps more on a stream of its own, whose time it returns;
	// x is complete once both are done. What is copied stays as it is until then. It is
	// called by the goroutine that computes, attached, when the batch before the last one
	// of its kind, for training or evaluation, has been computed.
	Fill(copies *cuda.Stream, x cuda.Buffer) (*cuda.Span, error)
}

// Landed returns what was wrong with features that could not be checked before Fill, once the
// copies of Fill are done; nil for all others. The weights of the step are undefined then.
func Landed(f Features) error {
	if l, ok := f.(interface{ Landed() error }); ok {
		return l.Landed()
	}
	return nil
}

// Rows are features in host memory, row-major, and perhaps more behind them.
type Rows []float32

// X returns them.
func (r Rows) X() []float32 { return r }

// Fill copies them.
func (r Rows) Fill(copies *cuda.Stream, x cuda.Buffer) (*cuda.Span, error) {
	b := binio.Bytes([]float32(r))
	return nil, copies.CopyIn(x, b[:min(int64(len(b)), x.Bytes())])
}

// Work is what an engine derives from a batch's structure ahead of computing.
type Work interface {
	// Prepare makes b ready. b must stay as it is until the batch is computed.
	Prepare(b *graph.Batch) error
	Close()
}

// Outcome is what was found of a batch, with the weights before its step. The slices are the
// engine's or the batch's, valid until the next batch.
type Outcome struct {
	Loss    float64 // mean over the labelled seed nodes; 0 when there is none
	Correct int     // of the labelled seed nodes, those whose class, or classes, the logits name
	Count   int     // labelled seed nodes
	Logits  []float32
	Labels  []int32 // of the batch
	Targets []byte
	Times   Times // on the GPU
}

// Times say when a device worked on a batch, and how long the host waited for it since the
// outcome before.
type Times struct {
	Copy, Gather, Compute Period
	Waited                time.Duration
}

// Period is a time of work. The zero value says that there was none.
type Period struct {
	Began time.Time
	Took  time.Duration
}

// Info says what an engine computes with.
type Info struct {
	BLAS       string        `json:"blas,omitempty"`              // library, version and core: what decides the rounding
	SIMD       string        `json:"simd,omitempty"`              // kernels in use; they all round alike
	Device     string        `json:"device,omitempty"`            // the GPU
	Precision  string        `json:"precision,omitempty"`         // of its matrix products
	Orders     []model.Order `json:"layer_orders,omitempty"`      // of training
	EvalOrders []model.Order `json:"eval_layer_orders,omitempty"` // of evaluation
	Note       string        `json:"-"`                           // what the user should know
}

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
