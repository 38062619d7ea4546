package cut

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"strings"

	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/idset"
	"diskgnn/internal/progress"
	"diskgnn/internal/shard"
	"diskgnn/internal/vfs"
	"diskgnn/pack/packfile"
	"diskgnn/presample/mbfile"
)

// A Decision determines a pack's content, together with the samples and the feature table, and has the
// pack's sizes. It depends only on the content parameters and the shard of the Request.
type Decision struct {
	Params packfile.Params
	// Facts are the pack's facts, without the counts of rows and bytes that are only known after the
	// renumbering of the batches.
	Facts packfile.Facts
	Edges []int64       // caches to choose from, in ranks, descending
	Bands int           // of a chunk
	Part  packfile.Part // the part of the pack for the request's shard

	// Rank is, by node, its place by descending hotness, ties by ascending node. Eval are the
	// nodes of eval.bin; it may be nil for a part without that file.
	Rank []uint32
	// Classes has the first rank of each hotness, ascending.
	Classes []uint32
	Eval    *idset.Set

	Bytes int64 // upper limit of the size of the whole pack
	// The following are estimates for the part.
	PartBytes int64
	Cold, SSD int64 // rows stored in chunks, and on the SSD level
	// EvalCold are the rows in chunks of validation batches.
	EvalCold int64
	Scratch  int64 // bytes of scratch lists

	Shared int64 // upper limit of the nodes that a segment shares

	// Under policy min, the simulation's counts, and the files of its recording.
	Cache  Stats
	Record Record
}

// A Request has the inputs of a decision: samples, parameters and limits.
type Request struct {
	Samples *mbfile.Reader
	Name    string // of the samples, for messages
	Params  packfile.Params
	// Facts are the facts of the dataset and the samples. Segment is 1.
	Facts    packfile.Facts
	Shard    shard.Shard
	Workers  int
	Memory   int64 // bytes
	Reporter progress.Reporter
}

// Form returns the form of the pack's chunks.
func (r *Request) Form() packfile.Form {
	return packfile.Form{RowBytes: r.Facts.RowBytes, Codec: r.Params.Codec}
}

// minimal reports whether the policy is min.
func (r *Request) minimal() bool { return r.Params.Policy == packfile.PolicyMin }

// Counts are the counts from which a decision is made. They are for one goroutine.
type Counts struct {
	Request
	Rank, Classes []uint32   // as in Decision
	Eval          *idset.Set // the evaluation's nodes ranked at the lowest edge or above; under min, all

	costs    costs
	accesses int64   // uses, by training batches, of such nodes
	census   *Census // nil until it is taken
}

// Count ranks the nodes and counts their uses by training batches, and collects the nodes that evaluation
// uses. It reads the hotness and the evaluation batches of the samples. Too little memory is an error of
// kind fault.ErrBudget.
func Count(ctx context.Context, r Request) (*Counts, error) {
	c := &Counts{Request: r, costs: costs{facts: r.Facts, form: r.Form()}}
	c.costs.graphs, c.costs.blocks = graphBytesOf(r.Samples, len(r.Params.Bands)+1)
	hotness, touched, err := c.ranking()
	if err != nil {
		return nil, err
	}
	least := int64(0)
	if r.minimal() {
		c.costs.edges = []int64{min(r.Params.CacheRows, touched)}
	} else {
		c.costs.edges = packfile.BandEdges(r.Facts.Nodes, touched, r.Params.CacheRows, r.Params.Bands)
		least = c.costs.lowest()
	}
	for v, n := range hotness {
		if int64(c.Rank[v]) >= least {
			c.accesses += int64(n)
		}
	}
	if c.Eval, err = evalNodes(ctx, r.Samples, c.Rank, least, r.Memory, c.costs.evalChunks(r.Params.EvalChunks)); err != nil {
		return nil, err
	}
	for e := 1; e < len(c.costs.evalCold); e++ {
		c.costs.evalCold[e] += c.costs.evalCold[e-1]
	}
	if r.minimal() {
		c.costs.eval = []int64{c.Eval.Count()}
	} else {
		c.costs.eval = evalCounts(c.Eval, c.Rank, c.costs.edges)
	}
	return c, nil
}

// Again returns the decision of an interrupted run that has packed the graphs and saved the
// facts, the edges and the bands.
func Again(ctx context.Context, r Request, facts packfile.Facts, edges []int64, bands int) (Decision, error) {
	c := &Counts{Request: r}
	d := Decision{
		Params: r.Params, Facts: facts, Edges: edges, Bands: bands, Part: packfile.PartOf(r.Shard, &facts),
		Cold: facts.ColdRows, SSD: facts.SSDRows, EvalCold: facts.EvalColdRows,
	}
	if _, _, err := c.ranking(); err != nil {
		return d, err
	}
	d.Rank, d.Classes = c.Rank, c.Classes
	if !d.Part.Common {
		return d, nil
	}
	hot := facts.HotRows
	if r.minimal() {
		hot = 0
	}
	var err error
	if d.Eval, err = evalNodes(ctx, r.Samples, d.Rank, hot, r.Memory, func(int, uint32) {}); err == nil {
		d.Eval.Count()
	}
	return d, err
}

// ranking reads the hotness and ranks the nodes. It returns the hotness and the number of nodes that
// training batches touch.
func (c *Counts) ranking() (hotness []uint32, touched int64, err error) {
	s := c.Samples.Facts()
	need := budget.Reserve + s.IndexBytes() + rankingMemory(s.Nodes, s.TrainBatches)
	if err := budget.Check("ranking the nodes", need, c.Memory); err != nil {
		return nil, 0, err
	}
	if hotness, err = c.Samples.Hotness(); err != nil {
		return nil, 0, err
	}
	if most := slices.Max(hotness); int64(most) > int64(s.TrainBatches) { // ranking counts up to it
		return nil, 0, fault.New(fault.ErrCorrupt, "%s: the hotness of a node is %d, more than the %d training batches", c.Name, most, s.TrainBatches)
	}
	c.Rank, c.Classes, touched = Rank(hotness)
	return hotness, touched, nil
}

// evalNodes collects the evaluation batches' nodes ranked at hot or above, and calls use for each of their
// uses. Of each batch it reads the nodes alone.
func evalNodes(ctx context.Context, samples *mbfile.Reader, rank []uint32, hot, memory int64, use func(batch int, rank uint32)) (*idset.Set, error) {
	f := samples.Facts()
	lo, hi := f.TrainBatches, f.Batches()
	most := int64(0)
	for i := lo; i < hi; i++ {
		most = max(most, samples.Info(i).Size)
	}
	if err := budget.Check("collecting the nodes of evaluation", HeldMemory(f.Nodes)+RecordMemory(f)+most, memory); err != nil {
		return nil, err
	}
	set := idset.New(int64(len(rank)))
	raw := make([]byte, 0, most)
	for i := lo; i < hi; i++ {
		var nodes []uint32
		var err error
		if nodes, raw, err = samples.Inputs(ctx, i, raw); err != nil {
			return nil, err
		}
		for _, v := range nodes {
			if int64(rank[v]) >= hot {
				set.Add(v)
				use(i, rank[v])
			}
		}
	}
	return set, nil
}

// Edges returns the cache sizes of the request, in rows, descending. Each is also the rank of hotness at
// which a band ends. The caller must not change the slice.
func (c *Counts) Edges() []int64 { return c.costs.edges }

// TakeCensus counts the rows that the training batches share, for all edges: Plan needs it. It reads the
// input nodes of every training batch.
func (c *Counts) TakeCensus(ctx context.Context) error { return c.takeCensus(ctx, c.costs.edges) }

func (c *Counts) takeCensus(ctx context.Context, edges []int64) (err error) {
	s := c.Samples.Facts()
	slots, err := censusSlots(s, c.Workers, c.Memory)
	if err != nil {
		return err
	}
	task := c.Reporter.Task("count shared rows", int64(s.TrainBatches), progress.Batches)
	defer task.Done()
	c.census, err = takeCensus(ctx, c.Samples, c.Rank, edges, slots, task)
	return err
}

// censusSlots returns the number of batches that a census holds at a time: one more than the workers, if the
// memory suffices.
func censusSlots(s mbfile.Facts, workers int, memory int64) (int, error) {
	held := HeldMemory(s.Nodes) + RecordMemory(s) + censusMemory(s.Nodes)
	slot := SlotBytes(s) / 2
	if err := budget.Check("counting the rows that batches share", held+slot, memory); err != nil {
		return 0, err
	}
	return min(workers+1, int((memory-held)/slot)), nil
}

// Decide decides band edges and segments under the static policy: the shortest segments with which the pack
// keeps within --max-disk, and then the largest set of the wanted edges that the disk budget allows. If no
// choice fits, the error is of kind fault.ErrBudget and states the size that would. Rows are counted by a
// census, so that the choice is exact but for the pages' padding. (DiskGNN looks at the first segment and
// supposes that all are like it.)
func (c *Counts) Decide(ctx context.Context) (Decision, error) {
	limit := c.Params.MaxDisk
	least := c.costs.bytes(0, unshared(c.accesses))
	if limit == 0 || least <= limit {
		return c.settle(0, unshared(c.accesses)), nil
	}
	last := len(c.costs.edges) - 1
	if c.census == nil {
		if err := c.takeCensus(ctx, c.costs.edges[last:]); err != nil {
			return Decision{}, err
		}
		defer debug.FreeOSMemory() // the census makes room for the first pass
	}
	for i := range c.census.Segments {
		l := c.census.lowest(i)
		least = min(least, c.costs.bytes(last, l))
		for edge := range c.costs.edges {
			if c.costs.bytes(edge, l) <= limit {
				return c.settle(edge, l), nil
			}
		}
	}
	return Decision{}, c.beyondBudget("the least possible pack of these samples", least, "that")
}

// settle returns the decision for the largest cache edges[edge] and a level of rows
// outside it, and leaves the nodes of eval.bin in Eval.
func (c *Counts) settle(edge int, l level) Decision {
	d := c.decision(c.costs.edges[edge:], c.costs.eval[edge], l)
	retain(c.Eval, c.Rank, d.Facts.HotRows)
	c.Eval.Count()
	d.Bytes = c.costs.bytes(edge, l)
	d.Shared = min(l.ssd, d.Facts.Nodes-c.costs.lowest())
	d.Cold, d.SSD = d.share(l.cold), d.share(l.ssd)
	d.Scratch = 4 * (d.Cold + d.SSD)
	d.PartBytes = d.ownBytes(0)
	return d
}

func (c *Counts) decision(edges []int64, eval int64, l level) Decision {
	d := Decision{Params: c.Params, Facts: c.Facts, Edges: edges, Bands: len(edges), Rank: c.Rank, Classes: c.Classes, Eval: c.Eval}
	f := &d.Facts
	f.HotRows, f.EvalRows = edges[0], eval
	d.EvalCold = c.costs.evalChunkRows()
	f.Segment, f.Segments = l.segment, SegmentsOf(f.Train, l.segment)
	d.Part = packfile.PartOf(c.Shard, f)
	return d
}

// Least returns the decision under policy min as if every access were a hit: a lower bound of all sizes,
// known before the simulation. If --max-disk is below it, the error is of kind fault.ErrBudget.
func (c *Counts) Least() (Decision, error) {
	d := c.minDecision(0)
	d.Scratch = 8*c.accesses + d.share(4*c.accesses)
	return d, c.checkMin(&d, "more than that")
}

// Simulate decides under policy min: it simulates the cache, with scratch files in dir, and records a cycle
// in rec. beside is the memory of rec in bytes, without its records of single accesses.
func (c *Counts) Simulate(ctx context.Context, fsys vfs.FS, dir string, beside int64, rec Recorder) (Decision, error) {
	s := c.Samples.Facts()
	rows := c.costs.edges[0]
	slots, err := simulationSlots(s, rows, HeldMemory(s.Nodes)+RecordMemory(s)+beside, c.Workers, c.Memory)
	if err != nil {
		return Decision{}, err
	}
	defer budget.LimitHeap(c.Memory, 0)()
	defer debug.FreeOSMemory()
	task := c.Reporter.Task("simulate the cache", 0, progress.Batches)
	defer task.Done()
	sim, err := NewSimulator(ctx, fsys, dir, c.Samples, slots)
	if err != nil {
		return Decision{}, err
	}
	stats, err := sim.Run(ctx, rows, c.Rank, counted{rec, task})
	if err := errors.Join(err, sim.Close()); err != nil {
		return Decision{}, err
	}
	d := c.minDecision(stats.Accesses - stats.Hits)
	d.Cache = stats
	if d.Record, err = rec.End(); err != nil {
		return d, err
	}
	c.Reporter.Logf("policy min: the cache serves %.1f%% of the rows; %d cycles simulated", 100*float64(stats.Hits)/float64(max(stats.Accesses, 1)), len(stats.Cycles)+1)
	return d, c.checkMin(&d, "that")
}

// counted reports the batches that are recorded.
type counted struct {
	Recorder
	task progress.Task
}

func (c counted) Batch(t int, codes, held []uint32) error {
	c.task.Add(1)
	return c.Recorder.Batch(t, codes, held)
}

// minDecision returns the decision under policy min for the given misses.
func (c *Counts) minDecision(misses int64) Decision {
	d := c.decision(c.costs.edges, c.costs.eval[0], unshared(misses))
	d.Bands = 2
	d.Bytes = c.costs.minBytes(c.accesses, misses)
	d.Cold = d.share(misses)
	d.Scratch = d.share(4 * (misses + c.accesses))
	d.PartBytes = d.ownBytes(Refills(d.Facts.Train) * 8 * d.Facts.HotRows)
	return d
}

// checkMin compares the bytes of the pack with --max-disk. allow is the advice in the error: the size to
// allow.
func (c *Counts) checkMin(d *Decision, allow string) error {
	if limit := c.Params.MaxDisk; limit > 0 && d.Bytes > limit {
		return c.beyondBudget("a pack of policy min", d.Bytes, allow)
	}
	return nil
}

// share estimates the part's number of bytes, or rows, from the number n of all training batches: batches
// are alike.
func (d *Decision) share(n int64) int64 {
	lo, hi := d.Part.Batches(&d.Facts)
	if hi-lo == d.Facts.Train {
		return n
	}
	return int64(float64(n) * float64(hi-lo) / float64(max(d.Facts.Train, 1)))
}

// ownBytes estimates the bytes of the part. once is the number of bytes that the pack has once, beside hot
// rows and evaluation rows.
func (d *Decision) ownBytes(once int64) int64 {
	f := &d.Facts
	once += (f.HotRows + f.EvalRows + d.EvalCold) * int64(f.RowBytes)
	own := d.share(d.Bytes - once)
	if d.Part.Common {
		own += once
	}
	return own
}

// DiskError refuses a pack that is larger than --max-disk. It is of kind fault.ErrBudget.
type DiskError struct {
	Need int64 // bytes of the smallest pack that the decision considered
	err  error
}

func (e *DiskError) Error() string { return e.err.Error() }

// Unwrap returns the error with its kind.
func (e *DiskError) Unwrap() error { return e.err }

// beyondBudget returns the error for a need above --max-disk. allow is the size that --max-disk should
// allow, for the message.
func (c *Counts) beyondBudget(what string, need int64, allow string) error {
	// Rounded up: a --max-disk of this figure suffices.
	times := float64((need*1000+c.Facts.TableBytes-1)/max(c.Facts.TableBytes, 1)) / 1000
	return &DiskError{need, fault.New(fault.ErrBudget, "%s needs %s (%d bytes, %.3fx the features) and --max-disk allows %s; allow %s, %sor presample fewer epochs",
		what, budget.FormatBytes(need), need, times, budget.FormatBytes(c.Params.MaxDisk), allow, Narrower(&c.Facts))}
}

// Narrower returns advice for an error message: "use --dtype bf16, int8 or int4, ", with the element types that
// have shorter rows than the pack, or "" if there are none.
func Narrower(f *packfile.Facts) string {
	var names []string
	for _, n := range []string{"bf16", "int8", "int4"} {
		if t, err := dtype.Parse(n); err == nil && t.RowBytes(f.Dim) < f.RowBytes {
			names = append(names, n)
		}
	}
	switch n := len(names); n {
	case 0:
		return ""
	case 1:
		return "use --dtype " + names[0] + ", "
	default:
		return "use --dtype " + strings.Join(names[:n-1], ", ") + " or " + names[n-1] + ", "
	}
}

// HeldMemory returns the memory that every part of a packing holds, in bytes: the program, ranks, and
// the evaluation set with its counts.
func HeldMemory(nodes int64) int64 { return budget.Reserve + 4*nodes + idset.Bytes(nodes) }

// RecordMemory returns the bytes of the samples' index and of the first rank of each hotness. Both are held during the
// whole packing.
func RecordMemory(s mbfile.Facts) int64 { return s.IndexBytes() + 4*int64(s.TrainBatches+1) }

// rankingMemory returns the bytes that ranking takes: the hotness and the rank of every node, and a count
// and a first rank for every hotness.
func rankingMemory(nodes int64, batches int) int64 { return 8*nodes + 12*int64(batches+2) }

// SlotBytes estimates the memory of one batch in the first pass, in bytes: its graph decoded, encoded
// twice, and the arrays for sorting.
func SlotBytes(s mbfile.Facts) int64 {
	most := int64(0)
	for _, m := range []mbfile.Summary{s.Train, s.Eval} {
		n := int64(0)
		for l := range m.Max.Src {
			n += 4*int64(m.Max.Edges[l]) + 8*int64(m.Max.Dst[l])
		}
		if last := len(m.Max.Src) - 1; last >= 0 {
			n += 48*int64(m.Max.Src[0]) + int64(s.TargetBytes)*int64(m.Max.Dst[last])
		}
		most = max(most, 3*n)
	}
	return most + 1<<20
}
