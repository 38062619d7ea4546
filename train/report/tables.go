package report

import (
	"fmt"
	"slices"
	"strings"

	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/units"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
)

// Row is a value and its name.
type Row struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Table has rows of values.
type Table struct {
	Title string `json:"title"`
	Rows  []Row  `json:"rows"`
}

// tiles returns the run's main figures.
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

// served returns the share of an epoch's rows that needed no read, by the level that held them.
func (r *Run) served(e *rundir.Epoch) []Row {
	rows := float64(e.InputNodes) * float64(r.PackFacts.RowBytes)
	if rows <= 0 { // an earlier version did not count input nodes: useful bytes include the graphs
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

// configuration lists the options that decide the weights, without those that do not apply to this
// run: options of other models, and options that are off.
func (r *Run) configuration() Table {
	p := &r.Params.Recipe
	var rows []Row
	add := func(say bool, name, value string) {
		if say {
			rows = append(rows, Row{name, value})
		}
	}
	add(true, "model", p.Model)
	add(true, "widths", numbers(p.Dims, " → "))
	kind := model.Kind(p.Model)
	add(kind.Has(model.HeadsOption) && p.Heads > 0, "heads", fmt.Sprint(p.Heads))
	add(kind.Has(model.BasesOption) && p.Bases > 0, "bases", fmt.Sprint(p.Bases))
	add(kind.Has(model.AggregatorOption) && p.Aggregator != "", "aggregator", p.Aggregator)
	add(kind.Has(model.GCNNormOption) && p.GCNNorm != "", "edges weighed by", "degrees in the "+p.GCNNorm)
	add(p.Norm != "" && p.Norm != "none", "norm", p.Norm)
	add(p.Activation != "" && p.Activation != "auto", "activation", p.Activation)
	add(p.Residual, "residual", "yes")
	add(p.InputProjection, "input projection", "yes")
	add(true, "dropout", plain(p.Dropout))
	add(true, "epochs", fmt.Sprint(p.Epochs))
	add(p.Validation == recipe.Exact, "validation and test", "exact, with all neighbours")
	add(p.ValidateEvery > 1, "validation", fmt.Sprintf("every %d epochs", p.ValidateEvery))
	add(p.Patience > 0, "early stopping", fmt.Sprintf("after %s without a better validation score", units.Of(p.Patience, "epoch")))
	add(p.Optimizer != "", "optimizer", p.Optimizer)
	add(true, "learning rate", plain(p.LR))
	add(p.Warmup > 0, "warm-up", units.Of(p.Warmup, "epoch"))
	add(schedule(p) != "", "schedule", schedule(p))
	add(p.WeightDecay != 0, "weight decay", plain(p.WeightDecay))
	add(p.LabelSmoothing != 0, "label smoothing", plain(p.LabelSmoothing))
	add(p.Loss != "", "loss", p.Loss)
	add(p.Accumulate > 1, "batches of a step", fmt.Sprint(p.Accumulate))
	add(true, "metric", p.Metric)
	add(len(r.ClassNames) > 0, "classes", classNames(r.ClassNames))
	add(true, "layer order", p.LayerOrder)
	add(true, "seed", fmt.Sprint(p.Seed))
	add(p.Live(), "batches", sampling(p))
	add(!p.ShuffleBatches, "order of batches", "as sampled")
	add(p.ShuffleBatches, "order of batches", "shuffled")
	return Table{"Configuration", rows}
}

// mostNames is the number of classes that the page names.
const mostNames = 64

// classNames lists the names of the classes, with their numbers.
func classNames(names []string) string {
	var b strings.Builder
	for c, name := range names[:min(len(names), mostNames)] {
		fmt.Fprintf(&b, "%d: %s; ", c, name)
	}
	if more := len(names) - mostNames; more > 0 {
		return b.String() + "and " + units.Of(more, "other")
	}
	return strings.TrimSuffix(b.String(), "; ")
}

// sampling describes how batches were drawn while training.
func sampling(p *recipe.Recipe) string {
	return fmt.Sprintf("drawn while training, by %s: %s, fanout %s, fanout for evaluation %s, seed %d", p.Sampler, units.Of(p.BatchSize, "seed node"), p.Fanout, p.EvalFanout, p.SampleSeed)
}

// schedule describes the learning rate after the warm-up; "" if it is constant.
func schedule(p *recipe.Recipe) string {
	switch p.Schedule {
	case "", "constant":
		return ""
	case "cosine":
		return "cosine, down to " + plain(p.MinLR)
	case "plateau":
		return fmt.Sprintf("times %s after more than %s without a better score, down to %s", plain(p.PlateauFactor), units.Of(p.PlateauPatience, "epoch"), plain(p.MinLR))
	}
	return p.Schedule
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
	for _, t := range TypeRows(p.Types, p.TypeInputs) {
		rows = append(rows, Row{"type " + t.Name, t.Value})
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

// mostTypes is the number of node types, and of relations into each, that have rows.
const mostTypes = 16

// TypeRows describes the node types and relations of a typed graph, by the names of the types: nil in others. inputs are the input nodes of the
// training batches by type, or nil.
func TypeRows(t *graph.Types, inputs []int64) []Row {
	if t == nil {
		return nil
	}
	var rows []Row
	all := int64(0)
	for _, n := range inputs {
		all += n
	}
	for i, k := range t.Nodes[:min(len(t.Nodes), mostTypes)] {
		text := units.Of(k.Count, "node")
		if !k.Features {
			text += " without features"
		}
		if i < len(inputs) {
			text += fmt.Sprintf(", %.1f %% of the rows of training batches", 100*float64(inputs[i])/float64(max(all, 1)))
		}
		from, n := t.Into(i)
		var into []string
		for r := range min(n, mostTypes) {
			into = append(into, t.Triple(from+r))
		}
		if n > 0 {
			text += "; " + strings.Join(into, ", ")
		}
		rows = append(rows, Row{k.Name, text})
	}
	return rows
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

// host names the machine of the run, "" if unknown.
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

// cells returns an epoch's row of the table.
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

func orders(list []model.Order) string {
	parts := make([]string, len(list))
	for i, o := range list {
		parts[i] = string(o)
	}
	return strings.Join(parts, ", ")
}
