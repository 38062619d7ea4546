package report

import (
	"math"
	"slices"

	"diskgnn/internal/vfs"
	"diskgnn/pipeline"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// Run is the content of a run's directory: run.json, and metrics.jsonl as Epochs.
type Run struct {
	rundir.File
	Dir    string
	Epochs []rundir.Epoch
	// DriveRate is the drive's sequential rate in bytes per second, 0 if it was not measured.
	DriveRate float64
	// Refresh is the interval in seconds at which a browser reloads the page, for a page that is
	// served while the run trains; 0: never.
	Refresh int
}

// Killed is the state of a run that is running according to run.json, though no process trains it.
const Killed rundir.State = "killed"

// Read reads a run's directory, in any state of the run.
func Read(fsys vfs.FS, dir string) (*Run, error) {
	f, err := rundir.ReadSummary(fsys, dir)
	if err != nil {
		return nil, err
	}
	r := &Run{File: f, Dir: dir}
	r.Epochs, err = f.ReadLines(fsys, dir)
	return r, err
}

// best returns the index of the first epoch with the best validation score, -1 where
// nothing was validated.
func (r *Run) best() int {
	best := -1
	for i := range r.Epochs {
		if v := r.Epochs[i].ValidAccuracy; v.Defined() && (best < 0 || v > r.Epochs[best].ValidAccuracy) {
			best = i
		}
	}
	return best
}

// steady returns the mean times of epochs and of their links. It leaves out the first epoch, which
// has filled the cache, if there are others.
func (r *Run) steady() (seconds float64, sum []pipeline.LinkTime) {
	epochs := r.Epochs
	if len(epochs) > 1 {
		epochs = epochs[1:]
	}
	n := 0.0
	for i := range epochs {
		if sum == nil {
			sum = slices.Clone(epochs[i].Links)
		} else if len(epochs[i].Links) == len(sum) {
			t := pipeline.Table{Links: sum}
			t.Add(pipeline.Table{Links: epochs[i].Links})
		} else {
			continue
		}
		seconds += epochs[i].Seconds
		n++
	}
	for i := range sum {
		sum[i].Busy, sum[i].Blocked = sum[i].Busy/n, sum[i].Blocked/n
	}
	return seconds / max(n, 1), sum
}

// epochSeconds returns the mean time of an epoch: see steady.
func (r *Run) epochSeconds() score.Score {
	if len(r.Epochs) == 0 {
		return score.Undefined
	}
	seconds, _ := r.steady()
	return score.Score(seconds)
}

// mean returns the mean of a value over all epochs but the first, if there are others.
func (r *Run) mean(value func(*rundir.Epoch) float64) float64 {
	epochs := r.Epochs
	if len(epochs) > 1 {
		epochs = epochs[1:]
	}
	sum := 0.0
	for i := range epochs {
		sum += value(&epochs[i])
	}
	return sum / float64(len(epochs))
}

// hits returns the share of an epoch's rows that memory served; NaN if unknown.
func (r *Run) hits(e *rundir.Epoch) float64 {
	rows := float64(e.InputNodes) * float64(r.PackFacts.RowBytes)
	if rows <= 0 {
		return math.NaN()
	}
	return float64(e.RAMBytes) / rows
}

// lastReadRate returns the last known rate of reads in bytes per second, 0 if none is.
func (r *Run) lastReadRate() float64 {
	for i := range slices.Backward(r.Epochs) {
		if v := r.Epochs[i].ReadRate; v.Defined() {
			return float64(v)
		}
	}
	return 0
}
