package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"diskgnn/internal/budget"
	"diskgnn/internal/chart"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// Figure is a figure of a page, with its values as data.
type Figure = chart.Figure

// A plot shows at most this number of points of a line, or bars: beyond, each is the mean of
// several epochs.
const (
	mostPoints = 400
	mostBars   = 60
)

// series returns a line's data.
func series(name string, x, values []float64) chart.Data {
	return chart.Data{Name: name, X: x, Values: values}
}

// groups are runs of adjacent epochs that are drawn as one.
type groups struct {
	size int       // epochs in each; the last may have fewer
	at   []float64 // their middles
	of   [][]rundir.Epoch
}

func groupEpochs(epochs []rundir.Epoch, most int) groups {
	g := groups{size: max(1, (len(epochs)+most-1)/most)}
	for lo := 0; lo < len(epochs); lo += g.size {
		part := epochs[lo:min(lo+g.size, len(epochs))]
		g.of = append(g.of, part)
		g.at = append(g.at, float64(part[0].Epoch+part[len(part)-1].Epoch)/2)
	}
	return g
}

// means returns the mean of each group's defined values; NaN for none.
func (g *groups) means(value func(*rundir.Epoch) float64) []float64 {
	list := make([]float64, len(g.of))
	for i, part := range g.of {
		sum, n := 0.0, 0.0
		for k := range part {
			if v := value(&part[k]); chart.Finite(v) {
				sum, n = sum+v, n+1
			}
		}
		list[i] = sum / n
	}
	return list
}

// note explains a point or a bar that stands for several epochs.
func (g *groups) note(what string) string {
	if g.size == 1 {
		return ""
	}
	return fmt.Sprintf("Each %s is the mean of %d epochs.", what, g.size)
}

// label names a group.
func (g *groups) label(i int) string {
	part := g.of[i]
	if first, last := part[0].Epoch, part[len(part)-1].Epoch; first != last {
		return fmt.Sprintf("epochs %d to %d", first, last)
	}
	return fmt.Sprintf("epoch %d", part[0].Epoch)
}

// span returns the epochs at the edges of a plot of points.
func (r *Run) span() (first, last float64) {
	first, last = float64(r.Epochs[0].Epoch), float64(r.Epochs[len(r.Epochs)-1].Epoch)
	if first == last {
		return first - 0.5, last + 0.5
	}
	return first, last
}

// barSpan returns the epochs at the edges of a plot of bars.
func (r *Run) barSpan() (first, last float64) {
	return float64(r.Epochs[0].Epoch) - 0.5, float64(r.Epochs[len(r.Epochs)-1].Epoch) + 0.5
}

// value returns a number that may be undefined: then it is NaN.
func value(v score.Score) float64 { return float64(v) }

// Scores rise steeply at first and little later on. If the later ones lie within this share of all,
// the axis shows these.
const plateauShare = 0.4

// plateau returns the start of the axis of scores, and whether it leaves some of them out: scores
// of the first third of the epochs may lie below it.
func plateau(lists ...[]float64) (from float64, cut bool) {
	lo, tail, hi := math.Inf(1), math.Inf(1), math.Inf(-1)
	for _, l := range lists {
		for i, v := range l {
			if !chart.Finite(v) {
				continue
			}
			lo, hi = min(lo, v), max(hi, v)
			if 3*i >= len(l) && len(l) >= 6 {
				tail = min(tail, v)
			}
		}
	}
	if !chart.Finite(tail) || hi-tail >= plateauShare*(hi-lo) {
		return lo, false
	}
	from = tail - (hi-tail)/4
	return max(from, lo), from > lo
}

// curve draws one value of the epochs in f, below its title, with this number of ticks, from zero
// if fromZero.
func (r *Run) curve(f Figure, height float64, fromZero bool, ticks int, name string, of func(*rundir.Epoch) score.Score) Figure {
	g := groupEpochs(r.Epochs, mostPoints)
	first, last := r.span()
	values := g.means(func(e *rundir.Epoch) float64 { return value(of(e)) })
	c := chart.NewPlot(strings.ToLower(f.Title)+" over epochs", height, first, last, chart.NewScale(fromZero, ticks, values), plain)
	c.Curve(g.at, chart.Series{Class: "train", Values: values})
	f.X, f.Series, f.Legend = "epoch", []chart.Data{series(name, g.at, values)}, []chart.Key{{Class: "train", Name: name}}
	f.Charts, f.Note = []template.HTML{c.SVG()}, g.note("point")
	return f
}

// join joins the sentences that are not empty.
func join(sentences []string) string {
	return strings.Join(slices.DeleteFunc(sentences, func(s string) bool { return s == "" }), " ")
}

// tell describes the parts of a bar.
func tell(label string, parts []chart.Series, i int, format func(float64) string) string {
	var b strings.Builder
	b.WriteString(label)
	separator := ": "
	for _, p := range parts {
		if v := p.Values[i]; chart.Finite(v) {
			fmt.Fprintf(&b, "%s%s %s", separator, p.Name, format(v))
			separator = ", "
		}
	}
	return b.String()
}

func size(v float64) string { return budget.FormatBytes(int64(v)) }
