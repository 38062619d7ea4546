// Package report shows a run on one page of HTML: what it learned, where its time
// went, what it read, what it held. The page stands alone: its drawings are in it, it
// runs no scripts and asks no network, so it can be mailed and printed.
//
//	run.json, metrics.jsonl ── Read ──► Run ── Write ──► report.html
package report

import (
	_ "embed"
	"html/template"
	"io"
	"time"

	"diskgnn/internal/chart"
	"diskgnn/internal/units"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// page is what the template shows.
type page struct {
	Style    template.CSS
	Refresh  int
	Title    string
	State    string
	Sentence string
	When     string
	Tiles    []row
	Figures  []chart.Figure
	Memory   []bar
	Tables   []table
	Columns  []string // of the table of epochs
	Epochs   []epochRow
	Omitted  int // earlier epochs that Epochs has not
}

type row struct{ Name, Value string }

type table struct {
	Title string
	Rows  []row
}

// bar is a share of something, in percent.
type bar struct {
	Name, Value string
	Percent     float64
	Class       string
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
	p := page{
		Style: chart.Style(), Refresh: r.Refresh,
		Title: r.title(), State: string(r.State), Sentence: r.sentence(), When: r.when(),
		Tiles: r.tiles(), Figures: r.figures(), Memory: r.memory(),
		Tables: []table{r.configuration(), r.pack(), r.environment()},
	}
	p.Columns = []string{"epoch", "seconds", "loss", "train", "valid", "read", "useful", "from " + r.caches(), "rate"}
	p.Omitted = max(0, len(r.Epochs)-mostRows)
	best := r.best()
	for i := p.Omitted; i < len(r.Epochs); i++ {
		p.Epochs = append(p.Epochs, epochRow{i == best, r.cells(&r.Epochs[i])})
	}
	return pageTemplate.Execute(w, p)
}

// when says when the run was, to the minute.
func (r *Run) when() string {
	const minute = "2 January 2006, 15:04 MST"
	s := "Begun " + r.Begun.UTC().Format(minute)
	if r.Ended != nil {
		s += ", ended " + r.Ended.UTC().Format(minute) + ", after " + units.Seconds(r.Ended.Sub(r.Begun).Round(time.Second).Seconds())
	}
	return s + "."
}
