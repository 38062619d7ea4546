package report

import (
	"time"

	"diskgnn/internal/units"
)

// Document is what the page of a run says and draws, as data: what has the page's words and the
// values of its figures, and is the same for the same run.
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

// Row is a value and its name.
type Row struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Table has rows of values.
type Table struct {
	Title string `json:"title"`
	Rows  []Row  `json:"rows"`
}

// Document returns what the page of a run says. It is of the run as r has it, finished or not.
func (r *Run) Document() Document {
	return Document{
		Title: r.title(), State: string(r.State), Verdict: r.Verdict(), Sentence: r.sentence(), When: r.when(), Command: r.command(),
		Tiles: r.tiles(), Figures: r.figures(), Tables: []Table{r.configuration(), r.pack(), r.environment()},
	}
}

// when says when the run was, to the minute.
func (r *Run) when() string {
	const minute = "2 January 2006, 15:04 MST"
	s := "Begun " + r.Begun.UTC().Format(minute)
	if r.Ended != nil {
		s += ", ended " + r.Ended.UTC().Format(minute) + ", after " + units.Seconds(r.Ended.Sub(r.Begun).Round(time.Second).Seconds())
	}
	if r.Host != nil && r.Host.Name != "" {
		s += ", on " + r.Host.Name
	}
	return s + "."
}
