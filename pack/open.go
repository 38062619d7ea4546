package pack

import (
	"context"
	"fmt"
	"time"

	"diskgnn/dataset"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/pack/cut"
	"diskgnn/pack/packfile"
	"diskgnn/presample/mbfile"
)

func open(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter) (_ *request, err error) {
	r, err := openParents(ctx, fsys, o, rep)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if r.stack, r.how, err = all.Open(r.o.IO, iostack.Options{}); err != nil {
		return nil, err
	}
	return r, r.settleCodec(ctx)
}

// openParents opens the dataset and the samples, and settles all but the codec.
func openParents(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter) (_ *request, err error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := &request{o: o, out: o.Shard.DirName(o.Out), fs: fsys, rep: rep, start: time.Now()}
	if r.ds, err = dataset.OpenLabelled(fsys, o.Dataset); err != nil {
		return nil, err
	}
	if r.samples, err = mbfile.Open(fsys, o.Samples); err != nil {
		return nil, err
	}
	r.watch = budget.StartWatch(ctx)
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if err := r.samples.CheckDataset(o.Dataset, r.ds.Fingerprint()); err != nil {
		return nil, err
	}
	return r, r.settle()
}

// Agrees returns the error with which Run would refuse existing files of the pack, nil if Run would make
// it, resume it, or find it finished. If the dataset or the samples do not exist yet, it compares nothing.
// It changes nothing.
func Agrees(ctx context.Context, fsys vfs.FS, o Options) error {
	if stage.Kind(fsys, o.Dataset) == "" || stage.Kind(fsys, o.Samples) == "" {
		return nil
	}
	r, err := openParents(ctx, fsys, o, progress.Discard)
	if err != nil {
		return err
	}
	defer r.close()
	measured, err := r.knownCodec()
	if err != nil {
		return err
	}
	if measured { // Run would, and finds one that differs in more than the codec
		r.params.Codec = packfile.CodecNone
	}
	spec, err := r.part(ctx)
	if err != nil {
		return err
	}
	return stage.Agrees(fsys, r.out, spec, o.Force)
}

// settle turns the options into content parameters.
func (r *request) settle() error {
	f := r.ds.Facts()
	to, err := r.o.target(f.DType)
	if err != nil {
		return err
	}
	rowBytes := to.RowBytes(f.Dim)
	nodes := f.FeatureRows()
	rows, err := r.o.Cache.Rows(nodes, rowBytes)
	if err != nil {
		return fmt.Errorf("--cache: %w", err)
	}
	limit, err := r.o.maxDisk(nodes * int64(r.ds.RowBytes()))
	if err != nil {
		return err
	}
	r.params = packfile.Params{MaxDisk: limit, CacheRows: rows, Bands: r.o.bandsDescending(), DType: to, Policy: r.o.Policy, Codec: r.o.Compress, EvalChunks: r.o.EvalChunks}
	s := r.samples.Facts()
	if s.Nodes != nodes || !s.Types.Equal(f.Types) {
		return fault.New(fault.ErrLineage, "%s samples a graph of other types, or with %d rows of features; %s has %d", r.o.Samples, s.Nodes, r.o.Dataset, nodes)
	}
	if s.TargetBytes != f.TargetBytes() {
		return fault.New(fault.ErrLineage, "%s has targets of %d bytes per node, but %s has %d", r.o.Samples, s.TargetBytes, r.o.Dataset, f.TargetBytes())
	}
	if err := checkBatches(r.o.Samples, s.Batches(), r.samples.Info); err != nil {
		return err
	}
	r.facts = packfile.Facts{
		Nodes: nodes, Types: s.Types, SeedType: s.SeedType, Classes: f.Classes, TargetBytes: s.TargetBytes, Dim: f.Dim, DType: to, RowBytes: rowBytes, Metric: f.Metric,
		TableBytes: nodes * int64(r.ds.RowBytes()), Segment: 1, Segments: s.TrainBatches,
		Train: s.TrainBatches, Valid: s.ValidBatches, Test: s.TestBatches,
		Epochs: s.Epochs, BatchesPerEpoch: s.BatchesPerEpoch,
		Fanout: r.samples.Params().Fanout, EvalFanout: r.samples.Params().EvalFanout,
		TypeInputs: s.TypeInputs, TrainSizes: s.Train.Max, TrainMeans: s.Train.Mean, EvalSizes: s.Eval.Max,
	}
	return r.settleBands()
}

// settleBands adds an edge of 100 % to the default bands where it costs little disk. A disk budget goes to
// other things.
func (r *request) settleBands() error {
	if r.o.Bands != nil || r.params.Policy != packfile.PolicyStatic || r.params.MaxDisk != 0 {
		return nil
	}
	whole, err := cut.WholeTable(r.cutRequest())
	if err == nil && whole {
		r.params.Bands = append([]float64{100}, r.params.Bands...)
	}
	return err
}

// checkBatches refuses samples that a pack has no room for, before any work: batches with more edges or
// bytes than 32 bits in the index can hold, or too many batches. The size that renumbering adds to a graph
// is checked later, when it is known.
func checkBatches(samples string, n int, info func(i int) mbfile.BatchInfo) error {
	if n > packfile.MaxBatches {
		return fault.New(fault.ErrInput, "%s has %d batches, but a pack has at most %d: presample fewer epochs, or larger batches", samples, n, packfile.MaxBatches)
	}
	for i := range n {
		b := info(i)
		if err := packfile.CheckCount(b.NumEdges(), "%s: edges of batch %d", samples, i); err != nil {
			return err
		}
		if err := packfile.CheckCount(b.Size, "%s: bytes of the graph of batch %d", samples, i); err != nil {
			return err
		}
	}
	return nil
}
