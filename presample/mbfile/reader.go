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
	fs      vfs.FS
	dir     string
	meta    *stage.Meta
	version version
	params  Params
	facts   Facts
	index   *index
	files   *handles
}

// Open opens a SAMPLES directory. It checks meta.json, the index and the sizes of the files; batches
// are checked as they are read. Damage, here and in the methods, is an error of kind fault.ErrCorrupt
// with a hint how to make the directory again.
func Open(fsys vfs.FS, dir string) (*Reader, error) {
	meta, err := stage.Open(fsys, dir, "samples directory", versions.Formats(Format.Name)...)
	if err != nil {
		return nil, err
	}
	return openReader(fsys, dir, meta)
}

// OpenShard opens one shard of a SAMPLES directory. A shard reads like a whole directory: its batches
// are numbered from 0, and its hotness counts its own training batches.
func OpenShard(fsys vfs.FS, dir string) (*Reader, error) {
	meta, err := stage.Open(fsys, dir, "shard of samples", versions.Formats(Format.Shard().Name)...)
	if err != nil {
		return nil, err
	}
	return openReader(fsys, dir, meta)
}

// openReader opens a directory with the given meta.json, and reads its index.
func openReader(fsys vfs.FS, dir string, meta *stage.Meta) (*Reader, error) {
	version, err := versions.Of(dir, meta.Format)
	if err != nil {
		return nil, err
	}
	r := &Reader{fs: fsys, dir: dir, meta: meta, version: version, files: &handles{fs: fsys, dir: dir, open: map[int]*handle{}}}
	if err := r.open(); err != nil {
		return nil, r.damaged(fmt.Errorf("%s: %w", dir, err))
	}
	return r, nil
}

func (r *Reader) open() error {
	if err := errors.Join(r.meta.DecodeParams(&r.params), r.meta.DecodeFacts(&r.facts)); err != nil {
		return err
	}
	if err := r.checkFacts(); err != nil {
		return err
	}
	b, err := r.readWhole(IndexFile)
	if err != nil {
		return err
	}
	if r.index, err = r.version.decodeIndex(b); err != nil {
		return err
	}
	return r.checkIndex()
}

// damaged adds to an error how the directory is made again.
func (r *Reader) damaged(err error) error { return stage.Damaged(err, r.dir, r.meta.Format) }

// Check checks a SAMPLES directory or a shard that has a meta.json, as thoroughly as look says: it is
// the Check of stage.Spec.
func Check(ctx context.Context, fsys vfs.FS, dir string, m *stage.Meta, look stage.Look) error {
	r, err := openReader(fsys, dir, m)
	if err != nil {
		return err
	}
	defer r.Close() // which has opened no file
	hot, err := r.openHotness()
	if err != nil || look == stage.Tables {
		return err
	}
	check := func(name string, c binio.Checker) error {
		f, _ := m.File(name)
		return stage.CheckFile(ctx, fsys, filepath.Join(dir, name), f.Size, c, nil)
	}
	for i := range r.index.files() {
		name := r.index.file(i).Name
		if err := check(name, r.index.checker(filepath.Join(dir, name), i)); err != nil {
			return err
		}
	}
	return check(HotnessFile, binio.CheckRanges(hot.path, hot.sums.Ranges()))
}

// readWhole returns a small file that meta.json holds the checksum of.
func (r *Reader) readWhole(name string) ([]byte, error) {
	f, ok := r.meta.File(name)
	if !ok {
		return nil, fault.New(fault.ErrCorrupt, "%s does not list %s", stage.MetaFile, name)
	}
	b, err := vfs.ReadSmall(r.fs, filepath.Join(r.dir, name), f.Size)
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

// Meta returns the content of meta.json. The caller must not modify it.
func (r *Reader) Meta() *stage.Meta { return r.meta }

// CheckDataset returns an error of kind fault.ErrLineage unless the samples were drawn from the dataset in
// dir with the fingerprint.
func (r *Reader) CheckDataset(dir, fingerprint string) error {
	err := stage.CheckParent(r.dir, r.meta, stage.RoleDataset, dir, fingerprint)
	if err != nil {
		return fault.New(err, "%v; draw the samples again, by their diskgnn presample with --force", err)
	}
	return nil
}

// Fingerprint returns the fingerprint of the directory's content.
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

// Info returns the index entry of batch i.
func (r *Reader) Info(i int) BatchInfo { return r.index.info(i) }

// Read reads, checks and decodes batch i into b, reusing the memory of b. buf is memory for the byte
// form: Read returns it, enlarged if needed, for the next call. A wrong byte is an error of kind
// fault.ErrCorrupt that names the file and the range. A batch that is returned without an error is
// valid, and its nodes are nodes of the graph, whatever the bytes.
func (r *Reader) Read(ctx context.Context, i int, buf []byte, b *graph.Batch) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return buf, err
	}
	info := r.index.info(i)
	buf = binio.Grow(buf, int(info.Size))
	if err := r.load(&info, buf); err != nil {
		return buf, r.damaged(fmt.Errorf("read batch %d: %w", i, err))
	}
	return buf, r.decode(i, &info, buf, b)
}

// Path returns the path of the file that has batch i. Callers with an I/O of their own read the byte
// form there, at the Offset and Size of Info, and call Decode or DecodeInputs.
func (r *Reader) Path(i int) string {
	info := r.index.info(i)
	return r.batchesPath(info.File)
}

// Decode checks raw, the byte form of batch i, and decodes it into b, reusing the memory of b. It is
// Read for callers that read the byte form themselves.
func (r *Reader) Decode(i int, raw []byte, b *graph.Batch) error {
	info := r.index.info(i)
	if err := r.check(i, &info, raw); err != nil {
		return err
	}
	return r.decode(i, &info, raw, b)
}

// check compares a byte form with its checksum.
func (r *Reader) check(i int, info *BatchInfo, raw []byte) error {
	if int64(len(raw)) != info.Size || binio.CRC(raw) != info.CRC {
		return r.damaged(fmt.Errorf("read batch %d: %w", i, binio.BadRange(r.batchesPath(info.File), info.Offset, info.Size)))
	}
	return nil
}

// decode decodes a byte form with the right checksum, and compares it with the index.
func (r *Reader) decode(i int, info *BatchInfo, raw []byte, b *graph.Batch) error {
	b.Types, b.SeedType = r.facts.Types, r.facts.SeedType
	err := batchcodec.Decode(raw, b)
	if err == nil {
		err = r.agrees(info, b)
	}
	if err != nil {
		return r.damaged(fmt.Errorf("read batch %d: %s from byte %d: %w", i, r.batchesPath(info.File), info.Offset, err))
	}
	return nil
}

// Inputs reads the input nodes of batch i without decoding the rest. nodes aliases buf, memory for the
// byte form that is returned as by Read.
func (r *Reader) Inputs(ctx context.Context, i int, buf []byte) (nodes []uint32, _ []byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, buf, err
	}
	info := r.index.info(i)
	buf = binio.Grow(buf, int(info.Size))
	if err := r.load(&info, buf); err != nil {
		return nil, buf, r.damaged(fmt.Errorf("read batch %d: %w", i, err))
	}
	nodes, err = r.inputs(i, &info, buf)
	return nodes, buf, err
}

// DecodeInputs checks raw, the byte form of batch i, and returns its input nodes, which alias raw. It
// is Inputs for callers that read the byte form themselves.
func (r *Reader) DecodeInputs(i int, raw []byte) ([]uint32, error) {
	info := r.index.info(i)
	if err := r.check(i, &info, raw); err != nil {
		return nil, err
	}
	return r.inputs(i, &info, raw)
}

// inputs returns the input nodes of a byte form with the right checksum.
func (r *Reader) inputs(i int, info *BatchInfo, raw []byte) ([]uint32, error) {
	nodes, err := batchcodec.Inputs(raw, r.facts.numTypes())
	if err == nil && len(nodes) != info.InputNodes() {
		err = fault.New(fault.ErrCorrupt, "it has %d input nodes instead of the %d that %s says", len(nodes), info.InputNodes(), IndexFile)
	}
	if err == nil && len(nodes) > 0 && int64(slices.Max(nodes)) >= r.facts.Nodes {
		err = fault.New(fault.ErrCorrupt, "the input node %d is out of range: the graph has %d nodes", slices.Max(nodes), r.facts.Nodes)
	}
	if err != nil {
		return nil, r.damaged(fmt.Errorf("read batch %d: %s from byte %d: %w", i, r.batchesPath(info.File), info.Offset, err))
	}
	return nodes, nil
}

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
		return fault.New(fault.ErrCorrupt, "it has %d layers instead of %d", len(b.Blocks), len(info.Edges))
	}
	for l := range b.Blocks {
		k := &b.Blocks[l]
		if k.NumSrc != int(info.Nodes[l]) || k.NumDst != int(info.Nodes[l+1]) || len(k.Indices) != int(info.Edges[l]) || k.Dst != nil && b.Types == nil ||
			b.Types != nil && k.NumRows() != int(info.Rows[l]) {
			return fault.New(fault.ErrCorrupt, "layer %d does not match %s", l, IndexFile)
		}
	}
	if len(b.Input) > 0 && int64(slices.Max(b.Input)) >= r.facts.Nodes {
		return fault.New(fault.ErrCorrupt, "the input node %d is out of range: the graph has %d nodes or rows of features", slices.Max(b.Input), r.facts.Nodes)
	}
	if err := b.CheckTypes(); err != nil {
		return fault.New(fault.ErrCorrupt, "%w", err)
	}
	if len(b.Targets) != len(b.Labels)*r.facts.TargetBytes {
		return fault.New(fault.ErrCorrupt, "it has %d bytes of targets, which are not for %d seed nodes %d bytes each", len(b.Targets), len(b.Labels), r.facts.TargetBytes)
	}
	return nil
}

// Verify reads and checks all batches, and checks that the parameters and the hotness match them. It
// holds 4 bytes for each node, and one batch.
func (r *Reader) Verify(ctx context.Context, rep progress.Reporter) error {
	task := rep.Task("verify samples", int64(r.facts.Batches()), progress.Batches)
	defer task.Done()
	hot, err := r.Hotness()
	if err != nil {
		return err
	}
	if have := r.facts.TypeInputs; have != nil {
		want := make([]int64, len(have))
		if addByType(want, r.facts.Types, 0, hot); !slices.Equal(have, want) {
			return r.damaged(fault.New(fault.ErrCorrupt, "%s: its types have the input nodes %v, but by %s they have %v", filepath.Join(r.dir, stage.MetaFile), have, HotnessFile, want))
		}
	}
	var buf []byte
	var b graph.Batch
	if err := r.verifyParams(); err != nil {
		return r.damaged(fmt.Errorf("%s: %w", filepath.Join(r.dir, stage.MetaFile), err))
	}
	for i := range r.facts.Batches() {
		var err error
		if buf, err = r.Read(ctx, i, buf, &b); err != nil {
			return err
		}
		if err := r.verifyDrawn(i, &b); err != nil {
			return r.damaged(fmt.Errorf("%s: %w", filepath.Join(r.dir, stage.MetaFile), err))
		}
		if i < r.facts.TrainBatches {
			for _, v := range b.Input {
				hot[v]-- // below zero it wraps, and is found below
			}
		}
		task.Add(1)
	}
	for v, n := range hot {
		if n != 0 {
			return r.damaged(fault.New(fault.ErrCorrupt, "%s: the hotness of node %d is not the number of training batches with this input node", filepath.Join(r.dir, HotnessFile), v))
		}
	}
	return nil
}

// Close closes the files. Reading after it is an error.
func (r *Reader) Close() error { return r.files.close() }
