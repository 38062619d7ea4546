// Package report shows a run on one page of HTML: its bottleneck, scores, times, reads and memory.
// The page is self-contained: it includes its drawings, and uses neither scripts nor the network,
// so it can be mailed and printed.
//
//	run.json, metrics.jsonl ── Read ──► Run ── Write ──► report.html
//	                                     └── Document ──► the same as data
package report

import (
	_ "embed"
	"html/template"
	"io"

	"diskgnn/internal/chart"
)

// Document is the content of a run's page as data: the page's words and the values of its figures.
// It is the same for the same run.
type Document struct {
	Title    string    `json:"title"`
	State    string    `json:"state"`
	Verdict  []Finding `json:"verdict,omitempty"`
	Sentence string    `json:"sentence"`
	When     string    `json:"when"`
	Command  string    `json:"command,omitempty"`
	Tiles    []Row     `json:"tiles,omitempty"`
	Figures  []Figure  `json:"figures,omitempty"`
	Tables   []Table   `json:"tables"`
}

// Document returns the content of the run's page, for a finished or unfinished run.
func (r *Run) Document() Document {
	return Document{
		Title: r.title(), State: string(r.State), Verdict: r.verdict(), Sentence: r.sentence(), When: r.when(), Command: r.command(),
		Tiles: r.tiles(), Figures: r.figures(), Tables: []Table{r.configuration(), r.pack(), r.environment()},
	}
}

//go:embed page.html
var pageText string

var pageTemplate = chart.Template(pageText)

// page is the template's data.
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

// Write writes the page of a run, finished or under way. It only reads r, so several goroutines may
// write pages of one run. It reads no file and no clock.
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
