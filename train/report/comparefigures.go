package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"

	"diskgnn/internal/chart"
	"diskgnn/internal/units"
	"diskgnn/train/rundir"
)

// overlay draws several runs in one figure.
type overlay struct {
	runs  []*Run
	names []string // by run
}

// runClass is the colour of a run's lines.
func runClass(i int) string { return fmt.Sprintf("run%d", i+1) }

func (c *overlay) figures() []Figure {
	var list []Figure
	for _, f := range []Figure{
		c.lines("score", "Validation", "score", "epoch", func(e *rundir.Epoch) float64 { return value(e.ValidAccuracy) }, true),
		c.lines("loss", "Loss, in training", "loss", "epoch", func(e *rundir.Epoch) float64 { return value(e.Loss) }, false),
		c.scoreOverTime(), c.stages(), c.bytes(),
	} {
		if len(f.Series) > 0 {
			list = append(list, f)
		}
	}
	return list
}

// lines draws a value of the epochs of all runs.
func (c *overlay) lines(id, title, unit, x string, value func(*rundir.Epoch) float64, zoom bool) Figure {
	f := Figure{ID: id, Title: title, X: x, Unit: unit}
	var curves []chart.Curve
	for i, r := range c.runs {
		g := groupEpochs(r.Epochs, mostPoints)
		values := g.means(value)
		c.add(&f, i, g.at, values, &curves)
	}
	return c.draw(f, curves, x, zoom)
}

// add adds a run's line, if it has points.
func (c *overlay) add(f *Figure, i int, x, y []float64, curves *[]chart.Curve) {
	if !slices.ContainsFunc(y, chart.Finite) {
		return
	}
	f.Series = append(f.Series, series(c.names[i], x, y))
	f.Legend = append(f.Legend, chart.Key{Class: runClass(i), Name: c.names[i]})
	*curves = append(*curves, chart.Curve{Class: runClass(i), X: x, Y: y})
}

func (c *overlay) draw(f Figure, curves []chart.Curve, below string, zoom bool) Figure {
	if len(curves) == 0 {
		return f
	}
	if zoom {
		lists := make([][]float64, len(curves))
		for i := range curves {
			lists[i] = curves[i].Y
		}
		if from, cut := plateau(lists...); cut {
			f.Note = "The axis shows the later epochs; scores of the first lie below it."
			for i := range curves {
				curves[i].X, curves[i].Y = chart.CutOff(curves[i].X, curves[i].Y, from)
			}
		}
	}
	y := plain
	if zoom {
		y = c.runs[0].tick
	}
	f.Charts = []template.HTML{chart.Curves(f.Title, below, false, curves, plain, y)}
	return f
}

// scoreOverTime draws validation scores by the time that training and validating took until then.
func (c *overlay) scoreOverTime() Figure {
	f := Figure{ID: "time", Title: "Validation, by time", X: "seconds", Unit: "score"}
	var curves []chart.Curve
	for i, r := range c.runs {
		var x, y []float64
		at := 0.0
		for k := range r.Epochs {
			e := &r.Epochs[k]
			if at += e.Seconds + e.ValidSeconds; chart.Finite(at) && e.ValidAccuracy.Defined() {
				x, y = append(x, at), append(y, value(e.ValidAccuracy))
			}
		}
		x, y = thin(x, y)
		c.add(&f, i, x, y, &curves)
	}
	return c.draw(f, curves, "seconds", true)
}

// thin drops points beyond mostPoints, evenly; the last one stays.
func thin(x, y []float64) (fewX, fewY []float64) {
	step := max(1, (len(x)+mostPoints-1)/mostPoints)
	for i := range x {
		if (len(x)-1-i)%step == 0 {
			fewX, fewY = append(fewX, x[i]), append(fewY, y[i])
		}
	}
	return fewX, fewY
}

// stages draws an epoch's seconds, and below them each link's seconds alone.
func (c *overlay) stages() Figure {
	f := Figure{ID: "stages", Title: "An epoch, and its stages by themselves", X: "of", Unit: "seconds", Legend: []chart.Key{{Class: "rest", Name: "an epoch"}}}
	var bars []chart.Bar
	named := map[string]bool{}
	for i, r := range c.runs {
		seconds, links := r.steady()
		if len(links) == 0 || !chart.Finite(seconds) {
			continue
		}
		s := chart.Data{Name: c.names[i], Names: []string{"an epoch"}, Values: []float64{seconds}}
		bar := chart.Bar{Name: c.names[i], Says: units.Seconds(seconds), Bars: [][]chart.Part{{{Class: "rest", Value: seconds, Tell: "an epoch: " + units.Seconds(seconds)}}}}
		for _, l := range links {
			alone := l.Alone()
			if !chart.Finite(alone) || alone < seconds/100 {
				continue
			}
			class := r.stage(l.Link).class
			bar.Bars = append(bar.Bars, []chart.Part{{Class: class, Value: alone, Tell: l.Link + ": " + units.Seconds(alone)}})
			s.Add(l.Link, alone)
			if !named[l.Link] {
				named[l.Link] = true
				f.Legend = withLink(f.Legend, chart.Key{Class: class, Name: l.Link})
			}
		}
		f.Series, bars = append(f.Series, s), append(bars, bar)
	}
	if 1+len(named) > len(f.Legend) { // the legend has the epoch, too
		f.Note = "Stages of one device have one colour, and stand below each other in the order of their names."
	}
	f.Charts = []template.HTML{chart.Bars("seconds of an epoch, and of its stages, by run", 0, bars)}
	return f
}

// withLink adds a link to a legend: to the entry of its colour, if there is one.
func withLink(legend []chart.Key, k chart.Key) []chart.Key {
	for i := range legend {
		if legend[i].Class == k.Class {
			legend[i].Name += ", " + k.Name
			return legend
		}
	}
	return append(legend, k)
}

// bytes draws the sources of an epoch's bytes.
func (c *overlay) bytes() Figure {
	f := Figure{ID: "bytes", Title: "Bytes of an epoch", X: "level", Unit: "bytes"}
	var bars []chart.Bar
	named := map[string]bool{}
	for i, r := range c.runs {
		if len(r.Epochs) == 0 {
			continue
		}
		s, bar, read := chart.Data{Name: c.names[i]}, chart.Bar{Name: c.names[i], Bars: [][]chart.Part{nil}}, 0.0
		names := r.levelNames()
		for k, l := range slices.Backward(r.Epochs[0].Levels()) {
			v := r.mean(func(e *rundir.Epoch) float64 { return float64(e.Levels()[k].Bytes) })
			if !chart.Finite(v) || v <= 0 {
				continue
			}
			if k > 1 {
				read += v
			}
			key := names[l.Level]
			bar.Bars[0] = append(bar.Bars[0], chart.Part{Class: key.Class, Value: v, Tell: key.Name + ": " + size(v)})
			s.Add(l.Level, math.Round(v))
			if !named[l.Level] {
				named[l.Level] = true
				f.Legend = append(f.Legend, key)
			}
		}
		bar.Says = size(read) + " read"
		f.Series, bars = append(f.Series, s), append(bars, bar)
	}
	f.Charts = []template.HTML{chart.Bars("bytes of an epoch by level and run", 0, bars)}
	return f
}
