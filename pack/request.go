package pack

import (
	"context"
	"fmt"
	"runtime"
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

func defaultWorkers() int { return runtime.GOMAXPROCS(0) }

// request is what shall be packed, and how: the options, settled for a dataset and samples
// of it. Nothing changes it once it is open.
type request struct {
	o   Options
	out string // the directory to make
	fs  vfs.FS
	rep progress.Reporter

	ds      *dataset.Dataset
	samples *mbfile.Reader
	params  packfile.Params
	facts   packfile.Facts // as far as dataset and samples say them

	stack iostack.Stack // reads the table
	how   string        // and why that one

	start time.Time
	watch *budget.Watch
}

// open opens what is packed and settles how.
func open(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter) (_ *request, err error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := &request{o: o, out: o.Shard.DirName(o.Out), fs: fsys, rep: rep, start: time.Now()}
	if r.ds, err = dataset.Open(fsys, o.Dataset); err != nil {
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
	if err := stage.CheckParent(o.Samples, r.samples.Meta(), stage.RoleDataset, o.Dataset, r.ds.Fingerprint()); err != nil {
		return nil, err
	}
	if err := r.settle(); err != nil {
		return nil, err
	}
	if r.stack, r.how, err = all.Open(o.IO, iostack.Options{}); err != nil {
		return nil, err
	}
	return r, r.settleCodec(ctx)
}

// close gives back what open took.
func (r *request) close() {
	if r.stack != nil {
		_ = r.stack.Close()
	}
	_ = r.samples.Close() // only read from
	r.watch.Stop()
}

// settle turns the options into content parameters.
func (r *request) settle() error {
	f := r.ds.Facts()
	to, err := r.o.target(f.DType)
	if err != nil {
		return err
	}
	rowBytes := to.RowBytes(f.Dim)
	rows, err := r.o.Cache.Rows(f.Nodes, rowBytes)
	if err != nil {
		return fmt.Errorf("--cache: %w", err)
	}
	limit, err := r.o.maxDisk(f.Nodes * int64(r.ds.RowBytes()))
	if err != nil {
		return err
	}
	r.params = packfile.Params{MaxDisk: limit, CacheRows: rows, Bands: r.o.bandsDescending(), DType: to, Policy: r.o.Policy, Codec: r.o.Compress}
	s := r.samples.Facts()
	if s.Nodes != f.Nodes {
		return fault.New(fault.ErrLineage, "%s samples a graph of %d nodes, %s has %d", r.o.Samples, s.Nodes, r.o.Dataset, f.Nodes)
	}
	if s.TargetBytes != f.TargetBytes() {
		return fault.New(fault.ErrLineage, "%s has %d bytes of classes per node, %s %d", r.o.Samples, s.TargetBytes, r.o.Dataset, f.TargetBytes())
	}
	if err := checkBatches(r.o.Samples, s.Batches(), r.samples.Info); err != nil {
		return err
	}
	r.facts = packfile.Facts{
		Nodes: f.Nodes, Classes: f.Classes, TargetBytes: s.TargetBytes, Dim: f.Dim, DType: to, RowBytes: rowBytes, Metric: f.Metric,
		TableBytes: f.Nodes * int64(r.ds.RowBytes()), Segment: 1, Segments: s.TrainBatches,
		Train: s.TrainBatches, Valid: s.ValidBatches, Test: s.TestBatches,
		Epochs: s.Epochs, BatchesPerEpoch: s.BatchesPerEpoch,
		Fanout: r.samples.Params().Fanout, EvalFanout: r.samples.Params().EvalFanout,
		TrainSizes: s.Train.Max, TrainMeans: s.Train.Mean, EvalSizes: s.Eval.Max,
	}
	return nil
}

// checkBatches refuses samples that a pack has no room for, before any work: batches
// whose edges or bytes are more than their 32 bits in the index, or too many batches.
// What renumbering adds to a graph is looked at when it is known.
func checkBatches(samples string, n int, info func(i int) mbfile.BatchInfo) error {
	if n > packfile.MaxBatches {
		return fault.New(fault.ErrInput, "%s: %d batches; a pack has at most %d: presample fewer epochs, or larger batches", samples, n, packfile.MaxBatches)
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

// form returns the form of the pack's chunks.
func (r *request) form() packfile.Form {
	return packfile.Form{RowBytes: r.facts.RowBytes, Codec: r.params.Codec}
}

// rawForm returns the form of the chunks that the ranges write.
func (r *request) rawForm() packfile.Form {
	return packfile.Form{RowBytes: r.facts.RowBytes, Codec: packfile.CodecNone}
}

// spec returns what decides the bytes of the whole pack.
func (r *request) spec() stage.Spec {
	return stage.Spec{Format: packfile.FormatFor(r.facts.TargetBytes), Params: r.params, Parents: map[string]string{
		stage.RoleDataset: r.ds.Fingerprint(), stage.RoleSamples: r.samples.Fingerprint(),
	}}
}

// cutRequest returns what is decided on.
func (r *request) cutRequest() cut.Request {
	return cut.Request{
		Samples: r.samples, Name: r.o.Samples, Params: r.params, Facts: r.facts, Shard: r.o.Shard,
		Workers: r.o.Workers, Memory: r.o.Memory, Reporter: r.rep,
	}
}
