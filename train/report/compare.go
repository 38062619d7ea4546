package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"diskgnn/internal/budget"
	"diskgnn/internal/chart"
	"diskgnn/internal/fault"
	"diskgnn/internal/units"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

//go:embed compare.html
var compareText string

var compareTemplate = chart.Template(compareText)

// MostCompared bounds the runs of a comparison: as many as there are colours.
const MostCompared = 8

// Comparison is what several runs came to, and how they differ.
type Comparison struct {
	Runs        []Compared   `json:"runs"`
	Differences []Difference `json:"differences"`
	Figures     []Figure     `json:"figures"`

	runs []*Run
}

// Compared is what a run came to. What is not known is null.
type Compared struct {
	Name   string `json:"name"` // of its directory, as short as tells the runs apart
	Dir    string `json:"dir"`
	State  string `json:"state"`
	Epochs int    `json:"epochs"`
	Metric string `json:"metric"`

	Valid     score.Score `json:"valid"` // the best
	BestEpoch int         `json:"best_epoch"`
	Test      score.Score `json:"test"`

	EpochSeconds score.Score `json:"epoch_seconds"` // means, of all epochs but the first
	ReadBytes    score.Score `json:"read_bytes"`
	Hits         score.Score `json:"hits"` // share of the rows that memory served
	Seconds      score.Score `json:"seconds"`
	MemoryBytes  score.Score `json:"memory_bytes"`
	Verdict      []Finding   `json:"verdict,omitempty"`
}

// Difference is something that the runs have different values of: an option of the recipe, by
// its flag, or a fact.
type Difference struct {
	Name   string   `json:"name"`
	Recipe bool     `json:"recipe"`
	Values []string `json:"values"` // by run
}

// Compare compares two runs or more. It refuses more than MostCompared.
func Compare(runs []*Run) (*Comparison, error) {
	if len(runs) < 2 || len(runs) > MostCompared {
		return nil, fault.New(fault.ErrUsage, "%s: between 2 and %d can be compared", units.Of(len(runs), "run"), MostCompared)
	}
	c := &Comparison{runs: runs, Differences: differences(runs)}
	names := shortNames(runs)
	for i, r := range runs {
		c.Runs = append(c.Runs, r.compared(names[i]))
	}
	c.Figures = c.figures()
	return c, nil
}

// shortNames returns the last parts of the runs' directories, as many as tell them apart.
func shortNames(runs []*Run) []string {
	names := make([]string, len(runs))
	for parts := 1; ; parts++ {
		longer := false
		for i, r := range runs {
			all := strings.Split(filepath.ToSlash(filepath.Clean(r.Dir)), "/")
			names[i] = strings.Join(all[max(0, len(all)-parts):], "/")
			longer = longer || len(all) > parts
		}
		sorted := slices.Sorted(slices.Values(names))
		if !longer || len(slices.Compact(sorted)) == len(runs) {
			return names
		}
	}
}

func (r *Run) compared(name string) Compared {
	c := Compared{Name: name, Dir: r.Dir, State: string(r.State), Epochs: len(r.Epochs), Metric: r.metric(), BestEpoch: -1,
		Valid: score.Undefined, Test: score.Undefined, Seconds: score.Undefined, MemoryBytes: score.Undefined, Verdict: r.Verdict()}
	if best := r.best(); best >= 0 {
		c.Valid, c.BestEpoch = r.Epochs[best].ValidAccuracy, r.Epochs[best].Epoch
	}
	if res := r.Result; res != nil {
		c.Test, c.Seconds = res.TestAccuracy, score.Score(res.Seconds)
		if res.PeakAnonBytes > 0 {
			c.MemoryBytes = score.Score(res.PeakAnonBytes)
		}
	}
	c.EpochSeconds = r.epochSeconds()
	c.ReadBytes = score.Score(r.mean(func(e *rundir.Epoch) float64 { return float64(e.BytesRead) }))
	c.Hits = score.Score(r.mean(r.hits))
	return c
}

// mean returns the mean of a value over all epochs but the first, if there are others.
func (r *Run) mean(value func(*rundir.Epoch) float64) float64 {
	epochs := r.Epochs
	if len(epochs) > 1 {
		epochs = epochs[1:]
	}
	sum := 0.0
	for i := range epochs {
		sum += value(&epochs[i])
	}
	return sum / float64(len(epochs))
}

// differences returns the options of the recipes and then the facts that are not the same of all
// runs.
func differences(runs []*Run) []Difference {
	var list []Difference
	differs := make(map[string][]string) // values by option
	for i, r := range runs[1:] {
		for _, d := range runs[0].Params.Recipe.Difference(&r.Params.Recipe) {
			values := differs[d.Flag]
			if values == nil {
				values = slices.Repeat([]string{fmt.Sprint(d.Value)}, len(runs))
				differs[d.Flag] = values
			}
			values[i+1] = fmt.Sprint(d.Than)
		}
	}
	for _, flag := range recipe.Flags() {
		if values, ok := differs[flag]; ok {
			list = append(list, Difference{"--" + flag, true, values})
		}
	}
	facts := make([][]Row, len(runs))
	for i, r := range runs {
		facts[i] = r.facts()
	}
	for k := range facts[0] {
		d := Difference{Name: facts[0][k].Name}
		for i := range facts {
			d.Values = append(d.Values, facts[i][k].Value)
		}
		if slices.ContainsFunc(d.Values, func(v string) bool { return v != d.Values[0] }) {
			list = append(list, d)
		}
	}
	return list
}

// facts are what a run was trained on and with, which its recipe does not say: as many for all.
func (r *Run) facts() []Row {
	p, s := &r.PackFacts, &r.Setup
	rows := func(n int64) string {
		if p.Nodes <= 0 {
			return units.Of(n, "row")
		}
		return fmt.Sprintf("%.3g\u00a0%% of the rows", 100*float64(n)/float64(p.Nodes))
	}
	onGPU, _ := s.OnGPU()
	list := []Row{
		{"dataset", fmt.Sprintf("%.12s", r.Dataset)}, {"samples", fmt.Sprintf("%.12s", r.Samples)}, {"pack", fmt.Sprintf("%.12s", r.Pack)},
		{"store", r.Store}, {"rows of", string(p.DType)}, {"policy", p.Policy}, {"sample epochs", fmt.Sprint(p.Epochs)},
		{"cache", rows(s.CacheRows)}, {"on the GPU", rows(onGPU)},
		{"memory given", budget.FormatBytes(s.Memory)}, {"engine", s.Engine}, {"GPU", s.Device}, {"threads", fmt.Sprint(s.Threads)}, {"slots", fmt.Sprint(s.Slots)},
		{"storage backend", s.IO}, {"BLAS", s.BLAS}, {"SIMD", s.SIMD}, {"ranks", fmt.Sprint(max(1, s.Ranks))}, {"program", r.Version}, {"host", r.host()},
	}
	for i := range list {
		if list[i].Value == "" {
			list[i].Value = "–"
		}
	}
	return list
}

// Table returns the runs' figures for people: a row for each, after the names of the columns.
func (c *Comparison) Table() [][]string {
	table := [][]string{{"run", "state", "epochs", "valid", "test", "an epoch", "read", "from memory", "in all", "held"}}
	for i := range c.Runs {
		v, r := &c.Runs[i], c.runs[i]
		valid := r.optional(v.Valid)
		if v.BestEpoch >= 0 {
			valid += fmt.Sprintf(", epoch %d", v.BestEpoch)
		}
		table = append(table, []string{v.Name, v.State, fmt.Sprint(v.Epochs), valid, r.optional(v.Test),
			known(v.EpochSeconds, units.Seconds), known(v.ReadBytes, size), known(v.Hits, func(x float64) string { return fmt.Sprintf("%.0f\u00a0%%", 100*x) }),
			known(v.Seconds, units.Seconds), known(v.MemoryBytes, size)})
	}
	return table
}

func size(v float64) string { return budget.FormatBytes(int64(v)) }

func known(v score.Score, format func(float64) string) string {
	if !v.Defined() {
		return "–"
	}
	return format(float64(v))
}

// Sentence says which run scored best and which is the fastest.
func (c *Comparison) Sentence() string {
	best, fastest, metrics := -1, -1, true
	for i := range c.Runs {
		v := &c.Runs[i]
		if v.Valid.Defined() && (best < 0 || v.Valid > c.Runs[best].Valid) {
			best = i
		}
		if v.EpochSeconds > 0 && (fastest < 0 || v.EpochSeconds < c.Runs[fastest].EpochSeconds) {
			fastest = i
		}
		metrics = metrics && v.Metric == c.Runs[0].Metric
	}
	var s []string
	switch {
	case !metrics:
		s = append(s, "The runs are judged by different metrics: their scores cannot be compared.")
	case best >= 0:
		v := &c.Runs[best]
		text := fmt.Sprintf("%s scores best in validation: %s %s, at epoch %d", v.Name, v.Metric, c.runs[best].score(v.Valid), v.BestEpoch)
		if v.Test.Defined() {
			text += fmt.Sprintf(", and %s in test", c.runs[best].score(v.Test))
		}
		s = append(s, text+".")
	}
	if fastest >= 0 {
		slowest := slices.MaxFunc(c.Runs, func(a, b Compared) int { return compareScores(a.EpochSeconds, b.EpochSeconds) })
		v := &c.Runs[fastest]
		text := fmt.Sprintf("%s is the fastest: an epoch takes %s", v.Name, units.Seconds(float64(v.EpochSeconds)))
		if slowest.Name != v.Name {
			text += fmt.Sprintf("; of %s, %.3g times as long", slowest.Name, float64(slowest.EpochSeconds/v.EpochSeconds))
		}
		s = append(s, text+".")
	}
	recipes := 0
	for _, d := range c.Differences {
		if d.Recipe {
			recipes++
		}
	}
	if recipes == 0 {
		s = append(s, "The recipes are the same.")
	}
	return strings.Join(s, " ")
}

// compareScores orders scores; those that are not known come first.
func compareScores(a, b score.Score) int {
	switch {
	case !a.Defined() && !b.Defined():
		return 0
	case !a.Defined() || a < b:
		return -1
	case !b.Defined() || a > b:
		return 1
	}
	return 0
}

// comparePage is what the template shows.
type comparePage struct {
	Style, Things   template.CSS
	Title, Sentence string
	*Comparison
	Columns []string
	Rows    [][]string
}

// Write writes the comparison as a page that stands alone, as Write does of one run.
func (c *Comparison) Write(w io.Writer) error {
	table := c.Table()
	p := comparePage{Style: chart.Style(), Things: chart.Things(),
		Title: units.Of(len(c.Runs), "run") + " compared", Sentence: c.Sentence(), Comparison: c, Columns: table[0], Rows: table[1:]}
	return compareTemplate.Execute(w, p)
}

// runClass is the colour of a run's lines.
func runClass(i int) string { return fmt.Sprintf("run%d", i+1) }

func (c *Comparison) figures() []Figure {
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
func (c *Comparison) lines(id, title, unit, x string, value func(*rundir.Epoch) float64, zoom bool) Figure {
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
func (c *Comparison) add(f *Figure, i int, x, y []float64, curves *[]chart.Curve) {
	if !slices.ContainsFunc(y, chart.Finite) {
		return
	}
	f.Series = append(f.Series, series(c.Runs[i].Name, x, y))
	f.Legend = append(f.Legend, chart.Key{Class: runClass(i), Name: c.Runs[i].Name})
	*curves = append(*curves, chart.Curve{Class: runClass(i), X: x, Y: y})
}

func (c *Comparison) draw(f Figure, curves []chart.Curve, below string, zoom bool) Figure {
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
func (c *Comparison) scoreOverTime() Figure {
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

// thin leaves out points beyond mostPoints, evenly; the last one stays.
func thin(x, y []float64) (fewX, fewY []float64) {
	step := max(1, (len(x)+mostPoints-1)/mostPoints)
	for i := range x {
		if (len(x)-1-i)%step == 0 {
			fewX, fewY = append(fewX, x[i]), append(fewY, y[i])
		}
	}
	return fewX, fewY
}

// stages draws an epoch's seconds, and below how long each link takes by itself.
func (c *Comparison) stages() Figure {
	f := Figure{ID: "stages", Title: "An epoch, and its stages by themselves", X: "of", Unit: "seconds", Legend: []chart.Key{{Class: "rest", Name: "an epoch"}}}
	var bars []chart.Bar
	named := map[string]bool{}
	for i, r := range c.runs {
		seconds, links := r.steady()
		if len(links) == 0 || !chart.Finite(seconds) {
			continue
		}
		s := chart.Data{Name: c.Runs[i].Name, Names: []string{"an epoch"}, Values: []float64{seconds}}
		bar := chart.Bar{Name: c.Runs[i].Name, Says: units.Seconds(seconds), Bars: [][]chart.Part{{{Class: "rest", Value: seconds, Tell: "an epoch: " + units.Seconds(seconds)}}}}
		for _, l := range links {
			alone := l.Alone()
			if !chart.Finite(alone) || alone < seconds/100 {
				continue
			}
			class := r.linkClass(l.Link)
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

// bytes draws where an epoch's bytes come from.
func (c *Comparison) bytes() Figure {
	f := Figure{ID: "bytes", Title: "Bytes of an epoch", X: "level", Unit: "bytes"}
	var bars []chart.Bar
	named := map[string]bool{}
	for i, r := range c.runs {
		if len(r.Epochs) == 0 {
			continue
		}
		s, bar, read := chart.Data{Name: c.Runs[i].Name}, chart.Bar{Name: c.Runs[i].Name, Bars: [][]chart.Part{nil}}, 0.0
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
