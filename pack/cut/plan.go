package cut

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/pack/packfile"
)

// Plan has the predicted outcome of packing, and the costs of other choices. Its JSON is the plan file.
type Plan struct {
	// Samples is the fingerprint of the samples to pack. Params are the content parameters with all
	// choices made, which a later packing takes from a plan file.
	Samples string          `json:"samples"`
	Params  packfile.Params `json:"params"`
	Nodes   int64           `json:"nodes"`

	Drive Drive `json:"drive"`
	// FreeBytes is the free space of the disk that the pack is to lie on.
	FreeBytes int64 `json:"free_bytes"`

	// Chosen describes the decision.
	Chosen Choice `json:"chosen"`
	// Choices are alternatives: caches, segments and element types.
	Choices []Choice `json:"choices"`
	// Recommended is the index of one of Choices, or None; Why is the reason, a clause.
	Recommended int    `json:"recommended"`
	Why         string `json:"why"`
}

// Drive has the measured rates of the disks: reading the feature table from front to back, in bytes per
// second; writing beside the pack and making it durable, in bytes per second; and random reads of pages
// of 4 KiB from the table, in pages per second. Each was measured for Seconds, after Drained seconds of
// load, in which a throttled drive spends the credit that it saved while idle. Small tables are read
// once, without such a load.
type Drive struct {
	Backend    string  `json:"backend"`
	Direct     bool    `json:"direct"` // reads bypassed the page cache
	Sequential float64 `json:"sequential_bytes_per_second"`
	Write      float64 `json:"write_bytes_per_second"`
	Pages      float64 `json:"random_pages_per_second"`
	Seconds    float64 `json:"measured_seconds"`
	Drained    float64 `json:"drained_seconds"`
}

// Choice is one possible pack, with its sizes and costs.
type Choice struct {
	DType     string `json:"dtype"`
	CacheRows int64  `json:"cache_rows"` // least cache of every trainer
	HotRows   int64  `json:"hot_rows"`   // rows stored as hot: the largest cache that the pack serves
	Segment   int    `json:"segment"`    // batches of a segment

	DiskBytes int64   `json:"disk_bytes"`
	MaxDisk   int64   `json:"max_disk_bytes"` // with this --max-disk and this least cache, packing chooses these segments, or shorter ones
	Blowup    float64 `json:"blowup"`         // DiskBytes over the bytes of the feature table
	// The following are of the trainer with the least cache; amounts are per epoch.
	RAMBytes      int64   `json:"ram_bytes"`     // memory of the cache and of three batches
	EpochBytes    int64   `json:"epoch_bytes"`   // read from disk
	Amplification float64 `json:"amplification"` // EpochBytes over the rows and graphs in them
	EpochSeconds  float64 `json:"epoch_seconds"` // at the drive's rate
	// The following are of packing.
	BytesRead    int64   `json:"bytes_read"`
	BytesWritten int64   `json:"bytes_written"` // counts against the drive's endurance
	Seconds      float64 `json:"seconds"`
	// BreakEven is the number of epochs after which packing has paid. The alternative is to read each row
	// that the least cache lacks while training, with a page for each row. 0: never.
	BreakEven float64 `json:"break_even_epochs"`
	// EvalChunkBytes are the bytes of rows that a validation reads with the least cache, if its batches have
	// chunks and memory holds none of their rows.
	EvalChunkBytes int64 `json:"eval_chunk_bytes,omitempty"`
}

// Measured has the measured inputs of a plan.
type Measured struct {
	Drive Drive
	Table int64      // size of the table's file in bytes
	DType dtype.Type // type of the table's elements

	GraphSeconds float64 // time of the first pass
	Ratio        float64 // bytes of chunks over bytes of their rows; 1 without compression
}

// Plan describes a decision and its alternatives. TakeCensus must have been called.
func (c *Counts) Plan(ctx context.Context, d Decision, m Measured) (Plan, error) {
	plan := Plan{Samples: c.Samples.Fingerprint(), Params: c.Params, Nodes: c.Facts.Nodes, Drive: m.Drive}
	q := &planner{Counts: c, Measured: m, decided: &d, pages: map[pageKey]float64{}}
	var err error
	if plan.Chosen, err = q.chosen(ctx); err != nil {
		return plan, err
	}
	task := c.Reporter.Task("compare choices", int64(len(q.rows())), progress.Choices)
	defer task.Done()
	plan.Choices, err = q.choices(ctx, task)
	return plan, err
}

// planner holds the common part of all choices.
type planner struct {
	*Counts
	Measured
	decided *Decision
	pages   map[pageKey]float64
}

// pageKey names a measured amplification of the SSD level.
type pageKey struct{ edge, segment, rowBytes int }

// chosen describes the pack of the decision.
func (q *planner) chosen(ctx context.Context) (Choice, error) {
	f := &q.decided.Facts
	last := len(q.costs.edges) - 1
	i := slices.Index(q.census.Segments, f.Segment)
	l := unshared(q.census.Accesses[last])
	if f.Segment > 1 {
		l = q.census.lowest(i)
	}
	return q.describe(ctx, &q.costs, slices.Index(q.costs.edges, f.HotRows), l, i, last)
}

// row is a choice: its element type, and the indices of its least cache and of its segment length in the
// census.
type row struct {
	dtype   dtype.Type
	edge, i int
}

// rows lists every cache and narrower type with segments of one batch and, for the
// type of the decision, some longer segments.
func (q *planner) rows() (list []row) {
	for _, to := range q.types() {
		for edge := len(q.costs.edges) - 1; edge >= 0; edge-- {
			for _, i := range q.lengths(to) {
				list = append(list, row{to, edge, i})
			}
		}
	}
	return list
}

// choices describes all rows.
func (q *planner) choices(ctx context.Context, task progress.Task) (list []Choice, err error) {
	for _, r := range q.rows() {
		c, err := q.choice(ctx, r.dtype, r.edge, r.i)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
		task.Add(1)
	}
	return list, nil
}

// types returns the type of the decision, and the others that are no wider than the
// table's.
func (q *planner) types() []dtype.Type {
	list := []dtype.Type{q.Facts.DType}
	for _, t := range []dtype.Type{q.DType, dtype.BFloat16, dtype.Int8, dtype.Int4} {
		if t.Bits() <= q.DType.Bits() && !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	return list
}

// lengths returns the places in the census of the segment lengths that are listed.
func (q *planner) lengths(to dtype.Type) []int {
	if to != q.Facts.DType {
		return []int{0}
	}
	last := len(q.census.Segments) - 1
	return slices.Compact([]int{0, last / 4, last / 2, last})
}

// choice describes the pack of the given element type with the given edge as least cache, and with segments
// of the census' i-th length. With segments of one batch its hot rows serve the larger caches too; with
// longer segments its hot rows are the least cache.
func (q *planner) choice(ctx context.Context, to dtype.Type, edge, i int) (Choice, error) {
	d := q.costs
	d.facts.DType, d.facts.RowBytes = to, to.RowBytes(d.facts.Dim)
	d.edges, d.form.RowBytes = q.costs.edges[:edge+1], d.facts.RowBytes
	if i == 0 {
		return q.describe(ctx, &d, 0, unshared(q.census.Accesses[edge]), i, edge)
	}
	return q.describe(ctx, &d, edge, q.census.level(edge, i), i, edge)
}

// describe describes the pack of d with the largest cache d.edges[top] and the census' given edge as least
// cache, with segments of the census' i-th length.
func (q *planner) describe(ctx context.Context, d *costs, top int, l level, i, edge int) (Choice, error) {
	f, rb := &d.facts, int64(d.facts.RowBytes)
	s := q.Samples.Facts()
	least := d.edges[len(d.edges)-1]
	coldRows := l.cold * rb
	cold := int64(float64(coldRows) * q.Ratio) // as stored
	c := Choice{DType: string(f.DType), CacheRows: least, HotRows: d.edges[top], Segment: l.segment, MaxDisk: d.bytes(top, l)}
	c.DiskBytes = c.MaxDisk - coldRows + cold
	c.Blowup = float64(c.DiskBytes) / float64(max(f.TableBytes, 1))

	pages, err := q.amplification(ctx, edge, i, int(rb))
	if err != nil {
		return c, err
	}
	rounds := int64(max(f.Epochs, 1))
	// Of the graphs, every model reads blocks and plans, and the ranks of rows in memory.
	ranks := (s.Train.InputNodes - l.cold - l.uses) * int64(bits.Len64(uint64(least))) / 8
	useful := cold + l.uses*rb + d.blocks + 4*l.uses + ranks
	read := useful + int64(float64(l.uses*rb)*(pages-1))
	c.EpochBytes, c.Amplification = read/rounds, float64(read)/float64(max(useful, 1))
	c.EpochSeconds = float64(c.EpochBytes) / q.Drive.Sequential
	c.RAMBytes = least*rb + 3*q.trainerSlot(rb)

	scratch, again := int64(0), int64(0) // bytes written and read again; bytes of the pack that are read
	if d.form.Compressed() {
		scratch += coldRows
	}
	if d.evalCold != nil {
		c.EvalChunkBytes = d.evalChunkRows() * rb
		again = (d.edges[top] - least + d.eval[top]) * rb
	}
	c.BytesRead = q.Table + s.Train.Bytes + s.Eval.Bytes + scratch + again
	c.BytesWritten = c.DiskBytes + 4*(l.cold+l.ssd) + scratch
	c.Seconds = q.GraphSeconds + float64(q.Table+scratch+again)/q.Drive.Sequential + float64(c.BytesWritten)/q.Drive.Write
	online := float64((l.cold+l.uses)/rounds) / q.Drive.Pages
	if gain := online - c.EpochSeconds; gain > 0 {
		c.BreakEven = c.Seconds / gain
	}
	return c, nil
}

func (q *planner) trainerSlot(rowBytes int64) int64 {
	f := &q.Facts
	if len(f.TrainSizes.Src) == 0 {
		return 0
	}
	n := int64(f.TrainSizes.Src[0])
	return n*int64(f.Dim)*4 + n*rowBytes + 3*q.Samples.Facts().Train.Bytes/int64(max(f.Train, 1))
}

// amplification returns the bytes read per useful byte of the SSD level, measured on the
// segment in the middle of the samples.
func (q *planner) amplification(ctx context.Context, edge, i, rowBytes int) (float64, error) {
	length := q.census.Segments[i]
	if length == 1 {
		return 1, nil
	}
	key := pageKey{edge, length, rowBytes}
	if v, ok := q.pages[key]; ok {
		return v, nil
	}
	v, err := samplePages(ctx, q.Samples, q.Rank, q.costs.edges[:edge+1], length, rowBytes)
	q.pages[key] = v
	return v, err
}

// CodecAuto is the codec in the parameters of a request when it is still to be chosen by measuring.
const CodecAuto = "auto"

// Save writes the plan as JSON to the file name, which it replaces. It makes missing parent directories.
func (p *Plan) Save(fsys vfs.FS, name string) error {
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	if err := vfs.MakeParents(fsys, name); err != nil {
		return err
	}
	return vfs.ReplaceFile(fsys, name, append(b, '\n'))
}

// maxPlan bounds the bytes of a plan: one takes a few thousand.
const maxPlan = 1 << 20

// ReadPlan reads a plan file of Save. Another file is an error of kind fault.ErrInput.
func ReadPlan(fsys vfs.FS, name string) (*Plan, error) {
	b, err := vfs.ReadSmall(fsys, name, maxPlan)
	if err != nil {
		return nil, fmt.Errorf("--plan-file: %w", err)
	}
	var p Plan
	err = json.Unmarshal(b, &p)
	if err == nil && p.Samples == "" {
		err = errors.New("it names no samples")
	}
	if err != nil {
		return nil, fault.New(fault.ErrInput, "--plan-file %s: not a plan that pack --plan wrote: %v", name, err)
	}
	return &p, nil
}

// Adopt sets the codec in params to the plan's choice if it is CodecAuto. A plan for samples of another
// fingerprint is an error of kind fault.ErrLineage; one with other parameters is an error of kind
// fault.ErrUsage. name is the plan file, and words give the parameters as flags, for the messages.
func (p *Plan) Adopt(name, samples string, params *packfile.Params, words stage.Words) error {
	if p.Samples != samples {
		return fault.New(fault.ErrLineage, "%s is a plan for the samples %.12s, but these are the samples %.12s", name, p.Samples, samples)
	}
	if params.Codec == CodecAuto {
		params.Codec = p.Params.Codec
	}
	planned, wanted := stage.Spec{Params: p.Params}, stage.Spec{Params: *params, Words: words}
	if diff := wanted.Changes(planned); diff != "" {
		return fault.New(fault.ErrUsage, "%s was planned with other options: %s; plan again, or give the same options", name, diff)
	}
	return nil
}
