package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"diskgnn/inspection"
	"diskgnn/internal/budget"
	"diskgnn/internal/chart"
	"diskgnn/internal/units"
	"diskgnn/pipeline"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// Figure is a figure of a page, and what it shows as data.
type Figure = chart.Figure

// series returns a line's data.
func series(name string, x, values []float64) chart.Data {
	return chart.Data{Name: name, X: x, Values: values}
}

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
func (r *Run) figures() []Figure {
	var list []Figure
	if len(r.Epochs) > 0 {
		if r.Setup.Engine != "none" {
			list = append(list, r.scoreFigure(), r.lossFigure())
			if r.rateVaries() {
				list = append(list, r.learningRateFigure())
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

func (r *Run) lossFigure() Figure {
	return r.curve(Figure{ID: "loss", Title: "Loss", Unit: "loss"}, 180, false, 5, "training, dropout included", func(e *rundir.Epoch) score.Score { return e.Loss })
}

// curve draws one value of the epochs, in f, whose title it has over it; from zero, and with so
// many ticks.
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

// Scores rise steeply at first and little later on. Where the later ones lie within this share of
// all, the axis shows these.
const plateauShare = 0.4

// plateau returns where the axis of scores begins, and whether that leaves some of them out: those
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

// join joins what sentences there are.
func join(sentences []string) string {
	return strings.Join(slices.DeleteFunc(sentences, func(s string) bool { return s == "" }), " ")
}

// rateVaries tells whether epochs had different learning rates.
func (r *Run) rateVaries() bool {
	first := value(r.Epochs[0].LR)
	return slices.ContainsFunc(r.Epochs, func(e rundir.Epoch) bool { return math.Abs(value(e.LR)-first) > 0 })
}

func (r *Run) learningRateFigure() Figure {
	return r.curve(Figure{ID: "rate", Title: "Learning rate", Unit: "rate"}, 120, true, 4, "learning rate", func(e *rundir.Epoch) score.Score { return e.LR })
}

// linkClass returns the colour of a link: that of what it works on.
func (r *Run) linkClass(link string) string {
	switch workOf(link) {
	case diskTime:
		return "disk"
	case drawing:
		return "graphs"
	case moving:
		return "gpu"
	case copying:
		if link == "GPU gather" {
			return "gpu"
		}
		return "ram"
	case computing:
		if r.Setup.Device != "" {
			return "gpu"
		}
	}
	return "compute"
}

// linkFigure draws a panel for each link: links overlap, so each has the whole
// epoch to divide between work and waiting.
func (r *Run) linkFigure() Figure {
	f := Figure{ID: "stages", Title: "Time in each stage", X: "epoch", Unit: "seconds",
		Legend: []chart.Key{{Class: "plain", Name: "busy"}, {Class: "plain pale", Name: "blocked: waiting for a batch or a free slot"}}}
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
		class := r.linkClass(s.Link)
		busy := of(func(t *pipeline.LinkTime) float64 { return t.Busy })
		blocked := of(func(t *pipeline.LinkTime) float64 { return t.Blocked })
		parts[i] = []chart.Series{{Name: "busy", Class: class, Values: busy}, {Name: "blocked", Class: class + " pale", Values: blocked}}
		f.Series = append(f.Series, series(s.Link+": busy", g.at, busy), series(s.Link+": blocked", g.at, blocked))
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
	f.Note = join([]string{"Stages work at the same time: the longest solid bar is what the epoch waits for.", g.note("bar")})
	return f
}

// mostLanes and mostSpans bound what is drawn of a timeline.
const (
	mostLanes = 16
	mostSpans = 1000
)

// timelineFigure draws what each stage did when, for the last batches of an epoch.
func (r *Run) timelineFigure() Figure {
	l := r.Timeline
	f := Figure{ID: "timeline", Title: fmt.Sprintf("The stages' timeline: the last batches of epoch %d", l.Epoch), X: "begin, milliseconds", Unit: "milliseconds",
		Note: "Every second batch is pale. A gap is a stage that waits."}
	var lanes []chart.Lane
	at, end := make(map[string]int), 0.0
	for i := range l.Spans[:min(len(l.Spans), mostSpans)] {
		s := &l.Spans[i]
		if !chart.Finite(s.Begin) || !chart.Finite(s.Seconds) || s.Begin < 0 || s.Seconds < 0 {
			continue
		}
		k, ok := at[s.Lane]
		if !ok {
			if len(lanes) == mostLanes {
				continue
			}
			k = len(lanes)
			at[s.Lane] = k
			lanes = append(lanes, chart.Lane{Name: s.Lane, Class: r.linkClass(linkOf(s.Lane))})
			f.Series = append(f.Series, chart.Data{Name: s.Lane})
		}
		from, length := 1e3*s.Begin, 1e3*s.Seconds
		lanes[k].Spans = append(lanes[k].Spans, chart.Span{From: from, To: from + length, Pale: s.Batch%2 == 1, Tell: fmt.Sprintf("%s, batch %d: %s", s.Lane, s.Batch, units.Seconds(s.Seconds))})
		f.Series[k].X, f.Series[k].Values = append(f.Series[k].X, from), append(f.Series[k].Values, length)
		end = max(end, from+length)
	}
	slices.SortStableFunc(lanes, func(a, b chart.Lane) int { return r.compareLanes(a.Name, b.Name) })
	slices.SortStableFunc(f.Series, func(a, b chart.Data) int { return r.compareLanes(a.Name, b.Name) })
	f.Charts = []template.HTML{chart.Lanes("what the stages did when", "milliseconds", end, lanes, plain)}
	return f
}

// linkOf returns the link that a lane is of: the lanes of its workers have numbers.
func linkOf(lane string) string { return strings.TrimRight(lane, " 0123456789") }

// compareLanes orders lanes as batches go through their links, and workers by their numbers.
func (r *Run) compareLanes(a, b string) int {
	links := r.Epochs[len(r.Epochs)-1].Links
	at := func(lane string) int {
		k := slices.IndexFunc(links, func(t pipeline.LinkTime) bool { return t.Link == linkOf(lane) })
		if k < 0 {
			return len(links)
		}
		return k
	}
	return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// courseFigure draws what the run did when, one thing after the other.
func (r *Run) courseFigure() Figure {
	g := groupEpochs(r.Epochs, mostPoints)
	lanes := []chart.Lane{{Name: "filling the cache", Class: "ram"}, {Name: "training", Class: "train"}, {Name: "validating", Class: "valid"}, {Name: "test, checkpoints and all else", Class: "rest"}}
	at := 0.0
	add := func(lane int, seconds float64, tell string) {
		if !chart.Finite(seconds) || seconds <= 0 {
			return
		}
		lanes[lane].Spans = append(lanes[lane].Spans, chart.Span{From: at, To: at + seconds, Tell: tell + ": " + units.Seconds(seconds)})
		at += seconds
	}
	preload := 0.0
	if r.Result != nil {
		preload = r.Result.PreloadSeconds
	}
	add(0, preload, lanes[0].Name)
	for i, part := range g.of {
		train, valid := 0.0, 0.0
		for k := range part {
			train, valid = train+part[k].Seconds, valid+part[k].ValidSeconds
		}
		if i == 0 { // the first epoch's seconds have those of filling the cache
			train = max(train-preload, 0)
		}
		add(1, train, "training, "+g.label(i))
		add(2, valid, "validating, "+g.label(i))
	}
	if r.Result != nil {
		add(3, r.Result.Seconds-at, lanes[3].Name)
	}
	f := Figure{ID: "course", Title: "The run's course", X: "of", Unit: "seconds"}
	all := chart.Data{Name: "seconds"}
	lanes = slices.DeleteFunc(lanes, func(l chart.Lane) bool { return len(l.Spans) == 0 })
	for i := range lanes {
		sum := 0.0
		for _, s := range lanes[i].Spans {
			sum += s.To - s.From
		}
		all.Add(lanes[i].Name, sum)
		lanes[i].Name += ", " + units.Seconds(sum)
	}
	f.Series = []chart.Data{all}
	unit, name := 1.0, "seconds"
	switch {
	case at >= 3*3600:
		unit, name = 3600, "hours"
	case at >= 3*60:
		unit, name = 60, "minutes"
	}
	for i := range lanes {
		for k := range lanes[i].Spans {
			lanes[i].Spans[k].From /= unit
			lanes[i].Spans[k].To /= unit
		}
	}
	f.Charts = []template.HTML{chart.Lanes("what the run did when", name, at/unit, lanes, plain)}
	return f
}

// levelNames are what levels are called on the page, and their colours.
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

// hits returns the share of an epoch's rows that memory served; NaN where nothing tells.
func (r *Run) hits(e *rundir.Epoch) float64 {
	rows := float64(e.InputNodes) * float64(r.PackFacts.RowBytes)
	if rows <= 0 {
		return math.NaN()
	}
	return float64(e.RAMBytes) / rows
}

// cacheFigure draws which share of the rows caches serve, by their size: the curve of hotness.
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

// layoutFigure draws what a pack's bytes are, beside those of the features that it was made of.
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

// memoryFigure compares what was held with what was given.
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
	to := max(most, min(s.Memory, 2*most)) // others can be shown beside what is far longer
	add("given (--memory)", "rest", s.Memory)
	if s.Memory > to {
		last := &bars[len(bars)-1]
		last.Bars[0][0].Value = float64(to)
		last.Says += ", beyond the edge"
	}
	f.Series, f.Charts = []chart.Data{data}, []template.HTML{chart.Bars("memory that was planned, held and given", float64(to), bars)}
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
