package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
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

// MostCompared bounds the runs of a comparison: each has a colour of its own.
const MostCompared = 8

// Comparison holds the results of several runs, and their differences.
type Comparison struct {
	Runs        []Compared   `json:"runs"`
	Differences []Difference `json:"differences"`
	Figures     []Figure     `json:"figures"`

	runs []*Run
}

// Compared is the results of one run. Unknown values are null.
type Compared struct {
	Name   string `json:"name"` // of its directory, as short as distinguishes the runs
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

// Difference is an option of the recipe, by its flag, or a fact, with different values in the runs.
type Difference struct {
	Name   string   `json:"name"`
	Recipe bool     `json:"recipe"`
	Values []string `json:"values"` // by run
}

// Compare compares two to MostCompared runs, and refuses more.
func Compare(runs []*Run) (*Comparison, error) {
	if len(runs) < 2 || len(runs) > MostCompared {
		return nil, fault.New(fault.ErrUsage, "%s given: needs 2 to %d to compare", units.Of(len(runs), "run"), MostCompared)
	}
	c := &Comparison{runs: runs, Differences: differences(runs)}
	names := shortNames(runs)
	for i, r := range runs {
		c.Runs = append(c.Runs, r.compared(names[i]))
	}
	c.Figures = (&overlay{runs, names}).figures()
	return c, nil
}

// shortNames returns the shortest ends of the runs' directories that distinguish them.
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
		Valid: score.Undefined, Test: score.Undefined, Seconds: score.Undefined, MemoryBytes: score.Undefined, Verdict: r.verdict()}
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

// differences returns the options of the recipes and then the facts that differ between the runs.
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

// facts lists a run's data and program, which its recipe lacks: the same names for all runs.
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

// Table returns the runs' figures for people: a row of column names, then a row for each run.
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

func known(v score.Score, format func(float64) string) string {
	if !v.Defined() {
		return "–"
	}
	return format(float64(v))
}

// Sentence names the run with the best score and the fastest run.
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
		slowest := slices.MaxFunc(c.Runs, func(a, b Compared) int { return cmp.Compare(a.EpochSeconds, b.EpochSeconds) })
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

// comparePage is the template's data.
type comparePage struct {
	Style, Things   template.CSS
	Title, Sentence string
	*Comparison
	Columns []string
	Rows    [][]string
}

// Write writes the comparison as a self-contained page, as the function Write does for one run.
func (c *Comparison) Write(w io.Writer) error {
	table := c.Table()
	p := comparePage{Style: chart.Style(), Things: chart.Things(),
		Title: units.Of(len(c.Runs), "run") + " compared", Sentence: c.Sentence(), Comparison: c, Columns: table[0], Rows: table[1:]}
	return compareTemplate.Execute(w, p)
}
