package chart

import (
	"fmt"
	"html"
	"html/template"
	"strings"
)

// Bar is an item in a chart of bars: a line with its name and, at the other end, a note; below it its
// bars, each with its parts end to end.
type Bar struct {
	Name, Says string
	Bars       [][]Part
}

// Part is a part of a bar. Tell is shown when the pointer is over it.
type Part struct {
	Class string
	Value float64
	Tell  string
}

// Heights of a line of text, of a bar that is alone and of one among others, and the gaps between
// bars and between items, in units of the viewBox.
const (
	barText           = 18.0
	barAlone, barMany = 12.0, 7.0
	barGap, thingGap  = 2.0, 8.0
	leastWidth        = 1.0 // of a part, so that it is visible
)

// Bars draws bars on one scale. It ends at the value to or, if that is 0, at the longest bar or the
// farthest mark. A mark is a line across the bars at its value. The label is the text for screen readers.
func Bars(label string, to float64, list []Bar, marks ...Part) template.HTML {
	if to <= 0 {
		to = longest(list, marks)
	}
	height := 0.0
	for _, t := range list {
		height += t.height()
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %s %s" role="img" aria-label="%s">`+"\n", num(chartWidth), num(height), html.EscapeString(label))
	y := 0.0
	for _, t := range list {
		fmt.Fprintf(&b, `<text class="start name" x="0" y="%s">%s</text><text class="end" x="%s" y="%s">%s</text>`+"\n",
			num(y+barText-5), html.EscapeString(t.Name), num(chartWidth), num(y+barText-5), html.EscapeString(t.Says))
		at := y + barText
		for _, parts := range t.Bars {
			x := 0.0
			for _, p := range parts {
				if !Finite(p.Value) || p.Value <= 0 {
					continue
				}
				w := max(chartWidth*p.Value/to, leastWidth)
				fmt.Fprintf(&b, `<rect class="%s" x="%s" y="%s" width="%s" height="%s"><title>%s</title></rect>`+"\n",
					p.Class, num(x), num(at), num(w), num(t.thick()), html.EscapeString(p.Tell))
				x += w
			}
			at += t.thick() + barGap
		}
		for _, m := range marks {
			if !Finite(m.Value) || m.Value <= 0 {
				continue
			}
			x := num(min(chartWidth*m.Value/to, chartWidth-1))
			fmt.Fprintf(&b, `<line class="line %s" x1="%s" y1="%s" x2="%s" y2="%s"><title>%s</title></line>`+"\n",
				m.Class, x, num(y+barText-1), x, num(at), html.EscapeString(m.Tell))
		}
		y += t.height()
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // all text in it went through EscapeString
}

func (t *Bar) thick() float64 {
	if len(t.Bars) > 1 {
		return barMany
	}
	return barAlone
}

func (t *Bar) height() float64 {
	return barText + float64(len(t.Bars))*(t.thick()+barGap) + thingGap
}

// longest returns the length of the longest bar, or of the farthest mark, or 1 without any.
func longest(list []Bar, marks []Part) float64 {
	most := 0.0
	for _, t := range list {
		for _, parts := range t.Bars {
			sum := 0.0
			for _, p := range parts {
				if Finite(p.Value) && p.Value > 0 {
					sum += p.Value
				}
			}
			most = max(most, sum)
		}
	}
	for _, m := range marks {
		if Finite(m.Value) {
			most = max(most, m.Value)
		}
	}
	if most == 0 {
		return 1
	}
	return most
}

// Curve is a line through points.
type Curve struct {
	Class string // may have "dashed"
	X, Y  []float64
}

// Mark is a single point. Tell is shown when the pointer is over it.
type Mark struct {
	Class        string
	X, Y, Radius float64
	Tell         string
}

// Curves draws lines, and marks on top of them. The horizontal axis begins at zero and has the name
// below; the vertical axis begins at zero if fromZero is set. x and y format the values of the axes. The
// label is the text for screen readers.
func Curves(label, below string, fromZero bool, list []Curve, x, y func(float64) string, marks ...Mark) template.HTML {
	var xs, ys [][]float64
	for _, l := range list {
		xs, ys = append(xs, l.X), append(ys, l.Y)
	}
	for _, m := range marks {
		xs, ys = append(xs, []float64{m.X}), append(ys, []float64{m.Y})
	}
	across := NewScale(true, 6, xs...)
	c := &Plot{top: marginTop, height: 200, first: across.lo, last: across.hi, y: NewScale(fromZero, 5, ys...)}
	c.begin(label, marginBot, y)
	bottom := c.top + c.height
	for _, v := range across.ticks {
		c.line("tick", c.px(v), bottom, c.px(v), bottom+4)
		if anchor := c.px(v); anchor > chartWidth-marginR-1 { // no space for half of the label
			c.text("end", chartWidth, bottom+17, x(v))
		} else {
			c.text("middle", anchor, bottom+17, x(v))
		}
	}
	c.line("axis", marginL, bottom, chartWidth-marginR, bottom)
	c.text("middle", marginL+plotWidth/2, bottom+32, below)
	for _, l := range list {
		c.Curve(l.X, Series{Class: l.Class, Values: l.Y})
	}
	for _, m := range marks {
		if Finite(m.X) && Finite(m.Y) {
			fmt.Fprintf(&c.b, `<circle class="%s" cx="%s" cy="%s" r="%s"><title>%s</title></circle>`+"\n",
				m.Class, num(c.px(m.X)), num(c.py(m.Y)), num(m.Radius), html.EscapeString(m.Tell))
		}
	}
	return c.SVG()
}
