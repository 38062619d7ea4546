package mbfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"diskgnn/graph"
	"diskgnn/graph/batchcodec"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// Reader reads a finished SAMPLES directory. Its methods are safe for concurrent
// use; Close must come after all others.
type Reader struct {
	fs     vfs.FS
	dir    string
	meta   *stage.Meta
	params Params
	facts  Facts
	index  *index
	files  *handles
}

// Open opens a SAMPLES directory and checks its meta.json, its index and the
// sizes of its files; batches are checked as they are read.
func Open(fsys vfs.FS, dir string) (*Reader, error) {
	meta, err := stage.Open(fsys, dir, "samples directory", Format, MultiLabelFormat)
	if err != nil {
		return nil, err
	}
	return newReader(fsys, dir, meta)
}

// OpenShard opens one shard of a SAMPLES directory, which reads like a directory of
// its own: its batches are numbered from 0, its hotness is what they add to the
// whole's.
func OpenShard(fsys vfs.FS, dir string) (*Reader, error) {
	meta, err := stage.Open(fsys, dir, "shard of samples", Format.Shard(), MultiLabelFormat.Shard())
	if err != nil {
		return nil, err
	}
	return newReader(fsys, dir, meta)
}

// newReader reads what meta.json, which is given, and the index say.
func newReader(fsys vfs.FS, dir string, meta *stage.Meta) (*Reader, error) {
	r := &Reader{fs: fsys, dir: dir, meta: meta, files: newHandles(fsys, dir)}
	if err := errors.Join(meta.DecodeParams(&r.params), meta.DecodeFacts(&r.facts)); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if n := r.facts.TargetBytes; n < 0 || (meta.Format.Version == MultiLabelFormat.Version) != (n > 0) {
		return nil, fault.New(fault.ErrCorrupt, "%s: %d bytes of classes per seed node, in a %s", dir, n, meta.Format)
	}
	if err := r.openIndex(); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return r, nil
}

// maxFile bounds the numbers of files, so that they can be counted on from.
const maxFile = 1 << 30

func (r *Reader) openIndex() error {
	b, err := r.readWhole(IndexFile)
	if err != nil {
		return err
	}
	if r.index, err = decodeIndex(b); err != nil {
		return err
	}
	f := &r.facts
	if f.TrainBatches < 0 || f.ValidBatches < 0 || f.TestBatches < 0 || f.Nodes < 0 || f.Nodes > graph.MaxNodes ||
		f.FirstFile < 0 || f.FirstFile > maxFile || r.index.batches() != f.Batches() || r.index.layers != f.Layers {
		return fault.New(fault.ErrCorrupt, "%s describes %d batches of %d layers, %s %d of %d",
			IndexFile, r.index.batches(), r.index.layers, stage.MetaFile, f.Batches(), f.Layers)
	}
	r.index.firstFile = f.FirstFile
	for i := range r.index.files() {
		want := r.index.file(i)
		if have, ok := r.meta.File(want.Name); !ok || have != want {
			return fault.New(fault.ErrCorrupt, "%s and %s disagree about %s", IndexFile, stage.MetaFile, want.Name)
		}
	}
	return nil
}

// readWhole returns a small file that meta.json holds the checksum of.
func (r *Reader) readWhole(name string) ([]byte, error) {
	f, ok := r.meta.File(name)
	if !ok {
		return nil, fault.New(fault.ErrCorrupt, "%s does not list %s", stage.MetaFile, name)
	}
	b, err := vfs.ReadFile(r.fs, filepath.Join(r.dir, name))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(b)) != f.Size || binio.Hash(b) != f.Checksum {
		return nil, binio.BadRange(name, 0, f.Size)
	}
	return b, nil
}

// Dir returns the directory's path.
func (r *Reader) Dir() string { return r.dir }

// Meta returns the directory's description.
func (r *Reader) Meta() *stage.Meta { return r.meta }

// Fingerprint returns what identifies the directory's content.
func (r *Reader) Fingerprint() string { return r.meta.Fingerprint }

// Facts returns the directory's counts.
func (r *Reader) Facts() Facts { return r.facts }

// Params returns the parameters that the batches were sampled with.
func (r *Reader) Params() Params { return r.params }

// Train returns the range [lo, hi) of the training batches of all epochs: batch
// b of epoch e is e × Facts().BatchesPerEpoch + b.
func (r *Reader) Train() (lo, hi int) { return 0, r.facts.TrainBatches }

// Valid returns the range [lo, hi) of the validation batches.
func (r *Reader) Valid() (lo, hi int) {
	return r.facts.TrainBatches, r.facts.TrainBatches + r.facts.ValidBatches
}

// Test returns the range [lo, hi) of the test batches.
func (r *Reader) Test() (lo, hi int) {
	return r.facts.TrainBatches + r.facts.ValidBatches, r.facts.Batches()
}

// Info returns what the index knows of batch i.
func (r *Reader) Info(i int) BatchInfo { return r.index.info(i) }

// Read reads batch i into b, reusing b's memory, through buf, which it returns,
// grown if needed, to be given to the next call. A wrong byte is an error of kind
// fault.ErrCorrupt naming file and range; whatever the bytes, a batch that is
// returned without an error is valid and names only nodes of the graph.
func (r *Reader) Read(ctx context.Context, i int, buf []byte, b *graph.Batch) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return buf, err
	}
	info := r.index.info(i)
	buf = binio.Grow(buf, int(info.Size))
	if err := r.load(&info, buf); err != nil {
		return buf, fmt.Errorf("read batch %d: %w", i, err)
	}
	err := batchcodec.Decode(buf, b)
	if err == nil {
		err = r.agrees(&info, b)
	}
	if err != nil {
		return buf, fmt.Errorf("read batch %d: %s from byte %d: %w", i, r.batchesPath(info.File), info.Offset, err)
	}
	return buf, nil
}

// Inputs reads the input nodes of batch i without decoding the rest. They alias buf,
// grown if needed, which is returned as by Read.
func (r *Reader) Inputs(ctx context.Context, i int, buf []byte) (nodes []uint32, _ []byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, buf, err
	}
	info := r.index.info(i)
	buf = binio.Grow(buf, int(info.Size))
	if err := r.load(&info, buf); err != nil {
		return nil, buf, fmt.Errorf("read batch %d: %w", i, err)
	}
	if nodes, err = batchcodec.Inputs(buf); err == nil && len(nodes) != info.InputNodes() {
		err = fault.New(fault.ErrCorrupt, "%d input nodes, not the %d that %s describes", len(nodes), info.InputNodes(), IndexFile)
	}
	if err == nil && len(nodes) > 0 && int64(slices.Max(nodes)) >= r.facts.Nodes {
		err = fault.New(fault.ErrCorrupt, "input node %d of a graph of %d nodes", slices.Max(nodes), r.facts.Nodes)
	}
	if err != nil {
		return nil, buf, fmt.Errorf("read batch %d: %s from byte %d: %w", i, r.batchesPath(info.File), info.Offset, err)
	}
	return nodes, buf, nil
}

// load reads and checks the byte form of a batch.
func (r *Reader) load(info *BatchInfo, buf []byte) error {
	h, err := r.files.acquire(info.File)
	if err != nil {
		return err
	}
	defer r.files.release(h)
	return readRange(h.f, info, buf)
}

func (r *Reader) batchesPath(file int) string { return filepath.Join(r.dir, BatchesFile(file)) }

// readRange fills buf with the bytes of a batch and checks them.
func readRange(f vfs.File, info *BatchInfo, buf []byte) error {
	if n, err := f.ReadAt(buf, info.Offset); n < len(buf) {
		if errors.Is(err, io.EOF) {
			return fault.New(fault.ErrCorrupt, "%s: ends at byte %d, before byte %d: it was truncated", f.Name(), info.Offset+int64(n), info.Offset+info.Size)
		}
		return fmt.Errorf("%s: bytes %d to %d: %w", f.Name(), info.Offset, info.Offset+info.Size, err)
	}
	if binio.CRC(buf) != info.CRC {
		return binio.BadRange(f.Name(), info.Offset, info.Size)
	}
	return nil
}

// agrees checks a valid batch against the index and the graph.
func (r *Reader) agrees(info *BatchInfo, b *graph.Batch) error {
	if len(b.Blocks) != len(info.Edges) {
		return fault.New(fault.ErrCorrupt, "%d layers instead of %d", len(b.Blocks), len(info.Edges))
	}
	for l := range b.Blocks {
		k := &b.Blocks[l]
		if k.NumSrc != int(info.Nodes[l]) || k.NumDst != int(info.Nodes[l+1]) || len(k.Indices) != int(info.Edges[l]) || k.Dst != nil {
			return fault.New(fault.ErrCorrupt, "layer %d is not the one that %s describes", l, IndexFile)
		}
	}
	if len(b.Input) > 0 && int64(slices.Max(b.Input)) >= r.facts.Nodes {
		return fault.New(fault.ErrCorrupt, "input node %d of a graph of %d nodes", slices.Max(b.Input), r.facts.Nodes)
	}
	if len(b.Targets) != len(b.Labels)*r.facts.TargetBytes {
		return fault.New(fault.ErrCorrupt, "%d bytes of classes for %d seed nodes of %d each", len(b.Targets), len(b.Labels), r.facts.TargetBytes)
	}
	return nil
}

// Verify reads everything and checks it.
func (r *Reader) Verify(ctx context.Context, rep progress.Reporter) error {
	task := rep.Task("verify samples", int64(r.facts.Batches()), progress.Batches)
	defer task.Done()
	var buf []byte
	var b graph.Batch
	for i := range r.facts.Batches() {
		var err error
		if buf, err = r.Read(ctx, i, buf, &b); err != nil {
			return err
		}
		task.Add(1)
	}
	_, err := r.Hotness()
	return err
}

// Close closes the files. Reading after it is an error.
func (r *Reader) Close() error { return r.files.close() }
