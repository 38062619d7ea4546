package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"diskgnn/internal/chart"
	"diskgnn/internal/units"
	"diskgnn/pipeline"
	"diskgnn/train/rundir"
)

// The work of a link.
type work int

const (
	otherWork work = iota
	diskTime       // waiting for the drive
	drawing        // loading or drawing graphs
	copying        // bringing rows to their places
	computing      // training steps
	launching      // preparing the work of a GPU
	moving         // copying to a GPU
)

// stage describes a link: its work, the device that limits it when it is always busy, the words for
// that, and the colour of its device.
type stage struct {
	work
	waits, does, class string
}

// stages has the links by their names.
var stages = map[string]stage{
	"read features": {diskTime, "the drive", "reading features", "disk"},
	"load graph":    {drawing, "loading graphs", "reading and decoding graphs", "graphs"},
	"assemble":      {copying, "copies in memory", "assembling feature matrices", "ram"},
	"GPU gather":    {copying, "the GPU's memory", "gathering rows on the GPU", "gpu"},
	"compute":       {computing, "the processors", "computing", "compute"},
	"GPU compute":   {computing, "the processors", "computing", "compute"},
	"launch":        {launching, "the host", "launching the GPU's work", "compute"},
	"GPU copy":      {moving, "the bus to the GPU", "copying to the GPU", "gpu"},
}

// stage returns the stage of a link in this run.
func (r *Run) stage(link string) stage {
	s, known := stages[link]
	switch {
	case !known:
		s = stage{otherWork, link, link, "compute"}
	case s.work == drawing && r.Params.Live():
		s.waits, s.does = "sampling", "drawing batches"
	case s.work == computing && r.onGPU():
		s.waits, s.class = "the GPU", "gpu"
	}
	return s
}

func (r *Run) onGPU() bool { return r.Setup.Device != "" }

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
		class := r.stage(s.Link).class
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
	f.Note = join([]string{"Stages work at the same time: the epoch waits for the longest solid bar.", g.note("bar")})
	return f
}

// mostLanes and mostSpans bound the drawing of a timeline.
const (
	mostLanes = 16
	mostSpans = 1000
)

// timelineFigure draws the spans of each stage, for the last batches of an epoch.
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
			lanes = append(lanes, chart.Lane{Name: s.Lane, Class: r.stage(linkOf(s.Lane)).class})
			f.Series = append(f.Series, chart.Data{Name: s.Lane})
		}
		from, length := 1e3*s.Begin, 1e3*s.Seconds
		lanes[k].Spans = append(lanes[k].Spans, chart.Span{From: from, To: from + length, Pale: s.Batch%2 == 1, Tell: fmt.Sprintf("%s, batch %d: %s", s.Lane, s.Batch, units.Seconds(s.Seconds))})
		f.Series[k].X, f.Series[k].Values = append(f.Series[k].X, from), append(f.Series[k].Values, length)
		end = max(end, from+length)
	}
	slices.SortStableFunc(lanes, func(a, b chart.Lane) int { return r.compareLanes(a.Name, b.Name) })
	slices.SortStableFunc(f.Series, func(a, b chart.Data) int { return r.compareLanes(a.Name, b.Name) })
	f.Charts = []template.HTML{chart.Lanes("work of the stages over time", "milliseconds", end, lanes, plain)}
	return f
}

// linkOf returns the link of a lane: the lanes of its workers have numbers.
func linkOf(lane string) string { return strings.TrimRight(lane, " 0123456789") }

// compareLanes orders lanes by link, in the order of the pipeline, and then by worker.
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

// courseFigure draws the phases of the run in sequence.
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
		if i == 0 { // the first epoch's seconds include filling the cache
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
	f.Charts = []template.HTML{chart.Lanes("phases of the run over time", name, at/unit, lanes, plain)}
	return f
}
