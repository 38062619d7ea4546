package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

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
			if v := value(&part[k]); finite(v) {
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
func (r *Run) figures() []Figure {
	if len(r.Epochs) == 0 {
		return nil
	}
	var list []Figure
	if r.Setup.Engine != "none" {
		list = append(list, r.lossFigure(), r.scoreFigure())
		if r.rateVaries() {
			list = append(list, r.learningRateFigure())
		}
	}
	return append(list, r.linkFigure(), r.bytesFigure(), r.rateFigure())
}

func (r *Run) lossFigure() Figure {
	g := groupEpochs(r.Epochs, mostPoints)
	first, last := r.span()
	loss := g.means(func(e *rundir.Epoch) float64 { return value(e.Loss) })
	c := newChart("loss over epochs", 180, first, last, newScale(false, 5, loss), plain)
	c.curve(g.at, series{class: "c1", values: loss})
	return Figure{Title: "Loss", Charts: []template.HTML{c.svg()}, Note: g.note("point"), Legend: []Key{{"c1", "training, dropout included"}}}
}

func (r *Run) scoreFigure() Figure {
	g := groupEpochs(r.Epochs, mostPoints)
	first, last := r.span()
	train := g.means(func(e *rundir.Epoch) float64 { return value(e.TrainAccuracy) })
	valid := g.means(func(e *rundir.Epoch) float64 { return value(e.ValidAccuracy) })
	f := Figure{Title: capital(r.metric()), Note: g.note("point"), Legend: []Key{{"c2", "training, dropout included"}}}
	best := r.best()
	var top []float64
	if best >= 0 {
		top = []float64{value(r.Epochs[best].ValidAccuracy)}
	}
	c := newChart(r.metric()+" over epochs", 180, first, last, newScale(false, 5, train, valid, top), r.tick)
	if best >= 0 {
		at := float64(r.Epochs[best].Epoch)
		c.line("best", c.px(at), c.top, c.px(at), c.top+c.height)
		f.Legend = append(f.Legend, Key{"c1", "validation"}, Key{"ring", fmt.Sprintf("best: epoch %d, %s", r.Epochs[best].Epoch, r.score(r.Epochs[best].ValidAccuracy))})
	}
	c.curve(g.at, series{class: "c2", values: train})
	c.curve(g.at, series{class: "c1", values: valid})
	if best >= 0 && finite(top[0]) {
		c.dot("ring", float64(r.Epochs[best].Epoch), top[0], 5)
	}
	f.Charts = []template.HTML{c.svg()}
	return f
}

// rateVaries tells whether epochs had different learning rates.
func (r *Run) rateVaries() bool {
	first := value(r.Epochs[0].LR)
	return slices.ContainsFunc(r.Epochs, func(e rundir.Epoch) bool { return math.Abs(value(e.LR)-first) > 0 })
}

func (r *Run) learningRateFigure() Figure {
	g := groupEpochs(r.Epochs, mostPoints)
	first, last := r.span()
	rates := g.means(func(e *rundir.Epoch) float64 { return value(e.LR) })
	c := newChart("learning rate over epochs", 120, first, last, newScale(true, 4, rates), plain)
	c.curve(g.at, series{class: "c1", values: rates})
	return Figure{Title: "Learning rate", Charts: []template.HTML{c.svg()}, Note: g.note("point")}
}

// linkFigure draws a panel for each link: links overlap, so each has the whole
// epoch to divide between work and waiting.
func (r *Run) linkFigure() Figure {
	f := Figure{Title: "Time in each stage", Legend: []Key{{"c1", "busy"}, {"c1 pale", "blocked: waiting for a batch or a free slot"}}}
	g := groupEpochs(r.Epochs, mostBars)
	links := r.Epochs[len(r.Epochs)-1].Links
	parts := make([][]series, len(links))
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
		parts[i] = []series{{"busy", "c1", busy}, {"blocked", "c1 pale", blocked}}
		for k := range busy {
			sums = append(sums, busy[k]+blocked[k])
		}
	}
	y := newScale(true, 2, sums)
	first, last := r.barSpan()
	for i, s := range links {
		name := s.Link
		if s.Workers > 1 {
			name += fmt.Sprintf(" (mean of %d workers)", s.Workers)
		}
		c := newPanel(name, 44, first, last, y, seconds, i == len(links)-1)
		c.stack(g.at, float64(g.size), parts[i], func(k int) string { return tell(g.label(k), parts[i], k, units.Seconds) })
		f.Charts = append(f.Charts, c.svg())
	}
	f.Note = strings.TrimSpace("Stages work at the same time: the longest solid bar is what the epoch waits for. " + g.note("bar"))
	return f
}

func (r *Run) bytesFigure() Figure {
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
	all := []series{{"cold", "c1", cold}, {"shared rows (SSD)", "c3", ssd}, {"graphs", "c2", graphs}, {"from " + r.caches() + ", not read", "c4", ram}}
	var parts []series
	f := Figure{Title: "Bytes of an epoch", Note: g.note("bar")}
	for _, p := range all {
		sum := 0.0
		for i := range p.values {
			p.values[i] /= unit
			sum += p.values[i]
		}
		if sum != 0 {
			parts = append(parts, p)
			f.Legend = append(f.Legend, Key{p.class, p.name})
		}
	}
	format := func(v float64) string { return plain(v) + " " + name }
	first, last := r.barSpan()
	c := newChart("bytes by level over epochs", 180, first, last, newScale(true, 5, []float64{most / unit}), format)
	c.stack(g.at, float64(g.size), parts, func(k int) string { return tell(g.label(k), parts, k, format) })
	f.Charts = []template.HTML{c.svg()}
	return f
}

func (r *Run) rateFigure() Figure {
	g := groupEpochs(r.Epochs, mostPoints)
	flight := g.means(func(e *rundir.Epoch) float64 { return value(e.ReadRate) / (1 << 20) })
	whole := g.means(func(e *rundir.Epoch) float64 { return float64(e.BytesRead) / (1 << 20) / e.Seconds })
	first, last := r.span()
	f := Figure{Title: "Reading, MiB/s", Note: g.note("point"), Legend: []Key{{"c1", "while a read is in flight"}, {"c3", "over the whole epoch"}}}
	lists := [][]float64{flight, whole}
	drive := r.DriveRate / (1 << 20)
	if drive > 0 {
		lists = append(lists, []float64{drive})
		f.Legend = append(f.Legend, Key{"c2", "the drive in sequence: " + units.BytesPerSecond(r.DriveRate)})
	}
	c := newChart("bytes read per second over epochs", 180, first, last, newScale(true, 5, lists...), plain)
	if drive > 0 {
		c.line("line c2 dashed", marginL, c.py(drive), chartWidth-marginR, c.py(drive))
	}
	c.curve(g.at, series{class: "c3", values: whole})
	c.curve(g.at, series{class: "c1", values: flight})
	f.Charts = []template.HTML{c.svg()}
	return f
}

// tell says what a bar consists of.
func tell(label string, parts []series, i int, format func(float64) string) string {
	var b strings.Builder
	b.WriteString(label)
	separator := ": "
	for _, p := range parts {
		if v := p.values[i]; finite(v) {
			fmt.Fprintf(&b, "%s%s %s", separator, p.name, format(v))
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
