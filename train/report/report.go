// Package report shows a run on one page of HTML: what held it up, what it learned, where its
// time went, what it read, what it held. The page stands alone: its drawings are in it, it
// runs no scripts and asks no network, so it can be mailed and printed.
//
//	run.json, metrics.jsonl ── Read ──► Run ── Write ──► report.html
//	                                     └── Document ──► the same as data
package report

import (
	_ "embed"
	"html/template"
	"io"

	"diskgnn/internal/chart"
	"diskgnn/internal/vfs"
	"diskgnn/train/rundir"
)

//go:embed page.html
var pageText string

var pageTemplate = chart.Template(pageText)

// page is what the template shows.
type page struct {
	Style   template.CSS
	Things  template.CSS
	Refresh int
	Document
	Columns []string // of the table of epochs
	Epochs  []epochRow
	Omitted int // earlier epochs that Epochs has not
}

type epochRow struct {
	Best  bool
	Cells []string
}

// mostRows bounds the table of epochs; metrics.jsonl has all of them.
const mostRows = 100

// Write writes the page of a run, finished or under way: all that it shows is in r, of which it
// changes nothing, so that pages of one run may be written by several goroutines. It reads no
// file and no clock.
func Write(w io.Writer, r *Run) error {
	p := page{Style: chart.Style(), Things: chart.Things(), Refresh: r.Refresh, Document: r.Document()}
	p.Columns = []string{"epoch", "seconds", "loss", "train", "valid", "read", "useful"}
	if n, _ := r.Setup.OnGPU(); n > 0 {
		p.Columns = append(p.Columns, "from the GPU")
	}
	p.Columns = append(p.Columns, "from RAM", "rate")
	p.Omitted = max(0, len(r.Epochs)-mostRows)
	best := r.best()
	for i := p.Omitted; i < len(r.Epochs); i++ {
		p.Epochs = append(p.Epochs, epochRow{i == best, r.cells(&r.Epochs[i])})
	}
	return pageTemplate.Execute(w, p)
}

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
