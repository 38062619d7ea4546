package presample

import (
	"context"
	"errors"
	"fmt"
	"time"

	"diskgnn/graph"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
)

// plannedBatches is how many batches of training, and of evaluation, a plan draws.
const plannedBatches = 3

// Plan has the predicted costs of a sampling; for a shard, of this shard. The JSON keys are stable.
type Plan struct {
	Epochs       int `json:"epochs"`
	TrainBatches int `json:"train_batches"` // of all epochs
	ValidBatches int `json:"valid_batches"`
	TestBatches  int `json:"test_batches"`

	// Measured is the number of training batches that were drawn to measure them; the next three
	// fields are their means.
	Measured   int     `json:"measured_batches"`
	InputNodes float64 `json:"batch_input_nodes"`
	Edges      float64 `json:"batch_edges"`
	BatchBytes float64 `json:"batch_bytes"`
	// Of a typed graph, the means of the input nodes of each type, and of the edges of each relation.
	TypeInputs    []TypeMean `json:"batch_type_input_nodes,omitempty"`
	RelationEdges []TypeMean `json:"batch_relation_edges,omitempty"`

	Workers     int    `json:"workers"`            // goroutines that would sample the training batches
	Table       string `json:"table"`              // the table that would number nodes: array or hash
	MemoryBytes int64  `json:"memory_bytes"`       // upper bound, if no batch is twice as large as the drawn ones
	LeastBytes  int64  `json:"least_memory_bytes"` // the smallest possible --memory

	DiskBytes int64 `json:"disk_bytes"` // size of the directory
	FreeBytes int64 `json:"free_bytes"` // free disk space at its place

	// For one sample epoch: the bytes written, and the seconds in which the workers sample it.
	EpochBytes   int64   `json:"epoch_bytes"`
	EpochSeconds float64 `json:"epoch_seconds"`

	VerifySeconds float64 `json:"verify_seconds"` // for checking the dataset, measured
	Seconds       float64 `json:"seconds"`        // for the whole sampling: checking, and all batches
}

// TypeMean is a mean count of a node type, or of a relation as graph.Types.Triple names it.
type TypeMean struct {
	Name string  `json:"name"`
	Mean float64 `json:"mean"`
}

// MakePlan predicts the costs of Run with the same options. It checks the dataset as Run does, samples
// a few batches at equal distances to measure them, and writes nothing.
func MakePlan(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter) (Plan, error) {
	s, err := begin(vfs.ReadOnly(fsys), o, rep)
	if err != nil {
		return Plan{}, err
	}
	p, err := s.plan(ctx)
	if err != nil {
		return Plan{}, fmt.Errorf("plan: %w", err)
	}
	return p, nil
}

func (s *sampling) plan(ctx context.Context) (p Plan, err error) {
	defer s.limitHeap()()
	where, err := vfs.Nearest(s.fs, s.out)
	if err != nil {
		return p, err
	}
	if p.FreeBytes, err = s.fs.Free(where); err != nil {
		return p, err
	}
	if err := s.open(ctx); err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	phases, err := s.allot(ctx)
	if err != nil {
		return p, s.withEnough(s.refused(err))
	}
	total := 0
	for _, ph := range phases {
		if n := ph.hi - ph.lo; n > 0 {
			total += 1 + min(plannedBatches, n)
		}
	}
	for i := range phases {
		if err := s.atLeast(ctx, &phases[i]); err != nil {
			return p, s.withEnough(s.refused(err))
		}
	}
	task := s.rep.Task("draw a few batches", int64(total), progress.Batches)
	defer task.Done()
	drawn := make([]drawn, len(phases))
	for i := range phases {
		if drawn[i], err = s.drawSome(ctx, &phases[i], task); err != nil {
			return p, s.withEnough(s.refused(err))
		}
	}
	s.fill(&p, phases, drawn)
	return p, nil
}

// atLeast takes down the least memory that a phase needs.
func (s *sampling) atLeast(ctx context.Context, p *phase) error {
	if p.lo >= p.hi {
		return nil
	}
	x, err := s.expected(ctx, p)
	s.least = max(s.least, s.beforeDrawing+s.drawingAlone(p, x))
	return err
}

// drawn has the sums over n sampled batches of a phase.
type drawn struct {
	n                        int
	inputNodes, edges, bytes int64
	seconds                  float64 // of one worker
	most                     sampler.Extent
	byType, byRelation       []int64 // input nodes and edges, in a typed graph
}

// countTypes counts the input nodes and edges of a batch of a typed graph.
func (d *drawn) countTypes(b *graph.Batch) {
	if b.Types == nil {
		return
	}
	if d.byType == nil {
		d.byType, d.byRelation = make([]int64, len(b.Types.Nodes)), make([]int64, len(b.Types.Relations))
	}
	for _, row := range b.Input {
		d.byType[b.Types.OfFeatureRow(row)]++
	}
	var relations []int // of the rows of a block
	for l := range b.Blocks {
		relations = b.Types.RowRelations(relations, b.DstEnds(l))
		for row, r := range relations {
			d.byRelation[r] += int64(b.Blocks[l].Indptr[row+1] - b.Blocks[l].Indptr[row])
		}
	}
}

// typeMeans names the means of sums.
func (d *drawn) typeMeans(sums []int64, name func(i int) string) (means []TypeMean) {
	for i, n := range sums {
		means = append(means, TypeMean{name(i), d.scale(float64(n), 1)})
	}
	return means
}

// drawSome draws batches of a phase at equal distances, one after the other, after one that
// only warms up.
func (s *sampling) drawSome(ctx context.Context, p *phase, task progress.Task) (d drawn, err error) {
	if p.lo >= p.hi {
		return d, nil
	}
	by, err := s.newDrawer(p.allotment, p)
	if err != nil {
		return d, err
	}
	defer s.free(by)
	var encoded mbfile.Encoded
	var b *graph.Batch
	draw := func(i int) (err error) {
		if b, err = s.draw(ctx, by, i); err != nil {
			return err
		}
		encoded.Encode(b)
		s.seeds.Forget(i / s.seeds.Batches(sampler.Train))
		task.Add(1)
		d.most = larger(d.most, sampler.ExtentOf(b))
		return nil
	}
	if err := draw(p.lo); err != nil {
		return d, err
	}
	n := min(plannedBatches, p.hi-p.lo)
	for k := range n {
		began := time.Now()
		if err := draw(p.lo + k*(p.hi-p.lo)/n); err != nil {
			return d, err
		}
		d.n, d.seconds = d.n+1, d.seconds+time.Since(began).Seconds()
		d.bytes += int64(len(encoded.Bytes))
		d.inputNodes += int64(encoded.Nodes[0])
		d.countTypes(b)
		for _, e := range encoded.Edges {
			d.edges += int64(e)
		}
	}
	return d, nil
}

// larger returns an extent that covers both.
func larger(a, b sampler.Extent) sampler.Extent {
	return sampler.Extent{Nodes: max(a.Nodes, b.Nodes), Dst: max(a.Dst, b.Dst), Edges: max(a.Edges, b.Edges), Widest: max(a.Widest, b.Widest), Typed: a.Typed || b.Typed}
}

// scale scales a sum over the drawn batches to the given number of batches.
func (d *drawn) scale(sum float64, to int) float64 {
	if d.n == 0 {
		return 0
	}
	return sum / float64(d.n) * float64(to)
}

// fill completes the plan from the drawn batches of training and of evaluation.
func (s *sampling) fill(p *Plan, phases []phase, of []drawn) {
	f, train := s.data.Facts(), &of[0]
	within := func(from, to int) int { return max(min(s.hi, to)-max(s.lo, from), 0) }
	l := &s.layout
	p.Epochs = s.params.Epochs
	p.TrainBatches, p.ValidBatches, p.TestBatches = within(0, l.Train), within(l.Train, l.Train+l.Valid), within(l.Train+l.Valid, l.Batches())
	p.Measured = train.n
	p.InputNodes, p.Edges, p.BatchBytes = train.scale(float64(train.inputNodes), 1), train.scale(float64(train.edges), 1), train.scale(float64(train.bytes), 1)
	p.TypeInputs = train.typeMeans(train.byType, func(i int) string { return f.Types.Nodes[i].Name })
	p.RelationEdges = train.typeMeans(train.byRelation, func(i int) string { return f.Types.Triple(i) })
	p.Workers, p.Table = s.res.Workers, s.res.Table
	p.VerifySeconds = s.res.VerifySeconds

	p.DiskBytes = s.layout.IndexBytes() + 4*s.layout.Nodes // with the hotness
	p.Seconds = p.VerifySeconds
	p.MemoryBytes, p.LeastBytes = s.o.Memory-s.room, s.least
	var most int64
	for i := range phases {
		ph, d := &phases[i], &of[i]
		if d.n == 0 {
			continue
		}
		p.DiskBytes += int64(d.scale(float64(d.bytes), ph.hi-ph.lo))
		p.Seconds += d.scale(d.seconds, ph.hi-ph.lo) / float64(ph.workers)
		most = max(most, ph.all(f.Nodes, twice(d.most, s.most(ph.fanout))))
	}
	p.MemoryBytes = min(p.MemoryBytes+most, s.o.Memory)
	if train.n > 0 {
		perEpoch := float64(p.TrainBatches) / float64(p.Epochs)
		p.EpochBytes = int64(train.scale(float64(train.bytes), 1) * perEpoch)
		p.EpochSeconds = train.scale(train.seconds, 1) * perEpoch / float64(phases[0].workers)
	}
}
