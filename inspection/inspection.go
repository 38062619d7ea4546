// Package inspection draws the composition of a dataset, of samples or of a pack on one
// self-contained page of HTML: the drawings are inline, and the page runs no scripts and loads
// nothing over the network.
//
//	Dataset   files, degrees or, in a typed graph, relations, classes, splits
//	Samples   hotness, the sizes of batches, node types
//	Pack      levels on disk, rows served by caches and read from disk, the sizes of chunks, node types
//
// It reads metadata, tables and lists of nodes only, and no row.
package inspection

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"diskgnn/internal/budget"
	"diskgnn/internal/chart"
	"diskgnn/internal/stage"
	"diskgnn/internal/units"
)

//go:embed page.html
var pageText string

var pageTemplate = chart.Template(pageText)

// Page is a page about a directory: text and charts. Its JSON has the data of the charts.
type Page struct {
	Title    string         `json:"title"`
	Sentence string         `json:"sentence"`
	Figures  []chart.Figure `json:"figures"`
}

// Write writes the page as HTML.
func (p *Page) Write(w io.Writer) error {
	return pageTemplate.Execute(w, struct {
		Style, Things template.CSS
		*Page
	}{chart.Style(), chart.Things(), p})
}

// files draws the bytes of a directory by kind of file, from meta.json.
func files(meta *stage.Meta, kinds []kind) chart.Figure {
	f := chart.Figure{ID: "files", Title: "On disk", X: "file", Unit: "bytes"}
	data := chart.Data{Name: "bytes"}
	var parts []chart.Part
	total, left := int64(0), int64(0)
	for _, m := range meta.Files {
		total += m.Size
		left += m.Size
	}
	add := func(name, class string, n int64) {
		if n == 0 {
			return
		}
		text := name + ": " + budget.FormatBytes(n)
		parts = append(parts, chart.Part{Class: class, Value: float64(n), Tell: text})
		f.Legend = append(f.Legend, chart.Key{Class: class, Name: text})
		data.Add(name, float64(n))
	}
	for _, k := range kinds {
		n := int64(0)
		for _, m := range meta.Files {
			if k.has(m.Name) {
				n += m.Size
			}
		}
		add(k.name, k.class, n)
		left -= n
	}
	add("checksums and other files", "rest", left)
	f.Series = []chart.Data{data}
	f.Charts = []template.HTML{chart.Bars("bytes on disk by file", 0, []chart.Bar{
		{Name: "the directory", Says: budget.FormatBytes(total), Bars: [][]chart.Part{parts}}})}
	return f
}

// kind is a group of files with one colour in the chart.
type kind struct {
	name, class string
	has         func(file string) bool
}

func named(names ...string) func(string) bool {
	return func(file string) bool {
		for _, n := range names {
			if file == n {
				return true
			}
		}
		return false
	}
}

// Level is one level of a pack: its name, and its rows and bytes on disk.
type Level struct {
	Name        string // hot, ssd, cold, evaluation, graphs or index
	Rows, Bytes int64
}

// Layout draws a pack's levels beside the features, the bytes of the dataset's feature table.
func Layout(levels []Level, features int64) chart.Figure {
	f := chart.Figure{ID: "layout", Title: "The pack's layout", X: "level", Unit: "bytes"}
	data := chart.Data{Name: "on disk"}
	var parts []chart.Part
	total := int64(0)
	for _, l := range levels {
		if l.Bytes <= 0 {
			continue
		}
		class, name := levelClass(l.Name)
		text := name + ": " + budget.FormatBytes(l.Bytes)
		if l.Rows > 0 {
			text += ", " + units.Of(l.Rows, "row")
		}
		parts = append(parts, chart.Part{Class: class, Value: float64(l.Bytes), Tell: text})
		f.Legend = append(f.Legend, chart.Key{Class: class, Name: text})
		data.Add(l.Name, float64(l.Bytes))
		total += l.Bytes
	}
	says := budget.FormatBytes(total)
	if features > 0 {
		says += fmt.Sprintf(", %.2f times the features", float64(total)/float64(features))
	}
	data.Add("features", float64(features))
	f.Series = []chart.Data{data}
	f.Charts = []template.HTML{chart.Bars("the pack's levels, by bytes", 0, []chart.Bar{
		{Name: "the pack", Says: says, Bars: [][]chart.Part{parts}},
		{Name: "the features of all nodes", Says: budget.FormatBytes(features), Bars: [][]chart.Part{{{Class: "rest", Value: float64(features), Tell: "the features that it was made of"}}}},
	})}
	return f
}

// levelClass returns the class of the style sheet for a level of a pack, and the level's name for people.
func levelClass(level string) (class, name string) {
	switch level {
	case "hot":
		return "ram", "hot rows"
	case "ssd":
		return "shared", "shared rows"
	case "cold":
		return "disk", "cold rows"
	case "evaluation":
		return "valid", "rows for evaluation"
	case "graphs":
		return "graphs", "graphs"
	}
	return "rest", level
}

// mostPoints is the largest number of points of a line.
const mostPoints = 400

// largest divides the values into at most mostPoints groups of adjacent ones. It returns the index of the
// first value and the largest value of each group.
func largest(values []float64) (at, most []float64) {
	size := max(1, (len(values)+mostPoints-1)/mostPoints)
	for lo := 0; lo < len(values); lo += size {
		top := values[lo]
		for _, v := range values[lo:min(lo+size, len(values))] {
			top = max(top, v)
		}
		at, most = append(at, float64(lo)), append(most, top)
	}
	return at, most
}

func plain(v float64) string { return fmt.Sprintf("%.6g", v) }

func percent(v float64) string { return fmt.Sprintf("%.6g\u00a0%%", v) }

func share(part, whole int64) float64 { return 100 * float64(part) / float64(max(whole, 1)) }
