package pack

import (
	"context"
	"fmt"
	"slices"

	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/pack/packfile"
)

// Plan says what packing would do, and what other choices would cost.
type Plan struct {
	// Samples is the fingerprint of what would be packed, Params what packing would be
	// asked for, all choices made: what a later packing takes from a plan file.
	Samples string          `json:"samples"`
	Params  packfile.Params `json:"params"`
	Nodes   int64           `json:"nodes"`

	Drive Drive `json:"drive"`

	// Chosen is what the options ask for.
	Chosen Choice `json:"chosen"`
	// Choices are others: caches, segments and element types.
	Choices []Choice `json:"choices"`
}

// Drive is what the disks were measured to do, in bytes per second: reading the feature
// table from front to back, writing beside the pack and making it durable, and pages
// of 4 KiB per second read at random from the table. Each was measured for Seconds, after
// so many of load, Drained, in which a throttled drive spends what it saved up while it was
// idle; small tables are read once, without such a load.
type Drive struct {
	Backend    string  `json:"backend"`
	Direct     bool    `json:"direct"` // else the page cache may have answered
	Sequential float64 `json:"sequential_bytes_per_second"`
	Write      float64 `json:"write_bytes_per_second"`
	Pages      float64 `json:"random_pages_per_second"`
	Seconds    float64 `json:"measured_seconds"`
	Drained    float64 `json:"drained_seconds"`
}

// Choice is one pack that could be made, and what it would take.
type Choice struct {
	DType     string `json:"dtype"`
	CacheRows int64  `json:"cache_rows"` // least of every trainer
	HotRows   int64  `json:"hot_rows"`   // stored as hot: largest cache that it serves
	Segment   int    `json:"segment"`    // batches

	DiskBytes int64   `json:"disk_bytes"`
	Blowup    float64 `json:"blowup"` // over the feature table
	// Of the trainer with the least cache, per epoch:
	RAMBytes      int64   `json:"ram_bytes"`     // its cache and three batches
	EpochBytes    int64   `json:"epoch_bytes"`   // read from disk
	Amplification float64 `json:"amplification"` // EpochBytes over the rows and graphs in them
	EpochSeconds  float64 `json:"epoch_seconds"` // at the drive's rate
	// Of packing:
	BytesRead    int64   `json:"bytes_read"`
	BytesWritten int64   `json:"bytes_written"` // what the drive's endurance pays
	Seconds      float64 `json:"seconds"`
	// BreakEven is after how many epochs packing has paid, against reading the rows
	// that the least cache does not hold online, a page each. 0: never.
	BreakEven float64 `json:"break_even_epochs"`
}

// MakePlan says what Run would do with the options, and what other options would cost. It
// reads the samples once and measures the drives; it writes nothing that stays, unless
// the options name a plan file. Its memory is that of taking a census.
func MakePlan(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter) (Plan, error) {
	o.planning = true
	p, err := open(ctx, fsys, o, rep)
	if err != nil {
		return Plan{}, err
	}
	defer p.close()
	plan, err := p.makePlan(ctx)
	if err == nil && o.PlanFile != "" {
		err = plan.save(fsys, o.PlanFile)
	}
	if err != nil {
		return Plan{}, fmt.Errorf("plan: %w", err)
	}
	return plan, nil
}

// makePlan plans the packing that was opened.
func (p *packing) makePlan(ctx context.Context) (Plan, error) {
	plan := Plan{Samples: p.samples.Fingerprint(), Params: p.params, Nodes: p.facts.Nodes}
	if p.params.Policy == packfile.PolicyMin {
		return plan, fault.New(fault.ErrUsage, "--plan --policy min: packs of policy min cannot be planned; they read no more than the static plan of the same --cache says")
	}
	hotness, touched, err := p.ranking()
	if err != nil {
		return plan, err
	}
	q := &planner{p: p, ratio: 1, pages: map[pageKey]float64{}}
	var accesses int64
	if q.costs, accesses, err = p.diskCosts(ctx, hotness, touched); err != nil {
		return plan, err
	}
	slots, err := p.censusSlots()
	if err != nil {
		return plan, err
	}
	task := p.rep.Task("count shared rows", 0, "")
	q.census, err = takeCensus(ctx, p.samples, p.rank, q.costs.edges, slots)
	task.Done()
	if err != nil {
		return plan, err
	}
	if err := q.measure(ctx); err != nil {
		return plan, err
	}
	plan.Drive = q.drive
	if _, err := p.chooseCut(ctx, q.costs, accesses); err != nil {
		return plan, err
	}
	if plan.Chosen, err = q.chosen(ctx); err != nil {
		return plan, err
	}
	plan.Choices, err = q.choices(ctx)
	return plan, err
}

// planner holds what all choices share.
type planner struct {
	p      *packing
	costs  *diskCosts
	census *Census
	drive  Drive

	graphSeconds float64 // of the first pass
	ratio        float64 // of compressed chunks to their rows; 1 without compression
	pages        map[pageKey]float64
}

// pageKey names a measured amplification of the SSD level.
type pageKey struct{ edge, segment, rowBytes int }

// measure times the drives, the first pass, and the codec that was chosen.
func (q *planner) measure(ctx context.Context) (err error) {
	p := q.p
	if q.drive, err = p.measureDrive(ctx); err != nil {
		return err
	}
	if p.packedForm().Compressed() {
		m, err := p.measureCodecs(ctx)
		if err != nil {
			return err
		}
		for _, c := range m.of {
			if c.codec == p.params.Codec {
				q.ratio = c.ratio
			}
		}
	}
	n, err := p.renumberSlots()
	if err != nil {
		return err
	}
	var slots []*graphSlot
	for range n {
		slots = append(slots, &graphSlot{renumberer: renumberer{rank: p.rank, edges: q.costs.edges, hot: q.costs.edges[0], eval: p.eval}})
	}
	q.graphSeconds, err = p.graphPassSeconds(ctx, slots)
	return err
}

// renumberSlots returns how many batches may be renumbered at once beside the census.
func (p *packing) renumberSlots() (int, error) {
	s := p.samples.Facts()
	held, slot := heldMemory(p.facts.Nodes)+recordMemory(s), slotBytes(s)
	if err := budget.Check("renumbering a batch", held+slot, p.o.Memory); err != nil {
		return 0, err
	}
	return min(p.o.Workers, int((p.o.Memory-held)/slot)), nil
}

// chosen describes the pack that the options ask for, which chooseCut has settled.
func (q *planner) chosen(ctx context.Context) (Choice, error) {
	f := &q.p.facts
	last := len(q.costs.edges) - 1
	i := slices.Index(q.census.Segments, f.Segment)
	l := unshared(q.census.Accesses[last])
	if f.Segment > 1 {
		l = q.census.level(i)
	}
	return q.describe(ctx, q.costs, slices.Index(q.costs.edges, f.HotRows), l, i, last)
}

// choices lists the packs worth telling of: every cache and narrower type with
// segments of one batch, and for the wanted type some longer segments.
func (q *planner) choices(ctx context.Context) ([]Choice, error) {
	var list []Choice
	for _, to := range q.types() {
		for edge := len(q.costs.edges) - 1; edge >= 0; edge-- {
			for _, i := range q.lengths(to) {
				c, err := q.choice(ctx, to, edge, i)
				if err != nil {
					return nil, err
				}
				list = append(list, c)
			}
		}
	}
	return list, nil
}

// types returns the wanted type, and the others that are no wider than the table's.
func (q *planner) types() []dtype.Type {
	list := []dtype.Type{q.p.to}
	for _, t := range []dtype.Type{q.p.ds.Facts().DType, dtype.BFloat16, dtype.Int8} {
		if t.Size() <= q.p.ds.Facts().DType.Size() && !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	return list
}

// lengths returns the places, in the census, of the segments to tell of.
func (q *planner) lengths(to dtype.Type) []int {
	if to != q.p.to {
		return []int{0}
	}
	last := len(q.census.Segments) - 1
	return slices.Compact([]int{0, last / 4, last / 2, last})
}

// choice describes the pack of a type whose least cache is the given edge, with
// segments of the census' i-th length. Only with segments of one batch does it hold
// the larger caches as hot too.
func (q *planner) choice(ctx context.Context, to dtype.Type, edge, i int) (Choice, error) {
	d := *q.costs
	d.facts.DType, d.facts.RowBytes = to, to.RowBytes(d.facts.Dim)
	d.edges, d.form.RowBytes = q.costs.edges[:edge+1], d.facts.RowBytes
	if i == 0 {
		return q.describe(ctx, &d, 0, unshared(q.census.Accesses[edge]), i, edge)
	}
	stored, shared := q.census.Stored[edge][i], q.census.Shared[edge][i]
	l := level{cold: stored - shared, ssd: shared, uses: q.census.Accesses[edge] - (stored - shared), segment: q.census.Segments[i]}
	return q.describe(ctx, &d, edge, l, i, edge)
}

// describe completes a choice: the pack of d whose coldest edge is d.edges[top] and
// whose lowest is the census' given one.
func (q *planner) describe(ctx context.Context, d *diskCosts, top int, l level, i, edge int) (Choice, error) {
	f, rb := &d.facts, int64(d.facts.RowBytes)
	s := q.p.samples.Facts()
	least := d.edges[len(d.edges)-1]
	coldRows := l.cold * rb
	cold := int64(float64(coldRows) * q.ratio) // as stored
	c := Choice{DType: string(f.DType), CacheRows: least, HotRows: d.edges[top], Segment: l.segment, DiskBytes: d.bytes(top, l) - coldRows + cold}
	c.Blowup = float64(c.DiskBytes) / float64(max(f.TableBytes, 1))

	pages, err := q.amplification(ctx, edge, i, int(rb))
	if err != nil {
		return c, err
	}
	rounds := int64(max(f.Epochs, 1))
	useful := cold + l.uses*rb + s.Train.Bytes + 4*l.uses
	read := useful + int64(float64(l.uses*rb)*(pages-1))
	c.EpochBytes, c.Amplification = read/rounds, float64(read)/float64(max(useful, 1))
	c.EpochSeconds = float64(c.EpochBytes) / q.drive.Sequential
	c.RAMBytes = least*rb + 3*q.slotBytes(rb)

	scratch := int64(0) // written and read again
	if d.form.Compressed() {
		scratch += coldRows
	}
	c.BytesRead = q.p.tableRead + s.Train.Bytes + s.Eval.Bytes + scratch
	c.BytesWritten = c.DiskBytes + 4*(l.cold+l.ssd) + scratch
	c.Seconds = q.graphSeconds + float64(q.p.tableRead+scratch)/q.drive.Sequential + float64(c.BytesWritten)/q.drive.Write
	online := float64((l.cold+l.uses)/rounds) / q.drive.Pages
	if gain := online - c.EpochSeconds; gain > 0 {
		c.BreakEven = c.Seconds / gain
	}
	return c, nil
}

// slotBytes estimates what a batch on its way holds in a trainer.
func (q *planner) slotBytes(rowBytes int64) int64 {
	f := &q.p.facts
	if len(f.TrainSizes.Src) == 0 {
		return 0
	}
	n := int64(f.TrainSizes.Src[0])
	return n*int64(f.Dim)*4 + n*rowBytes + 3*q.p.samples.Facts().Train.Bytes/int64(max(f.Train, 1))
}

// amplification returns the bytes read per useful byte of the SSD level, found on
// a segment in the middle of the samples.
func (q *planner) amplification(ctx context.Context, edge, i, rowBytes int) (float64, error) {
	length := q.census.Segments[i]
	if length == 1 {
		return 1, nil
	}
	key := pageKey{edge, length, rowBytes}
	if v, ok := q.pages[key]; ok {
		return v, nil
	}
	v, err := samplePages(ctx, q.p.samples, q.p.rank, q.costs.edges[:edge+1], length, rowBytes)
	q.pages[key] = v
	return v, err
}
