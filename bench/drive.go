package main

import (
	"context"
	"math"

	"diskgnn/internal/driverate"
	"diskgnn/iostack/all"
	"diskgnn/pack/packfile"
)

// steadyDrive measures the sustained rate of the drive of some files.
type steadyDrive struct {
	all.Drive
	shape *all.Shape // of the fastest reads; nil until rate has determined them
}

// newDrive returns the drive of the files, read through a backend of the given kind.
func newDrive(kind string, paths ...string) *steadyDrive {
	return &steadyDrive{Drive: all.Drive{Kind: kind, Paths: paths}}
}

// mostFiles is the largest number of a pack's files that are read to measure its drive.
const mostFiles = 64

// coldDrive returns the drive of a pack's cold files.
func coldDrive(kind string, r *packfile.Reader) *steadyDrive {
	var paths []string
	for g := range mostFiles {
		f, ok := r.Meta().File(packfile.ColdFile(g))
		if !ok {
			break
		}
		paths = append(paths, r.Path(f.Name))
	}
	return newDrive(kind, paths...)
}

// effort is the effort of all measurements of drives: it excludes the first seconds of reads.
var effort = driverate.Sustained

// rate returns the drive's sustained rate in bytes per second, in sequence: after seconds of load
// that are not counted, over ten seconds, with the best size and number of reads in flight, which
// the first call determines.
func (d *steadyDrive) rate(ctx context.Context) (float64, error) {
	if d.shape == nil {
		sweep, err := d.Best(ctx, effort)
		if err != nil {
			return 0, err
		}
		d.shape = &sweep.Best
	}
	r, err := d.At(ctx, *d.shape, effort)
	return r.PerSecond, err
}

// side returns the drive as one of the sides that take turns.
func (d *steadyDrive) side() side {
	return side{"drive", func(ctx context.Context, _ int) (row, error) {
		rate, err := d.rate(ctx)
		return row{{"sequential_bytes_per_second", rate}}, err
	}}
}

// steadyAfter is the seconds of load that are not counted, and steadyFor the least seconds measured
// after them; see package driverate.
var steadyAfter, steadyFor = driverate.Sustained.Drain.Seconds(), driverate.Sustained.For.Seconds()

// steadyEpochs returns the number of epochs to train until the drive is at its sustained rate and
// is measured long enough, for a training that only reads bytes bytes an epoch at this rate. The
// first epoch is never counted: it fills the caches.
func steadyEpochs(bytes int64, rate float64) int {
	each := float64(max(bytes, 1)) / rate
	const most = 1000
	return int(min(most, 1+max(0, math.Ceil((steadyAfter-each)/each))+max(1, math.Ceil(steadyFor/each))))
}

// steady returns the counted epochs of a training. It excludes the first, which fills the caches,
// and those within the first seconds, when the drive may be faster. The last always counts.
func steady(epochs []epoch) []epoch {
	began, last := 0.0, max(0, len(epochs)-1)
	for i := range last {
		if i > 0 && began >= steadyAfter {
			return epochs[i:]
		}
		began += epochs[i].Seconds
	}
	return epochs[last:]
}

// total returns the sums of epochs.
func total(epochs []epoch) (sum epoch) {
	for _, e := range epochs {
		sum.Seconds += e.Seconds
		sum.BytesRead, sum.UsefulBytes = sum.BytesRead+e.BytesRead, sum.UsefulBytes+e.UsefulBytes
	}
	return sum
}

// steadySeconds returns the mean of the counted epochs.
func steadySeconds(epochs []epoch) float64 {
	counted := steady(epochs)
	return total(counted).Seconds / float64(len(counted))
}
