package tool

import (
	"context"
	"math"

	"diskgnn/internal/driverate"
	"diskgnn/iostack/drive"
	"diskgnn/pack/packfile"
)

// Drive is the drive that files lie on.
type Drive struct {
	drive.Drive
	effort driverate.Effort
	shape  *drive.Shape // of the fastest reads, once they were looked for
}

// NewDrive returns the drive of the files, which are read through a backend of the given
// kind.
func NewDrive(kind string, paths ...string) *Drive {
	return &Drive{Drive: drive.Drive{Kind: kind, Paths: paths}, effort: driverate.Sustained}
}

// mostFiles bounds how many files of a pack are open to measure its drive.
const mostFiles = 64

// ColdDrive returns the drive of a pack's cold files.
func ColdDrive(kind string, r *packfile.Reader) *Drive {
	var paths []string
	for g := range mostFiles {
		f, ok := r.Meta().File(packfile.ColdFile(g))
		if !ok {
			break
		}
		paths = append(paths, r.Path(f.Name))
	}
	return NewDrive(kind, paths...)
}

// Rate returns the bytes per second that the drive keeps up in sequence: after seconds of
// load that do not count, over ten seconds, by reads as large and as many in flight as suit
// it best, which the first call finds out.
func (d *Drive) Rate(ctx context.Context) (float64, error) {
	if d.shape == nil {
		sweep, err := d.Best(ctx, d.effort)
		if err != nil {
			return 0, err
		}
		d.shape = &sweep.Best
	}
	r, err := d.At(ctx, *d.shape, d.effort)
	return r.PerSecond, err
}

// steadyAfter is for how many seconds a load is left out of what is measured, and
// steadyFor how long it is measured then, at least; see package driverate.
var steadyAfter, steadyFor = driverate.Sustained.Drain.Seconds(), driverate.Sustained.For.Seconds()

// SteadyEpochs returns how many epochs a training takes that reads nothing but so many
// bytes an epoch, at the drive's rate, to be measured when the drive is in its stride. The
// first is left out in any case: it fills the caches.
func SteadyEpochs(bytes int64, rate float64) int {
	each := float64(max(bytes, 1)) / rate
	const most = 1000
	return int(min(most, 1+max(0, math.Ceil((steadyAfter-each)/each))+max(1, math.Ceil(steadyFor/each))))
}

// Steady returns the epochs of a training that count: the first fills the caches, and those
// within the first seconds may be faster than the drive is. The last counts in any case.
func Steady(epochs []Epoch) []Epoch {
	var seconds []float64
	for _, e := range epochs {
		seconds = append(seconds, e.Seconds)
	}
	return epochs[SteadyFrom(seconds):]
}

// SteadySeconds returns the mean of the epochs that count.
func SteadySeconds(epochs []Epoch) float64 {
	sum, steady := 0.0, Steady(epochs)
	for _, e := range steady {
		sum += e.Seconds
	}
	return sum / float64(len(steady))
}

// SteadyFrom returns which epoch is the first that counts, see Steady, by the seconds that
// each took.
func SteadyFrom(seconds []float64) int {
	began, last := 0.0, max(0, len(seconds)-1)
	for i := range last {
		if i > 0 && began >= steadyAfter {
			return i
		}
		began += seconds[i]
	}
	return last
}
