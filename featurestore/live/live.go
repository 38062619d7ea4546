// Package live is the source of batches that are drawn while training, without a SAMPLES directory. Every
// epoch has fresh samples.
//
//	Open    verify and map the topology, then the dry pass: draw batches, keep their counts
//	Loader  Start ─► Wait, which draws the batch ─► Decode
//
// Batches equal the batches that presample draws with the same parameters and number of epochs, element
// by element: both draw by package presample/sampler, where a batch is a function of the seed, the
// epoch and its number. Batches are neither read nor written. A loader draws in the goroutine that calls
// Wait, in memory of its own, so slots draw their batches in parallel.
//
// The sizes of buffers, the ranks, and the means that decide the order of layers must be known before the
// first batch. The dry pass draws all evaluation batches, and the training batches of the first epochs, and
// keeps none. If it draws all epochs, facts and ranks equal the facts and ranks of samples. Otherwise they
// describe the batches drawn, and the maxima have a margin. A batch that still exceeds them makes a loader
// return Outgrown. Then Grow raises the maxima, and everything with buffers of these sizes is opened again.
//
// The topology is mapped, and counts as mapped memory; or a part of it is held, and the rest is read while
// drawing: see package presample/sampler/topology. TableBytes is the memory of the source: the held part,
// the seed nodes, the visiting orders of the epochs in flight, and the hotness of every node. After Place
// the source also has a copy of the topology from which a GPU draws the batches of loaders, with the same
// result.
package live

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"runtime/debug"
	"time"

	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/topology"
)

// Options are the parameters of the batches, and the resources to draw them with.
type Options struct {
	Dataset string
	// Params decide the batches. Epochs is the number of the run's epochs. The order of the batches is
	// sampler.Random.
	mbfile.Params
	// DryEpochs is the number of epochs that the dry pass draws, from the first on. A fraction is rounded up
	// to a batch. Epochs or more, such as infinity, means all.
	DryEpochs float64
	// FirstEpochs is the original number of epochs of a run that was extended: its lineage keeps this number.
	// 0: Epochs.
	FirstEpochs int

	// Topology is the place of neighbours. Under topology.Cached, they take a quarter of Memory by default.
	Topology topology.Choice
	// Choose lets a store choose the lists of a cached topology that are held after the dry pass, if
	// Topology has no size and order: see featurestore.Lists.
	Choose bool
	// IO is the kind of the storage stack that reads neighbours, and Stack opens it: see
	// topology.Options.
	IO    string
	Stack func(kind string, o iostack.Options) (iostack.Stack, string, error)

	Workers int   // goroutines of the dry pass
	Memory  int64 // limit of the process during the dry pass, in bytes
}

// Source implements featurestore.Source. Call its methods from one goroutine; loaders may draw on others.
type Source struct {
	options  Options
	data     *dataset.Dataset
	topology topology.Topology
	seeds    *sampler.Seeds

	dry         int            // training batches that the dry pass draws
	train, eval tally          // of the batches drawn
	hotness     []uint32       // by node, in the training batches drawn
	draws       []uint32       // by node: draws from its list for the training batches; nil: not counted
	chosen      int64          // bytes of the lists of HoldLists
	costs       topology.Lists // memory and reads of lists, if draws are counted
	facts       featurestore.Facts
	pinned      *pinned // nil: loaders draw on the host
}

// Open verifies and maps the topology, and does the dry pass. Close the source after its loaders and windows.
func Open(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter) (_ *Source, err error) {
	if err := sampler.Check(&o.Params); err != nil {
		return nil, err
	}
	o.Topology.EnsureDefaults()
	if err := o.Topology.Validate(); err != nil {
		return nil, err
	}
	d, err := dataset.OpenLabelled(fsys, o.Dataset)
	if err != nil {
		return nil, err
	}
	defer budget.LimitHeap(o.Memory, 0)()
	defer debug.FreeOSMemory() // return the memory of the dry pass
	s := &Source{options: o, data: d}
	if err := s.load(ctx, rep); err != nil {
		return nil, err
	}
	if err := s.openTopology(ctx, rep); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	defer budget.LimitHeap(o.Memory, s.HostBytes()+int64(o.Workers)*s.topology.ReaderBytes())()
	err = s.dryPass(ctx, rep)
	if err == nil {
		err = s.endChoice(ctx, rep)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// load reads the seed nodes and counts batches.
func (s *Source) load(ctx context.Context, rep progress.Reporter) (err error) {
	d, p := s.data.Facts(), &s.options.Params
	labels := 4*d.Nodes + int64(s.data.TargetBytes())*(d.Train+d.Valid+d.Test)
	if err := budget.Check("reading the labels", budget.Reserve+labels, s.options.Memory); err != nil {
		return err
	}
	if s.seeds, err = sampler.Load(ctx, s.data, *p, rep); err != nil {
		return err
	}
	per := s.seeds.Batches(sampler.Train)
	s.facts = featurestore.Facts{
		Nodes: d.Nodes, Dim: d.Dim, DType: d.DType, RowBytes: d.RowBytes(), Classes: d.Classes, TargetBytes: s.seeds.TargetBytes(), Metric: d.Metric,
		Train: p.Epochs * per, Valid: s.seeds.Batches(sampler.Valid), Test: s.seeds.Batches(sampler.Test), Epochs: p.Epochs, BatchesPerEpoch: per,
		Fanout: p.Fanout, EvalFanout: p.EvalFanout, EpochSeeds: int64(s.seeds.Nodes(sampler.Train)),
		EvalSeeds: int64(max(s.seeds.Nodes(sampler.Valid), s.seeds.Nodes(sampler.Test))),
	}
	s.dry = s.facts.Train
	if e := s.options.DryEpochs; e < float64(p.Epochs) {
		s.dry = max(1, int(math.Ceil(e*float64(per))))
	}
	return nil
}

// dryPass draws batches and counts their sizes and nodes.
func (s *Source) dryPass(ctx context.Context, rep progress.Reporter) (err error) {
	began := time.Now()
	s.hotness = make([]uint32, s.facts.Nodes)
	if s.options.chooses() {
		s.draws = make([]uint32, s.facts.Nodes)
	}
	evals := s.facts.Valid + s.facts.Test
	task := rep.Task("dry pass", int64(s.dry+evals), progress.Batches)
	defer task.Done()
	train := phase{n: s.dry, fanout: s.options.Fanout, id: s.seeds.Nth, hotness: s.hotness, draws: s.draws, task: task}
	eval := phase{n: evals, fanout: s.options.EvalFanout, id: func(i int) sampler.ID { return s.seeds.Nth(s.facts.Train + i) }, task: task}
	if s.train, err = s.drawAll(ctx, &train); err != nil {
		return err
	}
	if s.eval, err = s.drawAll(ctx, &eval); err != nil {
		return err
	}
	s.size()
	seconds := time.Since(began).Seconds()
	rep.Logf("dry pass: drew %s of %s training batches and %s for evaluation in %s, %s edges/s; buffers are sized for these batches",
		units.Count(s.dry), units.Count(s.facts.Train), units.Count(evals), units.Seconds(seconds), units.Count(int64(float64(s.train.edges()+s.eval.edges())/max(seconds, 1e-9))))
	return nil
}

// size derives maxima and means from the drawn batches.
func (s *Source) size() {
	f := &s.facts
	f.TrainSizes, f.TrainMeans, f.EvalSizes = s.train.most, s.train.mean(), s.eval.most
	if s.dry < f.Train {
		f.TrainSizes = s.roomier(f.TrainSizes, f.TrainMeans)
	}
}

// roomier returns sizes for batches that were not drawn: the largest drawn batch plus its distance from the
// mean, but no larger than a batch can be.
func (s *Source) roomier(most, mean graph.Sizes) graph.Sizes {
	edges := s.data.Facts().Edges
	layers := len(most.Src)
	w := graph.Sizes{Src: make([]int, layers), Dst: make([]int, layers), Edges: make([]int, layers)}
	dst := most.Dst[layers-1] // the seed nodes of every batch except an epoch's last
	for l := layers - 1; l >= 0; l-- {
		possible := edges
		if f := s.options.Fanout[l]; f != mbfile.AllNeighbours {
			possible = min(possible, int64(dst)*int64(f))
		}
		w.Dst[l] = dst
		w.Edges[l] = int(min(int64(2*most.Edges[l]-mean.Edges[l]), possible))
		w.Src[l] = int(min(int64(2*most.Src[l]-mean.Src[l]), s.facts.Nodes, int64(dst)+int64(w.Edges[l])))
		dst = w.Src[l]
	}
	return w
}

// Close unmaps the topology.
func (s *Source) Close() error {
	if s.topology == nil {
		return nil
	}
	return s.topology.Close()
}

// Unchanged implements featurestore.Mapped. A pinned topology is a copy of the mapped one.
func (s *Source) Unchanged() error { return s.topology.Unchanged() }

// Dir returns the directory of the dataset.
func (s *Source) Dir() string { return s.data.Dir() }

// Dataset returns the dataset that batches are drawn from.
func (s *Source) Dataset() *dataset.Dataset { return s.data }

// Facts returns the counts of the batches and of the dataset's rows.
func (s *Source) Facts() featurestore.Facts { return s.facts }

// Lineage names the dataset and, in place of samples, a hash of the parameters that decide the batches
// and their ranks.
func (s *Source) Lineage() featurestore.Lineage {
	params, dry := s.options.Params, s.dry
	if first := s.options.FirstEpochs; first > 0 {
		params.Epochs, dry = first, min(dry, first*s.facts.BatchesPerEpoch)
	}
	b, _ := json.Marshal(struct { // of numbers and strings: it cannot fail
		Dataset string        `json:"dataset"`
		Live    mbfile.Params `json:"live"`
		Dry     int           `json:"dry"`
	}{s.data.Fingerprint(), params, dry})
	return featurestore.Lineage{Dataset: s.data.Fingerprint(), Samples: binio.Hash(b)}
}

// TableBytes returns the memory of the source, in bytes, without loaders and without lists that a store
// has chosen.
func (s *Source) TableBytes() int64 {
	return s.seeds.Memory(s.options.Workers) + s.countBytes() + s.topology.Bytes() - s.chosen + s.pinned.tableBytes(s)
}

// countBytes returns the memory of the counts of every node: its hotness, and its draws.
func (s *Source) countBytes() int64 {
	if s.options.chooses() {
		return 2 * 4 * s.facts.Nodes
	}
	return 4 * s.facts.Nodes
}

// Ranks fills rank by the hotness in the training batches that the dry pass drew.
func (s *Source) Ranks(rank []uint32) error {
	mbfile.Ranks(s.hotness, rank)
	return nil
}

// Hotness returns the hotness in the training batches that the dry pass drew.
func (s *Source) Hotness() ([]uint32, error) { return s.hotness, nil }

// RanksBytes returns the work memory of Ranks, in bytes.
func (s *Source) RanksBytes() int64 { return 8 * int64(s.dry+1) }

func (s *Source) id(r featurestore.Ref) sampler.ID {
	switch r.Split {
	case featurestore.Valid:
		return sampler.ID{Split: sampler.Valid, Index: r.Index}
	case featurestore.Test:
		return sampler.ID{Split: sampler.Test, Index: r.Index}
	}
	return s.seeds.Nth(r.Index)
}

// Inputs draws a batch for its input nodes, on a sampler that lives as long as the call.
func (s *Source) Inputs(ctx context.Context, r featurestore.Ref, buf []byte) ([]uint32, []byte, error) {
	_, fanout := s.sizes(r.Split != featurestore.Train)
	by, err := s.newDrawer(fanout, true, math.MaxInt64)
	if err != nil {
		return nil, buf, err
	}
	defer by.from.Free()
	b, err := s.draw(ctx, by, s.id(r))
	if err != nil {
		return nil, buf, err
	}
	buf = binio.Grow(buf, 4*len(b.Input))
	copy(buf, binio.Bytes(b.Input))
	return binio.View[uint32](buf), buf, nil
}
