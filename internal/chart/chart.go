package chart

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// Size and margins of a chart, in units of its viewBox. Its width is a telephone's, so that text stays
// legible on a narrow page.
const (
	chartWidth           = 460.0
	marginL, marginR     = 62.0, 14.0
	marginTop, marginBot = 8.0, 36.0
	marginBare           = 10.0 // in place of marginBot, if the next chart has the axis
	nameHeight           = 16.0
	plotWidth            = chartWidth - marginL - marginR
)

// Plot is a chart over an axis of epochs. Colours are classes of the style sheet, see Style. Later drawings
// lie above earlier ones. A Plot is not safe for concurrent use.
type Plot struct {
	b      strings.Builder
	top    float64 // of the plot
	height float64
	first  float64 // epoch at the left edge
	last   float64 // epoch at the right edge
	y      Scale
}

// Series is a line, or a part of every bar: one value per point, NaN for a missing value.
type Series struct {
	Name   string
	Class  string
	Values []float64
}

// Scale maps values to a plot's height, or to its width.
type Scale struct {
	lo, hi float64
	ticks  []float64
}

// NewScale returns a scale with about most round ticks that covers all finite values of the lists, and
// zero if fromZero is set.
func NewScale(fromZero bool, most int, lists ...[]float64) Scale {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, l := range lists {
		for _, v := range l {
			if Finite(v) {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
	}
	if math.IsInf(lo, 0) {
		lo, hi = 0, 1
	}
	if fromZero {
		lo, hi = 0, max(hi, 0)
	}
	if hi-lo <= 1e-9*max(math.Abs(lo), math.Abs(hi), 1e-9) {
		pad := math.Abs(lo) / 10
		if pad < 1e-9 {
			pad = 1
		}
		if !fromZero {
			lo -= pad
		}
		hi += pad
	}
	step := roundStep((hi-lo)/float64(most), 1, 2, 2.5, 5)
	s := Scale{lo: math.Floor(lo/step) * step, hi: math.Ceil(hi/step) * step}
	n := int(math.Round((s.hi - s.lo) / step))
	for i := range n + 1 {
		// Near zero, the sum of steps has rounding errors.
		s.ticks = append(s.ticks, math.Round((s.lo+float64(i)*step)/step)*step)
	}
	return s
}

// roundStep returns the least number of at least x that is one of the digits times a power of ten, and 0
// for 0.
func roundStep(x float64, digits ...float64) float64 {
	if x <= 0 {
		return 0
	}
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range digits {
		if m*power >= x*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// NewPlot begins a chart from epoch first to epoch last, with the grid and both axes. format formats the
// values of the vertical axis. The label is the text for screen readers.
func NewPlot(label string, height, first, last float64, y Scale, format func(float64) string) *Plot {
	c := &Plot{top: marginTop, height: height, first: first, last: last, y: y}
	c.begin(label, marginBot, format)
	c.epochs()
	return c
}

// NewPanel begins one of several charts below each other. It has its name above, and the axis of epochs
// only if it is the last one.
func NewPanel(name string, height, first, last float64, y Scale, format func(float64) string, isLast bool) *Plot {
	c := &Plot{top: nameHeight, height: height, first: first, last: last, y: y}
	below := marginBare
	if isLast {
		below = marginBot
	}
	c.begin(name, below, format)
	c.text("start name", marginL, nameHeight-5, name)
	if isLast {
		c.epochs()
	}
	return c
}

// begin draws the grid and the vertical axis.
func (c *Plot) begin(label string, below float64, format func(float64) string) {
	fmt.Fprintf(&c.b, `<svg viewBox="0 0 %s %s" role="img" aria-label="%s">`+"\n", num(chartWidth), num(c.top+c.height+below), html.EscapeString(label))
	for _, v := range c.y.ticks {
		c.line("grid", marginL, c.py(v), chartWidth-marginR, c.py(v))
		c.text("end", marginL-6, c.py(v)+4, format(v))
	}
}

func (c *Plot) px(epoch float64) float64 {
	if c.last == c.first {
		return marginL + plotWidth/2
	}
	return marginL + plotWidth*(epoch-c.first)/(c.last-c.first)
}

func (c *Plot) py(v float64) float64 {
	return c.top + c.height*(1-(v-c.y.lo)/(c.y.hi-c.y.lo))
}

// epochs draws the axis of epochs.
func (c *Plot) epochs() {
	bottom := c.top + c.height
	lo, hi := math.Ceil(c.first), math.Floor(c.last)
	step := max(1, roundStep((hi-lo)/6, 1, 2, 5))
	for e := math.Ceil(lo/step) * step; e <= hi; e += step {
		c.line("tick", c.px(e), bottom, c.px(e), bottom+4)
		c.text("middle", c.px(e), bottom+17, strconv.Itoa(int(e)))
	}
	c.line("axis", marginL, bottom, chartWidth-marginR, bottom)
	c.text("middle", marginL+plotWidth/2, bottom+32, "epoch")
}

// Curve draws a line through the points with a value. A point without a value breaks the line; a single
// point between two breaks is a dot. The part below the scale is cut off.
func (c *Plot) Curve(epochs []float64, s Series) {
	at, values := CutOff(epochs, s.Values, c.y.lo)
	for i := 0; i < len(at); i++ {
		from := i
		for i < len(at) && Finite(values[i]) {
			i++
		}
		switch {
		case i-from == 1:
			c.Dot(s.Class, at[from], values[from], 2.5)
		case i > from:
			fmt.Fprintf(&c.b, `<polyline class="line %s" points="`, s.Class)
			for k := from; k < i; k++ {
				fmt.Fprintf(&c.b, "%s,%s ", num(c.px(at[k])), num(c.py(values[k])))
			}
			c.b.WriteString("\"/>\n")
		}
	}
}

// CutOff returns the points of a line without its part below lo: points below lo get the value NaN, which
// breaks the line, and the crossings of lo are added.
func CutOff(at, values []float64, lo float64) (cutAt, cut []float64) {
	below := func(i int) bool { return Finite(values[i]) && values[i] < lo }
	for i := range values {
		if i > 0 && Finite(values[i]) && Finite(values[i-1]) && below(i) != below(i-1) {
			share := (lo - values[i-1]) / (values[i] - values[i-1])
			cutAt, cut = append(cutAt, at[i-1]+share*(at[i]-at[i-1])), append(cut, lo)
		}
		v := values[i]
		if below(i) {
			v = math.NaN()
		}
		cutAt, cut = append(cutAt, at[i]), append(cut, v)
	}
	return cutAt, cut
}

// Dot draws a point.
func (c *Plot) Dot(class string, epoch, v, radius float64) {
	fmt.Fprintf(&c.b, `<circle class="%s" cx="%s" cy="%s" r="%s"/>`+"\n", class, num(c.px(epoch)), num(c.py(v)), num(radius))
}

// Stack draws a bar at each epoch, with its parts on top of each other; the width is in epochs. tell
// returns the text of bar i, which is shown when the pointer is over it.
func (c *Plot) Stack(epochs []float64, width float64, parts []Series, tell func(i int) string) {
	w := min(0.86*width*plotWidth/(c.last-c.first), 48)
	for i, e := range epochs {
		fmt.Fprintf(&c.b, "<g><title>%s</title>", html.EscapeString(tell(i)))
		base := 0.0
		for _, p := range parts {
			v := p.Values[i]
			if !Finite(v) || v <= 0 {
				continue
			}
			top := c.py(base + v)
			fmt.Fprintf(&c.b, `<rect class="%s" x="%s" y="%s" width="%s" height="%s"/>`, p.Class, num(c.px(e)-w/2), num(top), num(w), num(c.py(base)-top))
			base += v
		}
		c.b.WriteString("</g>\n")
	}
}

// Across draws a horizontal line at a value, from edge to edge.
func (c *Plot) Across(class string, v float64) {
	c.line(class, marginL, c.py(v), chartWidth-marginR, c.py(v))
}

// Upright draws a vertical line at an epoch, from the axis to the top.
func (c *Plot) Upright(class string, epoch float64) {
	c.line(class, c.px(epoch), c.top, c.px(epoch), c.top+c.height)
}

func (c *Plot) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&c.b, `<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`+"\n", class, num(x1), num(y1), num(x2), num(y2))
}

func (c *Plot) text(anchor string, x, y float64, s string) {
	fmt.Fprintf(&c.b, `<text class="%s" x="%s" y="%s">%s</text>`+"\n", anchor, num(x), num(y), html.EscapeString(s))
}

// SVG ends the chart and returns it as an SVG element.
func (c *Plot) SVG() template.HTML {
	c.b.WriteString("</svg>")
	return template.HTML(c.b.String()) // all text in it went through EscapeString
}

func num(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// Finite reports whether a value can be drawn. Magnitudes of 1e100 and more count as infinite, so that no
// scale overflows.
func Finite(v float64) bool { return math.Abs(v) < 1e100 }
