package comparison

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"diskgnn/internal/driverate"
	"diskgnn/internal/units"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/presample/mbfile"
)

// depth is the number of random reads in flight.
const depth = 128

// measureDrive measures reading the dataset's features, in sequence and page by page.
func (c *comparison) measureDrive(ctx context.Context) (d Drive, err error) {
	f := c.data.Facts()
	d = Drive{Path: filepath.Join(c.o.Dataset, f.FeaturesFile())}
	scale := c.o.DriveSeconds / driverate.Limited.For.Seconds()
	times := func(d time.Duration) time.Duration { return time.Duration(scale * float64(d)) }
	effort := driverate.Effort{Drain: times(driverate.Limited.Drain), For: times(driverate.Limited.For)}
	c.rep.Logf("measuring the drive of %s for %s", d.Path, units.Seconds((all.SweepTime(effort) + effort.Total()).Seconds()))
	sequence := all.Drive{Kind: c.o.Train.IO, Paths: []string{d.Path}}
	sweep, err := sequence.Best(ctx, effort)
	if err != nil {
		return d, err
	}
	rate, err := sequence.At(ctx, sweep.Best, effort)
	if err != nil {
		return d, err
	}
	d.Sequential = rate.PerSecond
	stack, _, err := all.Open(c.o.Train.IO, iostack.Options{Workers: depth})
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, stack.Close()) }()
	file, err := stack.Open(d.Path)
	if err != nil {
		return d, err
	}
	d.Backend = stack.Name()
	d.Direct, _ = file.Direct()
	size := file.Size()
	if err := file.Close(); err != nil || size < page {
		return d, err
	}
	random, err := iostack.Random(ctx, stack, d.Path, page, c.o.Train.Seed, effort)
	d.Random = random.PerSecond
	return d, err
}

// workload counts the samples. For batches drawn while training it uses the upper bound of rows: S
// seed nodes, each with f₁, f₂ … neighbours drawn in turn, have S·Π(1 + fₗ) input nodes, or all N.
func (c *comparison) workload(v *variant) (w workload, err error) {
	data := c.data.Facts()
	w = workload{rowBytes: int64(data.RowBytes()), tableBytes: data.Nodes * int64(data.RowBytes())}
	if v.samples == "" {
		w.inputs = []int64{mostInputs(data.Train, data.Nodes, &v.o.Sampling)}
		return w, nil
	}
	r := c.samples
	if r == nil {
		if r, err = mbfile.Open(c.fs, v.samples); err != nil {
			return w, err
		}
		defer func() { err = errors.Join(err, r.Close()) }()
	}
	f := r.Facts()
	w.inputs = make([]int64, f.Epochs)
	for i := range f.TrainBatches {
		info := r.Info(i)
		w.inputs[i/f.BatchesPerEpoch] += int64(info.InputNodes())
	}
	return w, nil
}

// estimate reports an upper bound of the time of all rounds' reads.
func (c *comparison) estimate() {
	r := &c.result
	r.estimates = map[string]float64{}
	var parts []string
	for _, row := range c.rows {
		training, packing := row.of.w.reading(&r.Drive, c.o.Train.Stores.Design(row.store), c.o.Train.Epochs)
		s := packing + training*float64(c.o.Rounds)
		r.estimates[row.name()] = s
		r.EstimatedSeconds += s
		parts = append(parts, fmt.Sprintf("%s %s", row.name(), units.Seconds(s)))
	}
	c.rep.Logf("estimate: without caches, reads take %s: %s; evaluation, and computing where it is slower than reading, come on top", units.Seconds(r.EstimatedSeconds), strings.Join(parts, ", "))
}
