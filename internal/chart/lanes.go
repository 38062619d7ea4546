package chart

import (
	"fmt"
	"html"
	"html/template"
	"strings"
)

// Lane is a row of a chart of times: the activities of one item.
type Lane struct {
	Name  string
	Class string
	Spans []Span
}

// Span is an interval of time. Tell is shown when the pointer is over it.
type Span struct {
	From, To float64
	Pale     bool
	Tell     string
}

const (
	laneName, laneThick, laneGap = 16.0, 14.0, 6.0
	timesBelow                   = 34.0
)

// Lanes draws lanes below each other over one axis of time, from zero to to, with the name below. format
// formats the times of the axis. The label is the text for screen readers.
func Lanes(label, below string, to float64, list []Lane, format func(float64) string) template.HTML {
	across := NewScale(true, 5, []float64{to})
	height := float64(len(list)) * (laneName + laneThick + laneGap)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %s %s" role="img" aria-label="%s">`+"\n", num(chartWidth), num(height+timesBelow), html.EscapeString(label))
	px := func(v float64) float64 { return chartWidth * min(max(v/across.hi, 0), 1) }
	for i, v := range across.ticks {
		class, x := "middle", px(v)
		switch i {
		case 0:
			class = "start"
		case len(across.ticks) - 1:
			class = "end"
		}
		fmt.Fprintf(&b, `<line class="grid" x1="%s" y1="0" x2="%s" y2="%s"/><text class="%s" x="%s" y="%s">%s</text>`+"\n",
			num(x), num(x), num(height), class, num(x), num(height+14), html.EscapeString(format(v)))
	}
	fmt.Fprintf(&b, `<text class="middle" x="%s" y="%s">%s</text>`+"\n", num(chartWidth/2), num(height+30), html.EscapeString(below))
	y := 0.0
	for _, l := range list {
		fmt.Fprintf(&b, `<text class="start name" x="0" y="%s">%s</text>`+"\n", num(y+laneName-4), html.EscapeString(l.Name))
		for _, s := range l.Spans {
			if !Finite(s.From) || !Finite(s.To) || s.To < s.From {
				continue
			}
			class, x := l.Class, px(s.From)
			if s.Pale {
				class += " pale"
			}
			fmt.Fprintf(&b, `<rect class="%s" x="%s" y="%s" width="%s" height="%s"><title>%s</title></rect>`+"\n",
				class, num(x), num(y+laneName), num(max(px(s.To)-x, 0.5)), num(laneThick), html.EscapeString(s.Tell))
		}
		y += laneName + laneThick + laneGap
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // all text in it went through EscapeString
}
