// Package chart draws charts for self-contained pages: SVG, coloured by the classes of one style
// sheet, light or dark, and legible at the width of a telephone. A page has the style sheet and its
// pictures inline, runs no scripts and loads nothing over the network.
package chart

import (
	_ "embed"
	"encoding/json"
	"html/template"
)

//go:embed style.css
var style string

//go:embed palette.css
var palette string

//go:embed things.css
var things string

//go:embed figures.html
var figures string

// Template parses the text of a page. It may draw a list of Figure by {{template "figures" .}}.
// A text that is no template panics: pages are the program's own.
func Template(text string) *template.Template {
	return template.Must(template.Must(template.New("page").Parse(figures)).Parse(text))
}

// ByteUnit returns the unit in which a number of bytes is written, and its name.
func ByteUnit(most float64) (unit float64, name string) {
	unit, name = 1, "B"
	for _, n := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if most < 1024*unit {
			break
		}
		unit, name = 1024*unit, n
	}
	return unit, name
}

// Style returns the style sheet of a page: it gives the classes of charts, c1 to c4 and pale,
// their colours, light or dark.
func Style() template.CSS { return template.CSS(style) } // ours

// Palette returns the styles that a page with more series adds to Style: classes c5 to c8, legends
// of dashed lines, and wide tables with a first column that stays in view.
func Palette() template.CSS { return template.CSS(palette) } // ours

// Things returns the styles that a page adds to Style to colour by item: disk, shared (rows of the
// SSD level), ram, gpu, graphs, compute, train and valid; plain, the reference of a comparison;
// rest, the remainder.
func Things() template.CSS { return template.CSS(things) } // ours

// Figure is one chart or several below each other, and their data.
type Figure struct {
	ID     string `json:"id"` // its element's id is "figure-" and this
	Title  string `json:"title"`
	X      string `json:"x,omitempty"` // what the series' X, or Names, are
	Unit   string `json:"unit"`        // of the values
	Series []Data `json:"series"`
	Note   string `json:"note,omitempty"`

	Legend []Key           `json:"-"`
	Charts []template.HTML `json:"-"`
}

// Data is the values of a line at X, or of named bars.
type Data struct {
	Name   string    `json:"name"`
	X      []float64 `json:"x,omitempty"`
	Names  []string  `json:"names,omitempty"`
	Values Numbers   `json:"values"`
}

// Add adds a named value.
func (d *Data) Add(name string, value float64) {
	d.Names, d.Values = append(d.Names, name), append(d.Values, value)
}

// Numbers are values of which some may be unknown: those that are not Finite are null in JSON.
type Numbers []float64

// MarshalJSON implements json.Marshaler.
func (n Numbers) MarshalJSON() ([]byte, error) {
	b := []byte{'['}
	for i, v := range n {
		if i > 0 {
			b = append(b, ',')
		}
		if !Finite(v) {
			b = append(b, "null"...)
			continue
		}
		text, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		b = append(b, text...)
	}
	return append(b, ']'), nil
}

// Key is an entry of a legend: the meaning of a class of the style sheet.
type Key struct{ Class, Name string }
