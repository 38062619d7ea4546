package train

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"diskgnn/dataset"
	"diskgnn/internal/binio"
	"diskgnn/internal/driverate"
	"diskgnn/iostack"
	"diskgnn/train/rundir"
)

// singles is the number of single reads of a measurement.
const singles = 200

// measureDrive returns a function that measures random reads of pages of a file with some effort: the rate at the
// stack's full depth, and the median time of a read with no other in flight.
func measureDrive(e driverate.Effort) func(ctx context.Context, s iostack.Stack, file string, seed uint64) (perSecond float64, single time.Duration, err error) {
	return func(ctx context.Context, s iostack.Stack, file string, seed uint64) (perSecond float64, single time.Duration, err error) {
		rate, err := iostack.Random(ctx, s, file, binio.Page, seed, e)
		if err != nil {
			return 0, 0, err
		}
		single, err = iostack.Latency(ctx, s, file, binio.Page, seed, singles)
		return rate.PerSecond, single, err
	}
}

// accumulate replaces --accumulator measure by the number that suits the drive. It measures once for a process: other
// numbers would change the hits of an attempt that is repeated.
func (r *runner) accumulate(ctx context.Context, o *Options) error {
	if o.Accumulator != rundir.Measure {
		return nil
	}
	if r.accesses == 0 {
		data, err := dataset.OpenAny(r.fs, o.Dataset)
		if err != nil {
			return err
		}
		rate, single, err := r.parts.drive(ctx, r.stack, data.FeaturesPath(), o.Seed)
		if err != nil {
			return fmt.Errorf("measure the drive for --accumulator: %w", err)
		}
		r.accesses = o.store().Accesses(rate, single)
		r.report.Logf("accumulator: batches are read together until they have more than %d accesses: the drive serves %.0f pages a second, and a single one in %v",
			r.accesses, rate, single.Round(time.Microsecond))
	}
	o.Accumulator = strconv.FormatInt(r.accesses, 10)
	return nil
}
