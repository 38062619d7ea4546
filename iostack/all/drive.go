package all

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"diskgnn/internal/driverate"
	"diskgnn/iostack"
)

// Shape is the size of reads in bytes, and the number of reads in flight.
type Shape struct {
	Block int `json:"block_bytes"`
	Depth int `json:"depth"`
}

// shapes are the shapes that Best compares, the stacks' default first. Drives and their throttles
// differ: each shape is the fastest on some.
var shapes = []Shape{
	{1 << 20, 16}, {1 << 20, 64},
	{256 << 10, 32}, {256 << 10, 128},
	{4 << 20, 8}, {4 << 20, 32},
}

// Swept is the rate of a shape in a short measurement, in bytes per second.
type Swept struct {
	Shape
	PerSecond float64 `json:"bytes_per_second"`
}

// Sweep is the measurements of all shapes.
type Sweep struct {
	Best  Shape
	All   []Swept
	First float64 // bytes per second in the first second: the burst of a drive that was idle
}

// Drive describes a measurement: the files to read, and the backend that reads them.
type Drive struct {
	Kind  string // a kind for Open
	Paths []string
	Most  int64 // bytes of each file to read, from its beginning; 0: all of them
}

// Best loads the drive with reads of the files from front to back, shape after shape without a
// pause, and returns the fastest shape. Each shape runs for a tenth of the effort's time after a
// sixth of its drain; the whole drain precedes the first. Files are read again as often as needed.
func (d *Drive) Best(ctx context.Context, e driverate.Effort) (Sweep, error) {
	var found Sweep
	each := driverate.Effort{Drain: e.Drain + 1, For: e.For/10 + 1} // never a single pass
	for i, s := range shapes {
		r, err := d.At(ctx, s, each)
		if err != nil {
			return Sweep{}, err
		}
		found.All = append(found.All, Swept{s, r.PerSecond})
		if i == 0 {
			found.First = r.First
		}
		each.Drain = e.Drain/6 + 1
	}
	found.Best = slices.MaxFunc(found.All, func(a, b Swept) int { return cmp.Compare(a.PerSecond, b.PerSecond) }).Shape
	return found, nil
}

// At measures the rate of reads of one shape in bytes per second; see iostack.Sequential.
func (d *Drive) At(ctx context.Context, s Shape, e driverate.Effort) (r driverate.Rate, err error) {
	stack, _, err := Open(d.Kind, iostack.Options{MaxIO: s.Block, Workers: s.Depth})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, stack.Close()) }()
	// Twice the number of reads in flight, so that the stack always has queued requests.
	r, err = iostack.Sequential(ctx, stack, iostack.Reads{Paths: d.Paths, Most: d.Most, Bytes: s.Block, Depth: 2 * s.Depth, Load: e})
	if err != nil {
		return r, fmt.Errorf("%d reads of %d bytes: %w", s.Depth, s.Block, err)
	}
	return r, nil
}

// SweepTime returns the time that Best followed by one At takes.
func SweepTime(e driverate.Effort) time.Duration {
	n := time.Duration(len(shapes))
	return e.Drain + e.For/10 + (n-1)*(e.Drain/6+e.For/10) + e.Total()
}
