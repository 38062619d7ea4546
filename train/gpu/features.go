package gpu

import (
	"errors"
	"time"

	"diskgnn/device/cuda"
	"diskgnn/internal/binio"
)

// Features are the rows of features of one batch, wherever they lie.
type Features interface {
	// Fill enqueues the work that writes the rows to x, as float32s, row-major. It enqueues
	// copies on the given stream, and may enqueue more work on a stream of its own: it then
	// returns the span of that work, otherwise nil. x is complete when both are done; until
	// then the memory that is copied from must not change.
	//
	// The goroutine that computes calls Fill, attached to the device. The engine has two
	// matrices for training and one for evaluation, and fills each anew when the batch whose
	// features it held has been computed.
	Fill(copies *cuda.Stream, x cuda.Buffer) (*cuda.Span, error)
}

// Rows are features in host memory, row-major, and perhaps more behind them.
type Rows []float32

// Fill copies them.
func (r Rows) Fill(copies *cuda.Stream, x cuda.Buffer) (*cuda.Span, error) {
	b := binio.Bytes([]float32(r))
	return nil, copies.CopyIn(x, b[:min(int64(len(b)), x.Bytes())])
}

// Times say when the device worked on a step, and how long the host has waited for the
// device since the outcome of the step before.
type Times struct {
	Copy, Gather, Compute Period
	Waited                time.Duration
}

// Period is when some work began, by the host's clock, and how long it took. The zero value
// stands for no work.
type Period struct {
	Began time.Time
	Took  time.Duration
}

// clock converts the times of marks on the device to the host's.
type clock struct {
	mark *cuda.Event
	at   time.Time
}

// set makes the present the reference that later marks are measured from; the conversion
// loses precision with the distance. It waits for the stream.
func (c *clock) set(s *cuda.Stream) error {
	if err := errors.Join(c.mark.Record(s), c.mark.Synchronize()); err != nil {
		return err
	}
	c.at = time.Now()
	return nil
}

// tell returns the period of a span that is done; the zero period for nil.
func (c *clock) tell(s *cuda.Span) (Period, error) {
	if s == nil {
		return Period{}, nil
	}
	began, took, err := s.Since(c.mark)
	return Period{c.at.Add(began), took}, err
}
