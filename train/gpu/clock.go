package gpu

import (
	"errors"
	"time"

	"diskgnn/device/cuda"
	"diskgnn/train/engine"
)

// clock tells the host's time of a mark on the device.
type clock struct {
	mark *cuda.Event
	at   time.Time
}

// set makes the present the time that others are counted from: the closer, the more precise.
// It waits for the stream.
func (c *clock) set(s *cuda.Stream) error {
	if err := errors.Join(c.mark.Record(s), c.mark.Synchronize()); err != nil {
		return err
	}
	c.at = time.Now()
	return nil
}

// tell returns when a span was, that is done; nothing of nil.
func (c *clock) tell(s *cuda.Span) (engine.Period, error) {
	if s == nil {
		return engine.Period{}, nil
	}
	began, took, err := s.Since(c.mark)
	return engine.Period{Began: c.at.Add(began), Took: took}, err
}
