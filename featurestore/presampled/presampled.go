// Package presampled is the source of the batches in a SAMPLES directory, for stores with rows of its DATASET.
package presampled

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/presample/mbfile"
)

// Source implements featurestore.Source.
type Source struct {
	fs      vfs.FS
	data    *dataset.Dataset
	samples *mbfile.Reader
	facts   featurestore.Facts
}

// Find reads the metadata of the dataset and of the samples, given by their directories. If the samples were
// drawn from another dataset, the error is of kind fault.ErrLineage.
func Find(fsys vfs.FS, data, samples string) (*Source, error) {
	d, err := dataset.OpenLabelled(fsys, data)
	if err != nil {
		return nil, err
	}
	r, err := mbfile.Open(fsys, samples)
	if err != nil {
		return nil, err
	}
	if err := r.CheckDataset(data, d.Fingerprint()); err != nil {
		return nil, err
	}
	s := &Source{fs: fsys, data: d, samples: r}
	return s, s.count()
}

// count derives the facts.
func (s *Source) count() error {
	d, f, p := s.data.Facts(), s.samples.Facts(), s.samples.Params()
	if f.Nodes != d.FeatureRows() || !f.Types.Equal(d.Types) || f.TargetBytes != s.data.TargetBytes() {
		return fault.New(fault.ErrLineage, "%s has %d nodes with %d bytes of classes each, but %s has %d nodes with %d bytes each", s.samples.Dir(), f.Nodes, f.TargetBytes, s.data.Dir(), d.FeatureRows(), s.data.TargetBytes())
	}
	s.facts = featurestore.Facts{
		Nodes: f.Nodes, Types: f.Types, SeedType: f.SeedType, Dim: d.Dim, DType: d.DType, RowBytes: d.RowBytes(), Classes: d.Classes, TargetBytes: f.TargetBytes, Metric: d.Metric,
		Train: f.TrainBatches, Valid: f.ValidBatches, Test: f.TestBatches, Epochs: f.Epochs, BatchesPerEpoch: f.BatchesPerEpoch,
		TypeInputs: f.TypeInputs, Fanout: p.Fanout, EvalFanout: p.EvalFanout, TrainSizes: f.Train.Max, TrainMeans: f.Train.Mean, EvalSizes: f.Eval.Max,
	}
	for lo := 0; lo < f.TrainBatches; lo += f.BatchesPerEpoch {
		s.facts.EpochSeeds = max(s.facts.EpochSeeds, s.seeds(lo, lo+f.BatchesPerEpoch))
	}
	valid, test := f.TrainBatches, f.TrainBatches+f.ValidBatches
	s.facts.EvalSeeds = max(s.seeds(valid, test), s.seeds(test, f.Batches()))
	return nil
}

// seeds counts the seed nodes of the batches lo to hi-1.
func (s *Source) seeds(lo, hi int) (n int64) {
	for i := lo; i < hi; i++ {
		b := s.samples.Info(i)
		n += int64(b.Seeds())
	}
	return n
}

// Dir returns the directory of the samples.
func (s *Source) Dir() string { return s.samples.Dir() }

// FS returns the file system of the samples.
func (s *Source) FS() vfs.FS { return s.fs }

// Params returns the parameters of the samples.
func (s *Source) Params() mbfile.Params { return s.samples.Params() }

// Dataset returns the dataset that the samples were drawn from.
func (s *Source) Dataset() *dataset.Dataset { return s.data }

// Facts returns the counts of the batches and of the dataset's rows.
func (s *Source) Facts() featurestore.Facts { return s.facts }

// Lineage returns the fingerprints of the dataset and of the samples.
func (s *Source) Lineage() featurestore.Lineage {
	return featurestore.Lineage{Dataset: s.data.Fingerprint(), Samples: s.samples.Fingerprint()}
}

// TableBytes returns the memory of the samples' index, in bytes.
func (s *Source) TableBytes() int64 {
	f := s.samples.Facts()
	return f.IndexBytes()
}

// Ranks fills rank with the rank of every node, by descending hotness in the samples.
func (s *Source) Ranks(rank []uint32) error {
	hotness, err := s.samples.Hotness()
	if err != nil {
		return err
	}
	mbfile.Ranks(hotness, rank)
	return nil
}

// Hotness returns the hotness of every node in the samples.
func (s *Source) Hotness() ([]uint32, error) { return s.samples.Hotness() }

// RanksBytes returns the memory of Ranks, in bytes: the hotness, the counts by which it is sorted, and the first rank of each.
func (s *Source) RanksBytes() int64 { return 4*s.facts.Nodes + 12*int64(s.facts.Train+1) }

// damaged adds to an error about the samples the advice to make them again.
func (s *Source) damaged(err error) error {
	return stage.Damaged(err, s.Dir(), s.samples.Meta().Format)
}

func (s *Source) number(r featurestore.Ref) int {
	switch r.Split {
	case featurestore.Valid:
		return s.facts.Train + r.Index
	case featurestore.Test:
		return s.facts.Train + s.facts.Valid + r.Index
	}
	return r.Index
}

// Inputs reads the input nodes of a batch, without a storage stack.
func (s *Source) Inputs(ctx context.Context, r featurestore.Ref, buf []byte) ([]uint32, []byte, error) {
	return s.samples.Inputs(ctx, s.number(r), buf)
}

// sizes returns the maxima of the batches of a loader, and the size of the largest graph on disk, rounded up
// to whole pages.
func (s *Source) sizes(eval bool) (sizes graph.Sizes, bytes int64) {
	sizes, lo, hi := s.facts.TrainSizes, 0, s.facts.Train
	if eval {
		sizes, lo, hi = s.facts.EvalSizes, hi, hi+s.facts.Valid+s.facts.Test
	}
	for i := lo; i < hi; i++ {
		bytes = max(bytes, s.samples.Info(i).Size)
	}
	return sizes, binio.AlignUp(bytes, device.PageSize)
}

// LoaderBytes returns the memory of a graph and of its read buffer, in bytes.
func (s *Source) LoaderBytes(eval bool) int64 {
	sizes, raw := s.sizes(eval)
	return raw + sizes.Bytes(s.facts.TargetBytes)
}

// Open returns a maker of loaders that read through the stack, which must outlive it.
func (s *Source) Open(stack iostack.Stack) (featurestore.Loaders, error) {
	return &loaders{source: s, stack: stack, files: iostack.NewFileCache[struct{}](stack.Open, iostack.MaxIdleFiles)}, nil
}

// loaders has the open files of batches.
type loaders struct {
	source *Source
	stack  iostack.Stack
	files  *iostack.FileCache[struct{}]
}

type file = iostack.CachedFile[struct{}]

// take returns the open file of batch i. Give it back to files.
func (l *loaders) take(i int) (*file, error) {
	f, err := l.files.Take(l.source.samples.Path(i))
	if err != nil {
		return nil, err
	}
	if b := l.source.samples.Info(i); f.Size() < b.Offset+b.Size {
		err := l.source.damaged(fault.New(fault.ErrCorrupt, "%s ends at byte %d, before byte %d: it was truncated", f.Name(), f.Size(), b.Offset+b.Size))
		return nil, errors.Join(err, l.files.Give(f))
	}
	return f, nil
}

// Close closes the files.
func (l *loaders) Close() error { return l.files.Close() }

// NewLoader returns a loader for training batches, or if eval is set, for evaluation batches.
func (l *loaders) NewLoader(eval bool) (featurestore.Loader, error) {
	sizes, bytes := l.source.sizes(eval)
	raw, err := device.NewHost(int(bytes))
	if err != nil {
		return nil, err
	}
	return &loader{reading: reading{of: l, raw: raw}, batch: sizes.NewBatch(l.source.facts.TargetBytes)}, nil
}

// reading reads the encoded form of one batch at a time.
type reading struct {
	of     *loaders
	raw    *device.Host
	number int // of the batch
	file   *file
	group  iostack.Group
	req    [1]iostack.Request
}

// start submits the read of a batch. It returns the bytes that the drive reads, and the size of the batch.
// Call wait afterwards, even after an error.
func (r *reading) start(number int) (read, size int64, err error) {
	r.number = number
	if r.file, err = r.of.take(number); err != nil {
		return 0, 0, err
	}
	info := r.of.source.samples.Info(number)
	r.req[0] = iostack.Request{File: r.file.File, Offset: info.Offset, Buf: r.raw.Bytes()[:info.Size]}
	if err := r.of.stack.Submit(&r.group, r.req[:]); err != nil {
		return 0, 0, fmt.Errorf("graph of batch %d: %w", number, err)
	}
	return iostack.Extent(r.file, info.Offset, info.Size), info.Size, nil
}

// wait returns when the read has landed or, after an error, cannot write any more.
func (r *reading) wait(ctx context.Context) error {
	err := r.of.stack.Wait(ctx, &r.group)
	if err != nil {
		err = r.of.source.damaged(fmt.Errorf("graph of batch %d: %w", r.number, err))
	}
	f := r.file
	r.file = nil
	return errors.Join(err, r.of.files.Give(f))
}

// bytes returns the landed bytes.
func (r *reading) bytes() []byte { return r.req[0].Buf }

// loader implements featurestore.Loader.
type loader struct {
	reading
	batch  graph.Batch
	counts featurestore.Counts
}

func (l *loader) Start(r featurestore.Ref) error {
	read, size, err := l.start(l.of.source.number(r))
	l.counts = featurestore.Counts{BytesRead: read, GraphRead: read, UsefulBytes: size, Requests: 1}
	return err
}

func (l *loader) Wait(ctx context.Context) error { return l.wait(ctx) }

func (l *loader) Decode() (*graph.Batch, error) {
	s := l.of.source
	if err := s.samples.Decode(l.number, l.bytes(), &l.batch); err != nil {
		return nil, err
	}
	for i, y := range l.batch.Labels {
		if y != graph.Unlabelled && uint32(y) >= uint32(s.facts.Classes) {
			return nil, s.damaged(fault.New(fault.ErrCorrupt, "%s: seed node %d of batch %d has class %d, but the dataset has %d classes", s.Dir(), i, l.number, y, s.facts.Classes))
		}
	}
	return &l.batch, nil
}

func (l *loader) Counts() featurestore.Counts { return l.counts }

func (l *loader) Free() { l.raw.Free() }
