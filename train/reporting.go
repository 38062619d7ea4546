package train

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/train/report"
	"diskgnn/train/rundir"
)

// Report makes the report of a run that has ended, for any reason, from its directory alone.
// driveRate, the drive's sequential rate in bytes per second, is for comparison; 0 if unknown. A
// run under way makes its own: Report then returns an error of kind fault.ErrLocked.
func Report(fsys vfs.FS, dir string, driveRate float64) (*report.Run, error) {
	dir = filepath.Clean(dir)
	was, err := rundir.Read(fsys, dir)
	if err != nil {
		return nil, err
	}
	d, err := rundir.Lock(fsys, dir, was)
	switch {
	case errors.Is(err, fault.ErrLocked):
		return nil, fmt.Errorf("a run under way makes its own report: %w", err)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w: --html writes the page elsewhere", err)
	case err != nil:
		return nil, err
	}
	defer d.Unlock()
	r, err := report.Read(fsys, dir)
	if err != nil {
		return nil, err
	}
	r.DriveRate = driveRate
	if r.State == rundir.StateRunning { // and yet it holds no lock
		r.State = report.Killed
	}
	if err := d.Replace(rundir.ReportFile, func(w io.Writer) error { return report.Write(w, r) }); err != nil {
		return nil, err
	}
	return r, nil
}
