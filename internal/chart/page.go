// Package chart draws charts for pages that stand alone: SVG whose colours are classes of one
// style sheet, light or dark, legible at the width of a telephone. A page has the style sheet
// and its pictures in it, runs no scripts and asks no network.
package chart

import (
	_ "embed"
	"html/template"
)

//go:embed style.css
var style string

//go:embed palette.css
var palette string

//go:embed things.css
var things string

// Style returns the style sheet of a page: it gives the classes of charts, c1 to c4 and pale,
// their colours, light or dark.
func Style() template.CSS { return template.CSS(style) } // ours

// Palette returns what a page adds to Style that tells more apart: classes c5 to c8, legends of
// dashed lines, and wide tables whose first column stays in view.
func Palette() template.CSS { return template.CSS(palette) } // ours

// Things returns what a page adds to Style whose colours are things: disk, shared (rows of the SSD
// level), ram, gpu, graphs, compute, train and valid; plain, what is compared with; rest, what is
// left over.
func Things() template.CSS { return template.CSS(things) } // ours

// Figure is one chart or several below each other.
type Figure struct {
	ID     string // of the element; "": it has none
	Title  string
	Legend []Key
	Charts []template.HTML
	Note   string
}

// Key is an entry of a legend: what a class of the style sheet stands for.
type Key struct{ Class, Name string }
