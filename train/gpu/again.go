package gpu

import (
	"errors"
	"time"

	"diskgnn/train/engine"
)

// Again trains once more on the batch of the last step, whose copy is on the device, and
// returns the device's time for it, for benchmarks. There is no outcome.
func (e *Engine) Again() (took time.Duration, err error) {
	if _, err := e.Finish(); err != nil {
		return 0, err
	}
	return took, e.device.Attached(func() error {
		i := &e.inputs[(e.batches+1)%2]
		adam := e.adam.next(&e.opts)
		i.put(e.opts.Seed, engine.Place{Batch: int(e.adam.step)}, &adam)
		began, err := e.device.NewEvent()
		if err != nil {
			return err
		}
		defer began.Free()
		if err := e.main.CopyIn(i.constants, i.given.Bytes()); err != nil {
			return err
		}
		if err := errors.Join(began.Record(e.main), e.compute(i), i.computing.End(e.main), e.main.Synchronize()); err != nil {
			return err
		}
		e.adam.step++
		took, err = i.computing.Ended().Since(began)
		return err
	})
}
