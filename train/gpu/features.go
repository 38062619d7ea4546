package gpu

import (
	"errors"
	"time"

	"diskgnn/device/cuda"
	"diskgnn/internal/binio"
)

// Features are a batch's rows of features on their way to the device.
type Features interface {
	// Fill asks for the work that makes x the rows of features, float32, row-major: copies
	// on the given stream, and perhaps more on a stream of its own, whose time it returns;
	// x is complete once both are done. What is copied stays as it is until then. It is
	// called by the goroutine that computes, attached, when the batch before the last one
	// of its kind, for training or evaluation, has been computed.
	Fill(copies *cuda.Stream, x cuda.Buffer) (*cuda.Span, error)
}

// Rows are features in host memory, row-major, and perhaps more behind them.
type Rows []float32

// Fill copies them.
func (r Rows) Fill(copies *cuda.Stream, x cuda.Buffer) (*cuda.Span, error) {
	b := binio.Bytes([]float32(r))
	return nil, copies.CopyIn(x, b[:min(int64(len(b)), x.Bytes())])
}

// Times say when the device worked on a step, and how long the host waited for it since
// it told of the step before.
type Times struct {
	Copy, Gather, Compute Period
	Waited                time.Duration
}

// Period is a time of work. The zero value says that there was none.
type Period struct {
	Began time.Time
	Took  time.Duration
}

// clock tells the host's time of a mark on the device.
type clock struct {
	mark *cuda.Event
	at   time.Time
}

// set makes the present the time that others are told by: the closer, the more precise.
// It waits for the stream.
func (c *clock) set(s *cuda.Stream) error {
	if err := errors.Join(c.mark.Record(s), c.mark.Synchronize()); err != nil {
		return err
	}
	c.at = time.Now()
	return nil
}

// tell returns when a span was, that is done; nothing of nil.
func (c *clock) tell(s *cuda.Span) (Period, error) {
	if s == nil {
		return Period{}, nil
	}
	began, took, err := s.Since(c.mark)
	return Period{c.at.Add(began), took}, err
}
