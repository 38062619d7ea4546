// Package export writes datasets in the forms of other tools: a source tree of GraphBolt's, plain
// arrays of NumPy's, or arrays that PyTorch Geometric loads.
//
// GraphBolt's OnDiskDataset loads a tree of FormatGraphBolt, and dataset/importer imports it again:
//
//	metadata.yaml
//	edges.npy             int64 (2, edges): sources, destinations, ordered by destination
//	feat.npy              (nodes, dim)
//	SET_seeds.npy         int64: the nodes of a split, ascending; SET is train, valid or test
//	SET_labels.npy        int64, or uint8 of a column per class
//
// Arrays (FormatNPY) are the dataset's own files with headers: indptr.npy (int64), indices.npy
// (uint32), features.npy, labels.npy (int32, -1 for none), targets.npy (uint8 of a column per class, of
// multi-label datasets) and train.npy, valid.npy and test.npy (uint32).
//
// For PyTorch Geometric (FormatPyG), load.py makes a HeteroData, or a Data of an untyped graph, of graph.json and
// the arrays that it names: featN.npy of node type N, edgesN.npy of relation N (int64, sources and destinations),
// and y.npy (int64, or uint8 of a column per class) and the masks of the type with labels.
//
// A typed graph has in FormatGraphBolt, too, an array of features for each type that has some, and an array of
// edges for each relation; nodes are counted from 0 in their types. FormatNPY has no types.
//
// All have the nodes' original ids where a dataset has some: node_ids.npy (int64), or name_offsets.npy
// (int64, one more than nodes) and names.npy (uint8), where the name of node v is the bytes from
// name_offsets[v] to name_offsets[v+1] of names. If the classes have names, class_names.txt has them, one
// a line. GraphBolt looks at none of these.
//
// Features are float32 or float16 as in the dataset; NumPy has no bfloat16, which becomes float32.
// Every byte that is read is checked. Labels of nodes that are in no split have no place in a tree of
// GraphBolt's: imported again, these nodes have none.
package export

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

// Formats that a dataset can be written in.
const (
	FormatGraphBolt = "graphbolt"
	FormatNPY       = "npy"
	FormatPyG       = "pyg"
)

// Formats returns the names of the formats.
func Formats() []string { return []string{FormatGraphBolt, FormatNPY, FormatPyG} }

// Options are the format, the place and the memory of an export.
type Options struct {
	Format string // one of Formats
	Out    string // a directory, which must not exist
	Memory int64  // anonymous and locked bytes; 0 means budget.Default
}

// EnsureDefaults replaces zero values by the defaults.
func (o *Options) EnsureDefaults() {
	if o.Memory == 0 {
		o.Memory, _ = budget.Default()
	}
}

// Validate returns an error of kind fault.ErrUsage that names the first flag with an invalid value, or
// nil.
func (o *Options) Validate() error {
	if !slices.Contains(Formats(), o.Format) {
		return fault.New(fault.ErrUsage, "--format %q is not one of %s", o.Format, strings.Join(Formats(), ", "))
	}
	return nil
}

// Result describes the written files.
type Result struct {
	Out       string  `json:"out"`
	Format    string  `json:"format"`
	Nodes     int64   `json:"nodes"`
	Edges     int64   `json:"edges"`
	DType     string  `json:"dtype"` // of the features written
	DiskBytes int64   `json:"disk_bytes"`
	Seconds   float64 `json:"seconds"`
	PeakAnon  int64   `json:"peak_anon_bytes"`
	PeakRSS   int64   `json:"peak_rss_bytes"`
}

// chunk is about how many bytes are written at a time.
const chunk = 1 << 20

// Run writes a dataset into the directory Out. It writes into Out.exporting and renames that to Out
// when all files are durable. A run that fails or is cancelled removes Out.exporting; the next run
// removes the files of a killed process. A second process that exports to the same Out gets an error
// of kind fault.ErrLocked.
//
// Run holds at most Options.Memory bytes. It needs graph.OffsetsBytes, or the labels and a split, and
// some chunks; less memory is an error of kind fault.ErrBudget.
func Run(ctx context.Context, fsys vfs.FS, d *dataset.Dataset, o Options, rep progress.Reporter) (Result, error) {
	if err := d.CheckLabelled(); err != nil {
		return Result{}, err
	}
	began := time.Now()
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return Result{}, err
	}
	watch := budget.StartWatch(ctx)
	defer watch.Stop()
	if err := absent(fsys, o.Out); err != nil {
		return Result{}, fmt.Errorf("export: %w", err)
	}
	e := &exporting{ctx: ctx, fs: fsys, d: d, f: d.Facts(), dir: filepath.Clean(o.Out) + ".exporting", rep: rep, buf: bufio.NewWriterSize(nil, chunk)}
	if err := budget.Check("exporting", budget.Reserve+e.memory(), o.Memory); err != nil {
		return Result{}, fmt.Errorf("export: %w", err)
	}
	defer budget.LimitHeap(o.Memory, 0)()
	write := e.arrays
	e.edgeBytes = 4 // the source, uint32
	if o.Format != FormatNPY {
		e.edgeBytes = 16 // both ends, int64
	}
	switch {
	case o.Format == FormatPyG:
		write = e.pyg
	case o.Format == FormatGraphBolt && e.f.Types != nil:
		write = e.graphBoltOfTypes
		if err := e.checkNames(); err != nil {
			return Result{}, fmt.Errorf("export: %w", err)
		}
	case o.Format == FormatGraphBolt:
		write = e.graphBolt
	case e.f.Types != nil:
		return Result{}, fault.New(fault.ErrInput, "export: %s has node types, for which the format %s has no place: give --format %s or %s", d.Dir(), FormatNPY, FormatGraphBolt, FormatPyG)
	}
	if err := e.run(write, o.Out); err != nil {
		return Result{}, fmt.Errorf("export: %w", err)
	}
	anon, rss := watch.Stop()
	return Result{o.Out, o.Format, e.f.Nodes, e.f.Edges, string(e.featureType()), e.written, time.Since(began).Seconds(), anon, rss}, nil
}

// memory returns the bytes of memory of the largest step: offsets; or labels and the nodes of a split,
// with some classes; or rows as they are read and as they are written.
func (e *exporting) memory() int64 {
	f := &e.f
	labels := 4*f.Nodes + 4*max(f.Train, f.Valid, f.Test)
	if f.MultiLabel() {
		labels += rowsAtOnce*int64(4+f.TargetBytes()) + int64(f.Classes)
	}
	rows := e.rows()
	features := rows * int64(f.RowBytes()+f.Dim*e.featureType().Size())
	features += 12 * (f.Nodes*int64(f.RowBytes())/dataset.Granule + 1) // checksums
	if f.Compression != "" {
		features += 4 * dataset.Granule
	}
	return chunk + dataset.Granule + max(graph.OffsetsBytes(f.Nodes), labels, features)
}

// rows is how many rows of features are written at a time.
func (e *exporting) rows() int64 { return min(max(chunk/int64(e.f.RowBytes()), 1), e.f.Nodes) }

// absent refuses an existing out.
func absent(fsys vfs.FS, out string) error {
	there, err := vfs.Exists(fsys, out)
	if err == nil && there {
		err = fault.New(fault.ErrExists, "%s exists", out)
	}
	return err
}

// exporting is one run.
type exporting struct {
	ctx       context.Context
	fs        vfs.FS
	d         *dataset.Dataset
	f         dataset.Facts
	dir       string
	rep       progress.Reporter
	edgeBytes int64         // that an edge takes
	buf       *bufio.Writer // of the file being written
	written   int64
}

func (e *exporting) run(write func() error, out string) (err error) {
	if err := e.checkSpace(); err != nil {
		return err
	}
	if err := vfs.MakeParents(e.fs, e.dir); err != nil {
		return err
	}
	name := e.dir + ".lock" // beside the directory, since all files in that are part of the export
	lock, err := e.fs.Lock(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.fs.Remove(name), lock.Close()) }()
	if err := absent(e.fs, out); err != nil { // by now
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.fs.RemoveAll(e.dir))
		}
	}()
	if err := errors.Join(e.fs.RemoveAll(e.dir), e.fs.MkdirAll(e.dir)); err != nil {
		return err
	}
	if err := write(); err != nil {
		return err
	}
	if err := errors.Join(e.ids(), e.classNames()); err != nil {
		return err
	}
	if err := e.fs.SyncDir(e.dir); err != nil {
		return err
	}
	if err := e.fs.Rename(e.dir, out); err != nil {
		return err
	}
	return e.fs.SyncDir(filepath.Dir(filepath.Clean(out)))
}

// checkSpace refuses to begin where the disk has no room for edges and features, which is nearly all
// that is written.
func (e *exporting) checkSpace() error {
	need := e.edgeBytes*e.f.Edges + e.f.FeatureRows()*int64(e.f.Dim*e.featureType().Size())
	where, err := vfs.Nearest(e.fs, e.dir)
	if err != nil {
		return err
	}
	free, err := e.fs.Free(where)
	if err == nil && free < need {
		err = fault.New(fault.ErrBudget, "%s needs %s of disk space, but only %s are free: make room, or give --skip-space-check to begin nevertheless", e.dir, budget.FormatBytes(need), budget.FormatBytes(free))
	}
	return err
}

func (e *exporting) arrays() error {
	if err := e.indptr("indptr.npy"); err != nil {
		return err
	}
	if err := e.array("indices.npy", "<u4", []int64{e.f.Edges}, func(w *file) error {
		return e.d.ScanIndices(e.ctx, e.rep, "write indices", func(_ int64, sources []uint32) error { return w.append(binio.Bytes(sources)) })
	}); err != nil {
		return err
	}
	if err := e.features("features.npy"); err != nil {
		return err
	}
	labels, err := e.d.Labels()
	if err != nil {
		return err
	}
	if err := e.array("labels.npy", "<i4", []int64{e.f.Nodes}, func(w *file) error { return w.append(binio.Bytes(labels)) }); err != nil {
		return err
	}
	if e.f.MultiLabel() {
		if err := e.array("targets.npy", "|u1", []int64{e.f.Nodes, int64(e.f.Classes)}, func(w *file) error { return e.targetsOf(w, 0, e.f.Nodes) }); err != nil {
			return err
		}
	}
	for _, name := range dataset.SplitNames {
		nodes, err := e.d.Split(name)
		if err != nil {
			return err
		}
		if err := e.array(name+".npy", "<u4", []int64{int64(len(nodes))}, func(w *file) error { return w.append(binio.Bytes(nodes)) }); err != nil {
			return err
		}
	}
	return nil
}

func (e *exporting) ids() error {
	type array struct {
		name, descr string
		n           int64
	}
	arrays := map[string][]array{
		dataset.IDNumbers: {{dataset.NodeIDsFile, "<i8", e.f.Nodes}},
		dataset.IDNames:   {{dataset.NameOffsetsFile, "<i8", e.f.Nodes + 1}, {dataset.NamesFile, "|u1", e.f.NameBytes}},
	}[e.f.OriginalIDs]
	for _, a := range arrays {
		err := e.array(strings.TrimSuffix(a.name, ".bin")+".npy", a.descr, []int64{a.n}, func(w *file) error {
			return e.d.ScanIDs(e.ctx, a.name, w.append)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// classNames writes the names of the classes, if they have some.
func (e *exporting) classNames() error {
	names, err := e.d.ClassNames()
	if err != nil || names == nil {
		return err
	}
	b, err := dataset.EncodeClassNames(names)
	if err != nil {
		return err
	}
	e.written += int64(len(b))
	return vfs.WriteFile(e.fs, filepath.Join(e.dir, dataset.ClassNamesFile), b)
}

// rowsAtOnce is for how many nodes classes are read at a time.
const rowsAtOnce = 1 << 14

// targetsOf appends a column per class for each node from lo on, up to hi.
func (e *exporting) targetsOf(w *file, lo, hi int64) error {
	all := make([]uint32, 0, rowsAtOnce)
	for v := lo; v < hi; v += rowsAtOnce {
		all = all[:0]
		for u := v; u < min(v+rowsAtOnce, hi); u++ {
			all = append(all, uint32(u))
		}
		if err := e.targets(w, all); err != nil {
			return err
		}
	}
	return nil
}

// targets appends a column per class for each node.
func (e *exporting) targets(w *file, nodes []uint32) error {
	bits, err := e.d.Targets(e.ctx, nodes)
	if err != nil {
		return err
	}
	row := make([]byte, e.f.Classes)
	bytes := graph.TargetBytes(e.f.Classes)
	for i := range nodes {
		for c := range row {
			row[c] = bits[i*bytes+c/8] >> (c % 8) & 1
		}
		if err := w.append(row); err != nil {
			return err
		}
	}
	return nil
}

// indptr writes where each node's in-neighbours begin.
func (e *exporting) indptr(name string) error {
	o, err := e.d.Offsets(e.ctx, e.rep)
	if err != nil {
		return err
	}
	return e.array(name, "<i8", []int64{e.f.Nodes + 1}, func(w *file) error {
		starts := integers{w: w}
		for v := range e.f.Nodes + 1 {
			if err := starts.add(o.Start(v)); err != nil {
				return err
			}
		}
		return starts.flush()
	})
}

func (e *exporting) featureType() dtype.Type {
	if e.f.DType == dtype.Float16 {
		return dtype.Float16
	}
	return dtype.Float32
}

// features writes the features of all nodes of an untyped graph.
func (e *exporting) features(name string) error { return e.featureRows(name, 0, e.f.Nodes) }

// featureRows writes the features of the nodes from first on, up to last.
func (e *exporting) featureRows(name string, first, last int64) error {
	to := e.featureType()
	descr := map[dtype.Type]string{dtype.Float32: "<f4", dtype.Float16: "<f2"}[to]
	if to != e.f.DType {
		e.rep.Logf("NumPy has no %s: writing the features as %s", e.f.DType, to)
	}
	return e.array(name, descr, []int64{last - first, int64(e.f.Dim)}, func(w *file) error {
		task := e.rep.Task("write features", (last-first)*int64(e.f.RowBytes()), progress.Bytes)
		defer task.Done()
		rows := e.rows()
		raw := make([]byte, rows*int64(e.f.RowBytes()))
		wide := make([]byte, rows*int64(e.f.Dim*to.Size()))
		for v := first; v < last; v += rows {
			hi := min(v+rows, last)
			b := raw[:(hi-v)*int64(e.f.RowBytes())]
			if err := e.d.ReadFeatures(e.ctx, v, hi, b); err != nil {
				return err
			}
			task.Add(int64(len(b)))
			if to != e.f.DType {
				out := wide[:(hi-v)*int64(e.f.Dim*to.Size())]
				dtype.Convert(out, to, b, e.f.DType)
				b = out
			}
			if err := w.append(b); err != nil {
				return err
			}
		}
		return nil
	})
}
