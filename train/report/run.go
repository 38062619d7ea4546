package report

import (
	"diskgnn/internal/vfs"
	"diskgnn/train/rundir"
)

// Killed is the state of a run that run.json calls running, but that no process trains.
const Killed rundir.State = "killed"

// Run is a run as its directory tells it: run.json, and metrics.jsonl as Epochs.
type Run struct {
	rundir.File
	Dir    string
	Epochs []rundir.Epoch
	// DriveRate is the drive's sequential rate in bytes per second, 0 where it was not
	// measured.
	DriveRate float64
	// Refresh is after how many seconds a browser loads the page again, for a page that is
	// served while the run trains; 0: never.
	Refresh int
}

// Read reads a run's directory, whatever the run's state.
func Read(fsys vfs.FS, dir string) (*Run, error) {
	f, err := rundir.ReadSummary(fsys, dir)
	if err != nil {
		return nil, err
	}
	r := &Run{File: f, Dir: dir}
	r.Epochs, err = rundir.ReadLines(fsys, dir)
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
