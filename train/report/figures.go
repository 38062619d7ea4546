package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"diskgnn/internal/chart"
	"diskgnn/internal/units"
	"diskgnn/pipeline"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// A plot shows at most so many points of a line, or bars: beyond, each is the mean of
// several epochs.
const (
	mostPoints = 400
	mostBars   = 60
)

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

// means returns the mean of each group's values that are there; NaN for none.
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

// note says what a point or a bar is, if it is not one epoch.
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

// figures returns what there is to draw.
func (r *Run) figures() []chart.Figure {
	if len(r.Epochs) == 0 {
		return nil
	}
	var list []chart.Figure
	if r.Setup.Engine != "none" {
		list = append(list, r.lossFigure(), r.scoreFigure())
		if r.rateVaries() {
			list = append(list, r.learningRateFigure())
		}
	}
	return append(list, r.linkFigure(), r.bytesFigure(), r.rateFigure())
}

func (r *Run) lossFigure() chart.Figure {
	g := groupEpochs(r.Epochs, mostPoints)
	first, last := r.span()
	loss := g.means(func(e *rundir.Epoch) float64 { return value(e.Loss) })
	c := chart.NewPlot("loss over epochs", 180, first, last, chart.NewScale(false, 5, loss), plain)
	c.Curve(g.at, chart.Series{Class: "c1", Values: loss})
	return chart.Figure{Title: "Loss", Charts: []template.HTML{c.SVG()}, Note: g.note("point"), Legend: []chart.Key{{Class: "c1", Name: "training, dropout included"}}}
}

func (r *Run) scoreFigure() chart.Figure {
	g := groupEpochs(r.Epochs, mostPoints)
	first, last := r.span()
	train := g.means(func(e *rundir.Epoch) float64 { return value(e.TrainAccuracy) })
	valid := g.means(func(e *rundir.Epoch) float64 { return value(e.ValidAccuracy) })
	f := chart.Figure{Title: capital(r.metric()), Note: g.note("point"), Legend: []chart.Key{{Class: "c2", Name: "training, dropout included"}}}
	best := r.best()
	var top []float64
	if best >= 0 {
		top = []float64{value(r.Epochs[best].ValidAccuracy)}
	}
	c := chart.NewPlot(r.metric()+" over epochs", 180, first, last, chart.NewScale(false, 5, train, valid, top), r.tick)
	if best >= 0 {
		at := float64(r.Epochs[best].Epoch)
		c.Upright("best", at)
		f.Legend = append(f.Legend, chart.Key{Class: "c1", Name: "validation"}, chart.Key{Class: "ring", Name: fmt.Sprintf("best: epoch %d, %s", r.Epochs[best].Epoch, r.score(r.Epochs[best].ValidAccuracy))})
	}
	c.Curve(g.at, chart.Series{Class: "c2", Values: train})
	c.Curve(g.at, chart.Series{Class: "c1", Values: valid})
	if best >= 0 && chart.Finite(top[0]) {
		c.Dot("ring", float64(r.Epochs[best].Epoch), top[0], 5)
	}
	f.Charts = []template.HTML{c.SVG()}
	return f
}

// rateVaries tells whether epochs had different learning rates.
func (r *Run) rateVaries() bool {
	first := value(r.Epochs[0].LR)
	return slices.ContainsFunc(r.Epochs, func(e rundir.Epoch) bool { return math.Abs(value(e.LR)-first) > 0 })
}

func (r *Run) learningRateFigure() chart.Figure {
	g := groupEpochs(r.Epochs, mostPoints)
	first, last := r.span()
	rates := g.means(func(e *rundir.Epoch) float64 { return value(e.LR) })
	c := chart.NewPlot("learning rate over epochs", 120, first, last, chart.NewScale(true, 4, rates), plain)
	c.Curve(g.at, chart.Series{Class: "c1", Values: rates})
	return chart.Figure{Title: "Learning rate", Charts: []template.HTML{c.SVG()}, Note: g.note("point")}
}

// linkFigure draws a panel for each link: links overlap, so each has the whole
// epoch to divide between work and waiting.
func (r *Run) linkFigure() chart.Figure {
	f := chart.Figure{Title: "Time in each stage", Legend: []chart.Key{{Class: "c1", Name: "busy"}, {Class: "c1 pale", Name: "blocked: waiting for a batch or a free slot"}}}
	g := groupEpochs(r.Epochs, mostBars)
	links := r.Epochs[len(r.Epochs)-1].Links
	parts := make([][]chart.Series, len(links))
	var sums []float64
	for i, s := range links {
		of := func(seconds func(*pipeline.LinkTime) float64) []float64 {
			return g.means(func(e *rundir.Epoch) float64 {
				k := slices.IndexFunc(e.Links, func(t pipeline.LinkTime) bool { return t.Link == s.Link })
				if k < 0 {
					return math.NaN()
				}
				return seconds(&e.Links[k]) / float64(e.Links[k].Workers)
			})
		}
		busy := of(func(t *pipeline.LinkTime) float64 { return t.Busy })
		blocked := of(func(t *pipeline.LinkTime) float64 { return t.Blocked })
		parts[i] = []chart.Series{{Name: "busy", Class: "c1", Values: busy}, {Name: "blocked", Class: "c1 pale", Values: blocked}}
		for k := range busy {
			sums = append(sums, busy[k]+blocked[k])
		}
	}
	y := chart.NewScale(true, 2, sums)
	first, last := r.barSpan()
	for i, s := range links {
		name := s.Link
		if s.Workers > 1 {
			name += fmt.Sprintf(" (mean of %d workers)", s.Workers)
		}
		c := chart.NewPanel(name, 44, first, last, y, seconds, i == len(links)-1)
		c.Stack(g.at, float64(g.size), parts[i], func(k int) string { return tell(g.label(k), parts[i], k, units.Seconds) })
		f.Charts = append(f.Charts, c.SVG())
	}
	f.Note = strings.TrimSpace("Stages work at the same time: the longest solid bar is what the epoch waits for. " + g.note("bar"))
	return f
}

func (r *Run) bytesFigure() chart.Figure {
	g := groupEpochs(r.Epochs, mostBars)
	cold := g.means(func(e *rundir.Epoch) float64 { return float64(e.BytesRead - e.SSDBytesRead - e.GraphBytesRead) })
	ssd := g.means(func(e *rundir.Epoch) float64 { return float64(e.SSDBytesRead) })
	graphs := g.means(func(e *rundir.Epoch) float64 { return float64(e.GraphBytesRead) })
	ram := g.means(func(e *rundir.Epoch) float64 { return float64(e.RAMBytes) })
	most := 0.0
	for i := range cold {
		most = max(most, cold[i]+ssd[i]+graphs[i]+ram[i])
	}
	unit, name := byteUnit(most)
	all := []chart.Series{{Name: "cold", Class: "c1", Values: cold}, {Name: "shared rows (SSD)", Class: "c3", Values: ssd}, {Name: "graphs", Class: "c2", Values: graphs}, {Name: "from " + r.caches() + ", not read", Class: "c4", Values: ram}}
	var parts []chart.Series
	f := chart.Figure{Title: "Bytes of an epoch", Note: g.note("bar")}
	for _, p := range all {
		sum := 0.0
		for i := range p.Values {
			p.Values[i] /= unit
			sum += p.Values[i]
		}
		if sum != 0 {
			parts = append(parts, p)
			f.Legend = append(f.Legend, chart.Key{Class: p.Class, Name: p.Name})
		}
	}
	format := func(v float64) string { return plain(v) + " " + name }
	first, last := r.barSpan()
	c := chart.NewPlot("bytes by level over epochs", 180, first, last, chart.NewScale(true, 5, []float64{most / unit}), format)
	c.Stack(g.at, float64(g.size), parts, func(k int) string { return tell(g.label(k), parts, k, format) })
	f.Charts = []template.HTML{c.SVG()}
	return f
}

func (r *Run) rateFigure() chart.Figure {
	g := groupEpochs(r.Epochs, mostPoints)
	flight := g.means(func(e *rundir.Epoch) float64 { return value(e.ReadRate) / (1 << 20) })
	whole := g.means(func(e *rundir.Epoch) float64 { return float64(e.BytesRead) / (1 << 20) / e.Seconds })
	first, last := r.span()
	f := chart.Figure{Title: "Reading, MiB/s", Note: g.note("point"), Legend: []chart.Key{{Class: "c1", Name: "while a read is in flight"}, {Class: "c3", Name: "over the whole epoch"}}}
	lists := [][]float64{flight, whole}
	drive := r.DriveRate / (1 << 20)
	if drive > 0 {
		lists = append(lists, []float64{drive})
		f.Legend = append(f.Legend, chart.Key{Class: "c2", Name: "the drive in sequence: " + units.BytesPerSecond(r.DriveRate)})
	}
	c := chart.NewPlot("bytes read per second over epochs", 180, first, last, chart.NewScale(true, 5, lists...), plain)
	if drive > 0 {
		c.Across("line c2 dashed", drive)
	}
	c.Curve(g.at, chart.Series{Class: "c3", Values: whole})
	c.Curve(g.at, chart.Series{Class: "c1", Values: flight})
	f.Charts = []template.HTML{c.SVG()}
	return f
}

// tell says what a bar consists of.
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

func byteUnit(most float64) (unit float64, name string) {
	unit, name = 1, "B"
	for _, n := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if most < 1024*unit {
			break
		}
		unit, name = 1024*unit, n
	}
	return unit, name
}
