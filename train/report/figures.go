package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"

	"diskgnn/inspection"
	"diskgnn/internal/budget"
	"diskgnn/internal/chart"
	"diskgnn/internal/units"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// figures returns the figures of the run's data.
func (r *Run) figures() []Figure {
	var list []Figure
	if len(r.Epochs) > 0 {
		if r.Setup.Engine != "none" {
			list = append(list, r.scoreFigure(), r.curve(Figure{ID: "loss", Title: "Loss", Unit: "loss"}, 180, false, 5, "training, dropout included",
				func(e *rundir.Epoch) score.Score { return e.Loss }))
			if r.rateVaries() {
				list = append(list, r.curve(Figure{ID: "rate", Title: "Learning rate", Unit: "rate"}, 120, true, 4, "learning rate",
					func(e *rundir.Epoch) score.Score { return e.LR }))
			}
		}
		list = append(list, r.linkFigure())
		if r.Timeline != nil && len(r.Timeline.Spans) > 0 {
			list = append(list, r.timelineFigure())
		}
		list = append(list, r.courseFigure(), r.bytesFigure(), r.rateFigure())
	}
	for _, f := range []Figure{r.cacheFigure(), r.layoutFigure(), r.memoryFigure()} {
		if f.ID != "" {
			list = append(list, f)
		}
	}
	return list
}

func (r *Run) scoreFigure() Figure {
	g := groupEpochs(r.Epochs, mostPoints)
	first, last := r.span()
	train := g.means(func(e *rundir.Epoch) float64 { return value(e.TrainAccuracy) })
	valid := g.means(func(e *rundir.Epoch) float64 { return value(e.ValidAccuracy) })
	const trainName = "training, dropout included"
	f := Figure{ID: "score", Title: capital(r.metric()), X: "epoch", Unit: r.metric(), Series: []chart.Data{series(trainName, g.at, train)},
		Legend: []chart.Key{{Class: "train", Name: trainName}}}
	best := r.best()
	var top []float64
	if best >= 0 {
		top = []float64{value(r.Epochs[best].ValidAccuracy)}
	}
	notes := []string{g.note("point")}
	y := chart.NewScale(false, 5, train, valid, top)
	if from, cut := plateau(train, valid); cut {
		most := []float64{from}
		for _, l := range [][]float64{train, valid, top} {
			for _, v := range l {
				if chart.Finite(v) {
					most = append(most, max(v, from))
				}
			}
		}
		y = chart.NewScale(false, 5, most)
		notes = append(notes, "The axis shows the later epochs; scores of the first lie below it.")
	}
	c := chart.NewPlot(r.metric()+" over epochs", 180, first, last, y, r.tick)
	if best >= 0 {
		at := float64(r.Epochs[best].Epoch)
		c.Upright("best", at)
		f.Series = append(f.Series, series("validation", g.at, valid))
		f.Legend = append(f.Legend, chart.Key{Class: "valid", Name: "validation"})
		if chart.Finite(top[0]) {
			name := fmt.Sprintf("best: epoch %d, %s", r.Epochs[best].Epoch, r.score(r.Epochs[best].ValidAccuracy))
			f.Series = append(f.Series, series(name, []float64{at}, top))
			f.Legend = append(f.Legend, chart.Key{Class: "ring valid", Name: name})
		}
	}
	c.Curve(g.at, chart.Series{Class: "train", Values: train})
	c.Curve(g.at, chart.Series{Class: "valid", Values: valid})
	if best >= 0 && chart.Finite(top[0]) {
		c.Dot("ring valid", float64(r.Epochs[best].Epoch), top[0], 5)
	}
	f.Charts, f.Note = []template.HTML{c.SVG()}, join(notes)
	return f
}

// rateVaries reports whether epochs had different learning rates.
func (r *Run) rateVaries() bool {
	first := value(r.Epochs[0].LR)
	return slices.ContainsFunc(r.Epochs, func(e rundir.Epoch) bool { return math.Abs(value(e.LR)-first) > 0 })
}

// levelNames returns the page's names and colours of levels.
func (r *Run) levelNames() map[string]chart.Key {
	cold := "cold rows, read"
	if r.PackFacts.Policy == "" {
		cold = "rows, read"
	}
	return map[string]chart.Key{"gpu": {Class: "gpu", Name: "rows on the GPU, not read"}, "ram": {Class: "ram", Name: "rows in RAM, not read"},
		"ssd": {Class: "shared", Name: "shared rows (SSD), read"}, "cold": {Class: "disk", Name: cold}, "graphs": {Class: "graphs", Name: "graphs, read"}}
}

func (r *Run) bytesFigure() Figure {
	g := groupEpochs(r.Epochs, mostBars)
	names := r.levelNames()
	var all []chart.Series
	sums := make([]float64, len(g.of))
	for i, l := range slices.Backward(r.Epochs[0].Levels()) { // graphs lie lowest
		values := g.means(func(e *rundir.Epoch) float64 { return float64(e.Levels()[i].Bytes) })
		for k, v := range values {
			sums[k] += max(v, 0)
		}
		all = append(all, chart.Series{Name: names[l.Level].Name, Class: names[l.Level].Class, Values: values})
	}
	most := slices.Max(sums)
	unit, name := chart.ByteUnit(most)
	f := Figure{ID: "bytes", Title: "Bytes of an epoch", X: "epoch", Unit: "bytes", Note: g.note("bar")}
	var parts []chart.Series
	for _, p := range all {
		if !slices.ContainsFunc(p.Values, func(v float64) bool { return v > 0 }) {
			continue
		}
		f.Series = append(f.Series, series(p.Name, g.at, slices.Clone(p.Values)))
		f.Legend = append(f.Legend, chart.Key{Class: p.Class, Name: p.Name})
		for i := range p.Values {
			p.Values[i] /= unit
		}
		parts = append(parts, p)
	}
	format := func(v float64) string { return plain(v) + " " + name }
	precise := func(v float64) string { return fmt.Sprintf("%.4g %s", v, name) }
	first, last := r.barSpan()
	c := chart.NewPlot("bytes by level over epochs", 180, first, last, chart.NewScale(true, 5, []float64{most / unit}), format)
	c.Stack(g.at, float64(g.size), parts, func(k int) string { return tell(g.label(k), parts, k, precise) })
	f.Charts = []template.HTML{c.SVG()}
	return f
}

func (r *Run) rateFigure() Figure {
	g := groupEpochs(r.Epochs, mostPoints)
	flight := g.means(func(e *rundir.Epoch) float64 { return value(e.ReadRate) / (1 << 20) })
	whole := g.means(func(e *rundir.Epoch) float64 { return float64(e.BytesRead) / (1 << 20) / e.Seconds })
	first, last := r.span()
	const inFlight, overall = "while a read is in flight", "over the whole epoch"
	f := Figure{ID: "reading", Title: "Reading, MiB/s", X: "epoch", Unit: "MiB/s", Note: g.note("point"),
		Series: []chart.Data{series(inFlight, g.at, flight), series(overall, g.at, whole)},
		Legend: []chart.Key{{Class: "disk", Name: inFlight}, {Class: "disk dashed", Name: overall}}}
	lists := [][]float64{flight, whole}
	drive := r.DriveRate / (1 << 20)
	if drive > 0 {
		lists = append(lists, []float64{drive})
		name := "the drive in sequence: " + units.BytesPerSecond(r.DriveRate)
		f.Series = append(f.Series, series(name, []float64{first}, []float64{drive}))
		f.Legend = append(f.Legend, chart.Key{Class: "plain line", Name: name})
	}
	c := chart.NewPlot("bytes read per second over epochs", 180, first, last, chart.NewScale(true, 5, lists...), plain)
	if drive > 0 {
		c.Across("line plain", drive)
	}
	c.Curve(g.at, chart.Series{Class: "disk dashed", Values: whole})
	c.Curve(g.at, chart.Series{Class: "disk", Values: flight})
	f.Charts = []template.HTML{c.SVG()}
	return f
}

// cacheFigure draws the share of the rows that caches serve, by their size: the curve of hotness.
func (r *Run) cacheFigure() Figure {
	p := &r.PackFacts
	if len(p.Caches) < 2 || p.Nodes <= 0 {
		return Figure{}
	}
	x, y := []float64{0}, []float64{0}
	for _, c := range p.Caches {
		x, y = append(x, 100*float64(c.Rows)/float64(p.Nodes)), append(y, 100*c.Hits)
	}
	name := "rows of batches that a cache serves, in percent"
	f := Figure{ID: "cache", Title: "Hits, by the size of the cache", X: "percent of the rows", Unit: "percent", Series: []chart.Data{series(name, x, y)},
		Legend: []chart.Key{{Class: "ram line", Name: name}}}
	curves := []chart.Curve{{Class: "ram", X: x, Y: y}}
	var dots []chart.Mark
	for i := range x[1:] {
		dots = append(dots, chart.Mark{Class: "ram", X: x[i+1], Y: y[i+1], Radius: 3,
			Tell: fmt.Sprintf("%.3g %% of the rows serve %.1f %%; %s are read in %s", x[i+1], y[i+1], budget.FormatBytes(p.Caches[i].ReadBytes), units.Of(p.Epochs, "epoch"))})
	}
	if n := len(r.Epochs); n > 0 {
		sum, known := 0.0, 0.0
		for i := range r.Epochs {
			if h := r.hits(&r.Epochs[i]); chart.Finite(h) {
				sum, known = sum+h, known+1
			}
		}
		if known > 0 {
			at, hit := 100*float64(r.Setup.CacheRows)/float64(p.Nodes), 100*sum/known
			name := fmt.Sprintf("this run: %.3g %% of the rows served %.1f %%", at, hit)
			f.Series = append(f.Series, series(name, []float64{at}, []float64{hit}))
			f.Legend = append(f.Legend, chart.Key{Class: "ring ram", Name: name})
			dots = append(dots, chart.Mark{Class: "ring ram", X: at, Y: hit, Radius: 6, Tell: name})
		}
	}
	if g, _ := r.Setup.OnGPU(); g > 0 {
		at := 100 * float64(g) / float64(p.Nodes)
		name := fmt.Sprintf("on the GPU: %.3g %% of the rows", at)
		f.Series = append(f.Series, series(name, []float64{at}, []float64{math.NaN()}))
		f.Legend = append(f.Legend, chart.Key{Class: "gpu line", Name: name})
		curves = append(curves, chart.Curve{Class: "gpu", X: []float64{at, at}, Y: []float64{0, slices.Max(y)}})
	}
	percent := func(v float64) string { return plain(v) + " %" }
	f.Charts = []template.HTML{chart.Curves("rows served by size of the cache", "cache, share of the rows", true, curves, percent, percent, dots...)}
	return f
}

// layoutFigure draws the parts of a pack's bytes, beside the bytes of its features.
func (r *Run) layoutFigure() Figure {
	p := &r.PackFacts
	if len(p.Levels) == 0 || p.Blowup <= 0 {
		return Figure{}
	}
	levels := make([]inspection.Level, len(p.Levels))
	for i, l := range p.Levels {
		levels[i] = inspection.Level(l)
	}
	return inspection.Layout(levels, int64(math.Round(float64(p.DiskBytes)/p.Blowup)))
}

// memoryFigure compares the memory held with the memory given.
func (r *Run) memoryFigure() Figure {
	s := &r.Setup
	if s.Memory <= 0 {
		return Figure{}
	}
	f := Figure{ID: "memory", Title: "Memory", X: "of", Unit: "bytes"}
	data := chart.Data{Name: "bytes"}
	var bars []chart.Bar
	most := int64(1)
	add := func(name, class string, n int64) {
		bars = append(bars, chart.Bar{Name: name, Says: budget.FormatBytes(n), Bars: [][]chart.Part{{{Class: class, Value: float64(n), Tell: name + ": " + budget.FormatBytes(n)}}}})
		data.Add(name, float64(n))
		most = max(most, n)
	}
	add("planned for", "ram pale", s.Planned)
	add("of it: the cache", "ram", s.CacheSize)
	if res := r.Result; res != nil {
		add("held at most (anonymous, locked)", "ram", res.PeakAnonBytes)
		add("resident at most, mapped files included", "ram pale", res.PeakRSSBytes)
	}
	if s.GPUBytes > 0 {
		add("of the GPU", "gpu pale", s.GPUBytes)
		_, bytes := s.OnGPU()
		add("of it: the GPU's cache", "gpu", bytes)
	}
	to := max(most, min(s.Memory, 2*most)) // so that a far longer bar leaves the others visible
	add("given (--memory)", "rest", s.Memory)
	if s.Memory > to {
		last := &bars[len(bars)-1]
		last.Bars[0][0].Value = float64(to)
		last.Says += ", beyond the edge"
	}
	f.Series, f.Charts = []chart.Data{data}, []template.HTML{chart.Bars("memory that was planned, held and given", float64(to), bars)}
	return f
}
