// Package chart draws charts for self-contained pages, as SVG. The classes of one style sheet have the
// colours, light or dark; the text is legible at the width of a telephone. A page has the style sheet
// and the charts inline, runs no scripts and loads nothing over the network.
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

// Template parses the template of a page. It can draw a list of Figure by {{template "figures" .}}. It
// panics if the text is no template, since pages are constants of the program.
func Template(text string) *template.Template {
	return template.Must(template.Must(template.New("page").Parse(figures)).Parse(text))
}

// ByteUnit returns the binary unit, in bytes, for values up to most bytes, and its name.
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

// Style returns the style sheet of a page. It has the colours, light and dark, of the classes of charts:
// c1 to c4 and pale.
func Style() template.CSS { return template.CSS(style) } // ours

// Palette returns further styles for a page with more series: classes c5 to c8, legends of dashed lines,
// and wide tables with a fixed first column. A page adds them to Style.
func Palette() template.CSS { return template.CSS(palette) } // ours

// Things returns further styles, which colour by item: disk, shared (rows of the SSD level), ram, gpu,
// graphs, compute, train and valid; plain for the reference of a comparison, and rest for the remainder.
// A page adds them to Style.
func Things() template.CSS { return template.CSS(things) } // ours

// Figure is one chart, or several below each other, with their data.
type Figure struct {
	ID     string `json:"id"` // the id of its element is "figure-" + ID
	Title  string `json:"title"`
	X      string `json:"x,omitempty"` // the quantity of X, or the items of Names, in the series
	Unit   string `json:"unit"`        // of the values
	Series []Data `json:"series"`
	Note   string `json:"note,omitempty"`

	Legend []Key           `json:"-"`
	Charts []template.HTML `json:"-"`
}

// Data has the values of a line at X, or of bars with Names.
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

// Numbers are values; those that are not Finite are unknown, and null in JSON.
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

// Key is an entry of a legend: a class of the style sheet and its meaning.
type Key struct{ Class, Name string }
