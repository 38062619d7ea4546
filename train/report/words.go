package report

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"diskgnn/internal/budget"
	"diskgnn/internal/units"
	"diskgnn/train/model"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

func (r *Run) title() string {
	return fmt.Sprintf("%s on %s", modelName(r.Params.Model), filepath.Base(r.PackFacts.Dir))
}

func modelName(m string) string {
	if m == "" {
		return "A model"
	}
	return model.Kind(m).Title()
}

func (r *Run) metric() string {
	switch r.Params.Metric {
	case "auc":
		return "AUC"
	case "f1":
		return "micro F1"
	case "":
		return "score"
	}
	return r.Params.Metric
}

// score writes a score of the run's metric.
func (r *Run) score(v score.Score) string {
	if r.Params.Metric == "auc" {
		return fmt.Sprintf("%.4f", v)
	}
	return fmt.Sprintf("%.2f %%", 100*v)
}

// tick writes a score on an axis.
func (r *Run) tick(v float64) string {
	if r.Params.Metric == "auc" {
		return plain(v)
	}
	return plain(100*v) + " %"
}

// optional writes a score that may be undefined.
func (r *Run) optional(v score.Score) string {
	if !v.Defined() {
		return "–"
	}
	return r.score(v)
}

// sentence says what came of the run.
func (r *Run) sentence() string {
	s := r.progress()
	if last := len(r.Epochs) - 1; last >= 0 {
		s += r.outcome(&r.Epochs[last])
		s += fmt.Sprintf(" %s takes %s.", capital(r.anEpoch()), units.Seconds(float64(r.epochSeconds())))
	}
	return s
}

func (r *Run) progress() string {
	done := fmt.Sprintf("%d of %s", len(r.Epochs), units.Of(r.Params.Epochs, "epoch"))
	switch r.State {
	case rundir.StateFinished:
		if r.Result != nil && r.Result.StoppedEarly {
			return fmt.Sprintf("Stopped early, after %s, for want of better scores.", done)
		}
		return fmt.Sprintf("Finished %s.", units.Of(len(r.Epochs), "epoch"))
	case rundir.StateRunning:
		return fmt.Sprintf("Running: %s so far.", done)
	case Killed:
		return fmt.Sprintf("Ended without a word after %s.", done)
	}
	s := fmt.Sprintf("%s after %s", capital(string(r.State)), done)
	if r.Error != "" && r.State == rundir.StateFailed {
		return s + ": " + strings.TrimSuffix(r.Error, ".") + "."
	}
	return s + "."
}

// outcome says how well the run learned until its last epoch.
func (r *Run) outcome(last *rundir.Epoch) string {
	best := r.best()
	switch {
	case r.Setup.Engine == "none":
		return " Batches were loaded and thrown away, nothing was computed."
	case best < 0 && !last.Loss.Defined():
		return " Nothing was validated."
	case best < 0:
		return fmt.Sprintf(" The loss came to %.4g; nothing was validated.", last.Loss)
	}
	e := &r.Epochs[best]
	if r.Result != nil && r.Result.TestAccuracy.Defined() {
		return fmt.Sprintf(" Test %s %s, with the weights of epoch %d, the best in validation (%s).", r.metric(), r.score(r.Result.TestAccuracy), e.Epoch, r.score(e.ValidAccuracy))
	}
	return fmt.Sprintf(" Best validation %s %s, at epoch %d.", r.metric(), r.score(e.ValidAccuracy), e.Epoch)
}

// epochSeconds returns how long an epoch takes, as all that tells it does: see steady.
func (r *Run) epochSeconds() score.Score {
	if len(r.Epochs) == 0 {
		return score.Undefined
	}
	seconds, _ := r.steady()
	return score.Score(seconds)
}

// anEpoch names what takes epochSeconds.
func (r *Run) anEpoch() string {
	if len(r.Epochs) > 1 {
		return "an epoch after the first"
	}
	return "an epoch"
}

// tiles are the figures that one looks for first.
func (r *Run) tiles() []Row {
	var t []Row
	if res := r.Result; res != nil && res.TestAccuracy.Defined() {
		t = append(t, Row{"test " + r.metric(), r.score(res.TestAccuracy)})
	}
	if best := r.best(); best >= 0 {
		t = append(t, Row{"best validation", r.score(r.Epochs[best].ValidAccuracy)})
	}
	if n := len(r.Epochs); n > 0 {
		e := &r.Epochs[n-1]
		t = append(t, Row{r.anEpoch(), units.Seconds(float64(r.epochSeconds()))}, Row{"read in the last", budget.FormatBytes(e.BytesRead)})
		t = append(t, r.served(e)...)
		if r.DriveRate > 0 && e.ReadRate.Defined() {
			t = append(t, Row{"of the drive's rate", fmt.Sprintf("%.0f %%", 100*float64(e.ReadRate)/r.DriveRate)})
		}
	}
	if r.Result != nil && r.Result.PeakAnonBytes > 0 {
		t = append(t, Row{"memory held", budget.FormatBytes(r.Result.PeakAnonBytes)})
	}
	return t
}

// served says which share of an epoch's rows no read was for, by what held them.
func (r *Run) served(e *rundir.Epoch) []Row {
	rows := float64(e.InputNodes) * float64(r.PackFacts.RowBytes)
	if rows <= 0 { // of a version that did not count them: by what the graphs take besides
		rows = float64(e.UsefulBytes + e.RAMBytes)
	}
	if rows <= 0 {
		return nil
	}
	share := func(n int64) string { return fmt.Sprintf("%.0f %%", 100*float64(n)/rows) }
	var list []Row
	onGPU, _ := r.Setup.OnGPU()
	if onGPU > 0 {
		list = append(list, Row{"of rows from the GPU", share(e.GPUServedBytes)})
	}
	if onGPU == 0 || onGPU < r.Setup.CacheRows {
		list = append(list, Row{"of rows from RAM", share(e.RAMBytes - e.GPUServedBytes)})
	}
	return list
}

// flagName is what units.ShellWord would take for a path.
var flagName = regexp.MustCompile(`^--?([a-z][a-z0-9-]*)?$`)

// command is the command line that began the run, as one would type it.
func (r *Run) command() string {
	words := make([]string, len(r.Command))
	for i, w := range r.Command {
		switch name, value, given := strings.Cut(w, "="); {
		case i == 0:
			words[i] = units.ShellWord(filepath.Base(w))
		case !flagName.MatchString(name):
			words[i] = units.ShellWord(w)
		case given:
			words[i] = name + "=" + units.ShellWord(value)
		default:
			words[i] = name
		}
	}
	return strings.Join(words, " ")
}

func (r *Run) pack() Table {
	p, s := &r.PackFacts, &r.Setup
	share := func(n int64) string {
		text := units.Of(n, "row")
		if p.Nodes > 0 {
			text += fmt.Sprintf(", %.3g %%", 100*float64(n)/float64(p.Nodes))
		}
		return text
	}
	onGPU, bytes := s.OnGPU()
	rows := []Row{
		{"directory", p.Dir},
		{"fingerprint", fmt.Sprintf("%.12s", r.Pack)},
		{"graph", fmt.Sprintf("%s, %s", units.Of(p.Nodes, "node"), units.Of(p.Classes, "class"))},
		{"rows", fmt.Sprintf("%d of %s, %s", p.Dim, p.DType, budget.FormatBytes(int64(p.RowBytes)))},
		{"fanout", numbers(p.Fanout, ", ")},
		{"batches", fmt.Sprintf("%d in each of %s", p.BatchesPerEpoch, units.Of(p.Epochs, "sample epoch"))},
		{"policy", p.Policy},
		{"chunks compressed", p.Codec},
		{"cache, at least", share(p.LeastCacheRows)},
		{"cached in RAM", share(s.CacheRows - onGPU)},
		{"size", fmt.Sprintf("%s, blow-up %.2f", budget.FormatBytes(p.DiskBytes), p.Blowup)},
	}
	if onGPU > 0 {
		rows = append(rows, Row{"cached on the GPU", share(onGPU) + ", " + budget.FormatBytes(bytes)})
	}
	if p.Segment > 1 {
		rows = append(rows, Row{"segments", fmt.Sprintf("%d batches share rows", p.Segment)})
	}
	if p.Policy == "" { // no pack: the store has no directory of its own
		own := []string{"fingerprint", "policy", "chunks compressed", "cache, at least", "size"}
		return Table{"Samples", slices.DeleteFunc(rows, func(r Row) bool { return slices.Contains(own, r.Name) })}
	}
	return Table{"Pack", rows}
}

func (r *Run) environment() Table {
	s := &r.Setup
	rows := []Row{
		{"run", r.Dir},
		{"program", r.Version},
		{"host", r.host()},
		{"engine", s.Engine},
		{"threads", fmt.Sprint(s.Threads)},
		{"storage backend", s.IO},
		{"slots", fmt.Sprintf("%d, %d for evaluation", s.Slots, s.EvalSlots)},
	}
	if rows[2].Value == "" {
		rows = slices.Delete(rows, 2, 3)
	}
	held := ""
	if s.GPUBytes > 0 {
		held = budget.FormatBytes(s.GPUBytes)
	}
	for _, r := range []Row{{"GPU", s.Device}, {"GPU memory", held}, {"BLAS", s.BLAS}, {"products in", s.Precision}, {"SIMD", s.SIMD}, {"layer orders", orders(s.Orders)}} {
		if r.Value != "" {
			rows = append(rows, r)
		}
	}
	if res := r.Result; res != nil {
		rows = append(rows, Row{"filling the cache", fmt.Sprintf("%s in %s", budget.FormatBytes(res.PreloadBytes), units.Seconds(res.PreloadSeconds))},
			Row{"in all", units.Seconds(res.Seconds)})
	}
	return Table{"Environment", rows}
}

// host says which machine the run was on, "" where it is not known.
func (r *Run) host() string {
	h := r.Host
	if h == nil {
		return ""
	}
	parts := []string{h.Name, h.CPU, units.Of(h.Processors, "processor")}
	if h.Memory > 0 {
		parts = append(parts, budget.FormatBytes(h.Memory)+" of memory")
	}
	return strings.Join(slices.DeleteFunc(append(parts, h.System), func(s string) bool { return s == "" }), ", ")
}

// cells are an epoch's line in the table.
func (r *Run) cells(e *rundir.Epoch) []string {
	loss, mbs := "–", "–"
	if e.Loss.Defined() {
		loss = fmt.Sprintf("%.4f", e.Loss)
	}
	if e.ReadRate.Defined() {
		mbs = units.BytesPerSecond(float64(e.ReadRate))
	}
	cells := []string{fmt.Sprint(e.Epoch), fmt.Sprintf("%.2f", e.Seconds), loss, r.optional(e.TrainAccuracy), r.optional(e.ValidAccuracy),
		budget.FormatBytes(e.BytesRead), budget.FormatBytes(e.UsefulBytes)}
	if n, _ := r.Setup.OnGPU(); n > 0 {
		cells = append(cells, budget.FormatBytes(e.GPUServedBytes))
	}
	return append(cells, budget.FormatBytes(e.RAMBytes-e.GPUServedBytes), mbs)
}

// plain writes a number as short as it goes, to six digits.
func plain(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

func seconds(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) + " s" }

func numbers(list []int, separator string) string {
	parts := make([]string, len(list))
	for i, n := range list {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, separator)
}

func orders(list []model.Order) string {
	parts := make([]string, len(list))
	for i, o := range list {
		parts[i] = string(o)
	}
	return strings.Join(parts, ", ")
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
