package comparison

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"time"

	"diskgnn/internal/budget"
	"diskgnn/internal/driverate"
	"diskgnn/internal/units"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/train/score"
)

// Random reads of the drive: the most in flight, the most bytes of them in flight, and the largest. The
// smallest are pages.
const (
	depth        = 128
	mostInFlight = 16 << 20
	mostAccess   = 1 << 20
)

// effort is the duration of a measurement of the drive.
func (c *comparison) effort() driverate.Effort {
	scale := c.o.DriveSeconds / driverate.Limited.For.Seconds()
	times := func(d time.Duration) time.Duration { return time.Duration(scale * float64(d)) }
	return driverate.Effort{Drain: times(driverate.Limited.Drain), For: times(driverate.Limited.For)}
}

// measureDrive measures reading the dataset's features, in sequence and page by page.
func (c *comparison) measureDrive(ctx context.Context) error {
	d, f, effort := &c.result.Drive, c.data.Facts(), c.effort()
	d.Path = filepath.Join(c.o.Dataset, f.FeaturesFile())
	c.rep.Logf("measuring the drive of %s for %s", d.Path, units.Seconds((all.SweepTime(effort) + effort.Total()).Seconds()))
	sequence := all.Drive{Kind: c.o.Train.IO, Paths: []string{d.Path}}
	sweep, err := sequence.Best(ctx, effort)
	if err != nil {
		return err
	}
	rate, err := sequence.At(ctx, sweep.Best, effort)
	if err != nil {
		return err
	}
	d.Sequential = rate.PerSecond
	if err := c.describeDrive(d); err != nil || c.driveBytes < page {
		return err
	}
	bytes, err := c.randomRate(ctx, page)
	d.Random = bytes / page
	return err
}

// describeDrive finds how the drive is read, and the size of the file.
func (c *comparison) describeDrive(d *Drive) (err error) {
	stack, _, err := all.Open(c.o.Train.IO, iostack.Options{Workers: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stack.Close()) }()
	file, err := stack.Open(d.Path)
	if err != nil {
		return err
	}
	d.Backend, c.driveBytes = stack.Name(), file.Size()
	d.Direct, _ = file.Direct()
	return file.Close()
}

// randomRate returns the drive's rate of random reads of a size, in bytes per second. It measures each size
// once.
func (c *comparison) randomRate(ctx context.Context, size int64) (float64, error) {
	if rate, ok := c.random[size]; ok {
		return rate, nil
	}
	stack, _, err := all.Open(c.o.Train.IO, iostack.Options{Workers: int(min(depth, mostInFlight/size))})
	if err != nil {
		return 0, err
	}
	rate, err := iostack.Random(ctx, stack, c.result.Drive.Path, int(size), c.o.Train.Seed, c.effort())
	c.random[size] = rate.PerSecond * float64(size)
	return c.random[size], errors.Join(err, stack.Close())
}

// accessBytes returns the power of two that is nearest to a mean size of requests, from 4 KiB to 1 MiB.
func accessBytes(mean float64) int64 {
	n := int64(page)
	for n < mostAccess && float64(n)*math.Sqrt2 < mean {
		n *= 2
	}
	return n
}

// besideDrive compares the rates of stores with the drive's, of random reads of their own sizes. A size
// above the file's is not measured.
func (c *comparison) besideDrive(ctx context.Context) error {
	for i := range c.result.Stores {
		s := &c.result.Stores[i]
		if !s.RequestBytes.Defined() {
			continue
		}
		size := accessBytes(float64(s.RequestBytes))
		if size > c.driveBytes {
			continue
		}
		if _, ok := c.random[size]; !ok {
			c.rep.Logf("measuring the drive's random reads of %s, as %s reads", budget.FormatBytes(size), s.Name())
		}
		rate, err := c.randomRate(ctx, size)
		if err != nil {
			return err
		}
		s.AtRequest = score.Score(rate)
		if s.Device.Defined() {
			s.DeviceFraction = ratio(float64(s.Device), rate)
		}
	}
	return nil
}
