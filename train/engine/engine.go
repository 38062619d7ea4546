// Package engine is the interface between a run and the computation of a network on mini-batches.
// Packages train/cpu and train/gpu implement Engine from one Config.
//
//	Work.Prepare ─► Backward ─► (Outcome), of every batch of a step; then Apply     training
//	Work.Prepare ─► Infer ─► logits                                               evaluation
//
// A step uses the gradients of Recipe.Accumulate successive batches, or of the rest of an epoch:
// their sum, divided by the number of loss terms of all labelled seed nodes in them. Engines that
// train together each have a part of a step's batches, and a Sum combines them.
package engine

import (
	"context"
	"time"

	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/train/model"
)

// MaxThreads bounds the number of threads: more is a slip, and would overflow sums of memory.
const MaxThreads = 1 << 12

// Place is a batch's position in the run. Its dropout depends on the place and the seed.
type Place struct {
	Epoch, Batch int // Batch counts from 0 in every epoch, in the order of training
}

// Engine computes a network. Its methods belong to one goroutine at a time, except that
// works are prepared on any.
type Engine interface {
	// NewWork returns the memory in which batches are prepared, one at a time, for Backward or,
	// with eval, for Infer. features is the memory of their features, which must not move until the
	// work is closed; nil: any memory.
	NewWork(eval bool, features []byte) (Work, error)
	// Backward computes the loss and the gradients of the batch in w with the features f, and adds
	// the gradients to the sum of its step. It returns the outcome of this batch or of an earlier one
	// that was under way, or nil if none is known yet. A loss that is not finite comes with an
	// error. w and f may be reused when it returns.
	//
	// After an error there is nothing to apply, not even of the step's earlier batches, and the
	// next Backward begins a step. If the context ended first, the weights are unchanged.
	Backward(ctx context.Context, w Work, f Features, at Place) (*Outcome, error)
	// Apply takes the step along the gradients of the batches since the last one.
	Apply() error
	// Contribution copies the latest batch's contribution to its step (see Sum) to dst, which has
	// the length of Params' elements. It requires Config.Apart.
	Contribution(dst []float32) error
	// ApplySum takes the step of s, which stays the caller's. It requires Config.Apart.
	ApplySum(s *Sum) error
	// Finish waits for the batches under way and returns the outcome that no Backward has returned,
	// or nil.
	Finish() (*Outcome, error)
	// Infer returns the logits of the batch in w, row-major, a column per class, in the engine's
	// memory: valid until its next call.
	Infer(ctx context.Context, w Work, f Features) (logits []float32, err error)
	// SetLR changes the learning rate of the steps to come.
	SetLR(rate float64) error
	// Snapshot appends the weights to dst, Restore puts such a copy back and leaves the
	// optimizer as it is.
	Snapshot(dst []float32) ([]float32, error)
	Restore(weights []float32) error
	// State returns the state from which training resumes, in parts. Their bytes may be the
	// engine's memory. LoadState restores it.
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
	// Fill enqueues the work that makes x the rows of features, float32, row-major: copies on the
	// given stream, and perhaps work on a stream of its own, with the returned span; x is complete
	// once both are done. The sources of copies stay unchanged until then. The goroutine that
	// computes calls it, attached, when the last but one batch of its kind, training or evaluation,
	// has been computed.
	Fill(copies device.Stream, x device.Buffer) (device.Span, error)
}

// Landed returns the error of reading or checking features that is known only once the copies of
// Fill are done; nil for features that were complete before Fill. After an error the weights of the
// step are undefined.
func Landed(f Features) error {
	if l, ok := f.(interface{ Landed() error }); ok {
		return l.Landed()
	}
	return nil
}

// Rows are features in host memory, row-major. The slice may be longer than the rows.
type Rows []float32

// X returns the rows.
func (r Rows) X() []float32 { return r }

// Fill enqueues a copy of the rows.
func (r Rows) Fill(copies device.Stream, x device.Buffer) (device.Span, error) {
	b := binio.Bytes([]float32(r))
	return nil, copies.CopyIn(x, b[:min(int64(len(b)), x.Bytes())])
}

// Work is the data that an engine derives from a batch's structure before computing.
type Work interface {
	// Prepare derives the data from b, which must not change until the batch is computed.
	Prepare(b *graph.Batch) error
	Close()
}

// Outcome is the result of a batch, computed with the weights before its step. The slices belong to
// the engine or the batch, and are valid until the next batch.
type Outcome struct {
	Loss    float64 // mean over the labelled seed nodes; 0 when there is none
	Correct int     // labelled seed nodes with a correct prediction: the class, or all classes
	Count   int     // labelled seed nodes
	Logits  []float32
	Labels  []int32 // of the batch
	Targets []byte
	Times   Times // on the GPU
}

// Times are the periods in which a device worked on a batch, and the time that the host has waited
// for it since the outcome before. Copy includes the decoding of blocks in bits.
type Times struct {
	Copy, Gather, Compute Period
	Waited                time.Duration
}

// Period is a time of work. The zero value means none.
type Period struct {
	Began time.Time
	Took  time.Duration
}

// Info names the hardware, libraries and arithmetic of an engine.
type Info struct {
	BLAS       string        `json:"blas,omitempty"`              // library, version and core, which decide the rounding
	SIMD       string        `json:"simd,omitempty"`              // kernels in use; they all round alike
	Device     string        `json:"device,omitempty"`            // the GPU
	Precision  string        `json:"precision,omitempty"`         // of its matrix products
	Orders     []model.Order `json:"layer_orders,omitempty"`      // of training
	EvalOrders []model.Order `json:"eval_layer_orders,omitempty"` // of evaluation
	Note       string        `json:"-"`                           // for the user
}

// Reducer sums memory of several devices: nccl.Comm is one.
type Reducer interface {
	// AllReduce enqueues the replacement of x, of float32, by its sum over all devices, which is
	// the same on each. All devices enqueue the same calls, in the same order.
	AllReduce(ctx context.Context, s device.Stream, x device.Buffer) error
}

// Sharing is an Engine with gradients on a device, where they can be summed with the gradients of
// other engines. The config has more than one batch a step, and is not Apart.
type Sharing interface {
	Engine
	// Share makes the engine one of several with batches in the same step: first is the number of
	// its own first batch in the step.
	Share(first int) error
	// Reduce enqueues the replacement of the engine's sum of the step, which may have no batch, by
	// the sum over all engines. labelled and batches count all engines' batches. Apply then takes
	// the step.
	Reduce(ctx context.Context, r Reducer, labelled int64, batches int) error
}
