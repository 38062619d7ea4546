package main

import (
	"context"
	"math"

	"diskgnn/internal/driverate"
	"diskgnn/iostack/all"
	"diskgnn/pack/packfile"
)

// steadyDrive is the drive of files, and what it keeps up.
type steadyDrive struct {
	all.Drive
	shape *all.Shape // of the fastest reads, once they were looked for
}

// newDrive returns the drive of the files, which are read through a backend of the given
// kind.
func newDrive(kind string, paths ...string) *steadyDrive {
	return &steadyDrive{Drive: all.Drive{Kind: kind, Paths: paths}}
}

// mostFiles bounds how many files of a pack are open to measure its drive.
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

// effort is that of all measurements of drives: what was read in the first seconds does not count.
var effort = driverate.Sustained

// rate returns the bytes per second that the drive keeps up in sequence: after seconds of
// load that do not count, over ten seconds, by reads as large and as many in flight as suit
// it best, which the first call finds out.
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

// side returns the drive as one of those that take turns.
func (d *steadyDrive) side() side {
	return side{"drive", func(ctx context.Context, _ int) (row, error) {
		rate, err := d.rate(ctx)
		return row{{"sequential_bytes_per_second", rate}}, err
	}}
}

// steadyAfter is for how many seconds a load is left out of what is measured, and
// steadyFor how long it is measured then, at least; see package driverate.
var steadyAfter, steadyFor = driverate.Sustained.Drain.Seconds(), driverate.Sustained.For.Seconds()

// steadyEpochs returns how many epochs a training takes that reads nothing but so many
// bytes an epoch, at the drive's rate, to be measured when the drive is in its stride. The
// first is left out in any case: it fills the caches.
func steadyEpochs(bytes int64, rate float64) int {
	each := float64(max(bytes, 1)) / rate
	const most = 1000
	return int(min(most, 1+max(0, math.Ceil((steadyAfter-each)/each))+max(1, math.Ceil(steadyFor/each))))
}

// steady returns the epochs of a training that count: the first fills the caches, and those
// within the first seconds may be faster than the drive is. The last counts in any case.
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

// total is what epochs come to.
func total(epochs []epoch) (sum epoch) {
	for _, e := range epochs {
		sum.Seconds += e.Seconds
		sum.BytesRead, sum.UsefulBytes = sum.BytesRead+e.BytesRead, sum.UsefulBytes+e.UsefulBytes
	}
	return sum
}

// steadySeconds returns the mean of the epochs that count.
func steadySeconds(epochs []epoch) float64 {
	counted := steady(epochs)
	return total(counted).Seconds / float64(len(counted))
}
