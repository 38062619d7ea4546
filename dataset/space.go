package dataset

import (
	"path/filepath"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

// Need is the disk space in bytes for making a dataset: a lower and an upper bound, which differ where
// the size is not known before.
type Need struct{ Least, Most int64 }

// CheckSpace compares the disk space that the rest of the work needs with the free space. It returns
// an error of kind fault.ErrBudget if the lower bound exceeds the free space. If only the upper bound
// does, it logs that to rep and returns nil: if the disk gets full, a later run resumes. edges is the
// number of edges to be stored, scratch the bytes of the scratch file that is needed until they are.
func (w *Writer) CheckSpace(edges Need, scratch int64, rep progress.Reporter) error {
	n := w.need(edges, scratch)
	free, err := w.dir.FS().Free(w.dir.Path())
	if err != nil {
		return err
	}
	return n.check(w.dir.Path(), free, rep)
}

// check compares the need with the free bytes.
func (n Need) check(path string, free int64, rep progress.Reporter) error {
	if n.Least > free {
		return fault.New(fault.ErrBudget, "%s needs %s of disk space, but only %s are free: make room, or give --skip-space-check to begin nevertheless",
			path, budget.FormatBytes(n.Least), budget.FormatBytes(free))
	}
	if n.Most > free {
		rep.Logf("%s may take up to %s of disk space, but only %s are free: if the disk fills up, make room and repeat the command",
			path, budget.FormatBytes(n.Most), budget.FormatBytes(free))
	}
	return nil
}

// need returns the most bytes that the files still to be written take at any time.
func (w *Writer) need(edges Need, scratch int64) Need {
	of := func(edges int64, most bool) int64 {
		f := w.state.Facts
		f.Edges = edges
		size := func(names ...string) (n int64) {
			for _, name := range names {
				if !w.Has(name) {
					n += max(f.size(name), 0)
				}
			}
			return n
		}
		labels := int64(0)
		if f.Labelled() {
			labels = size(LabelsFile, SplitFile(Train), SplitFile(Valid), SplitFile(Test))
		}
		if most && f.Labelled() && f.Train == 0 {
			labels += nodeIDBytes * f.Nodes // the splits are not known yet
		}
		if f.MultiLabel() {
			labels += size(TargetsFile)
		}
		if f.ClassNameBytes > 0 {
			labels += size(ClassNamesFile)
		}
		labels += size(f.idFiles()...)
		topology := size(IndptrFile, IndicesFile)
		features := int64(0)
		if !w.Has(f.FeaturesFile()) && (f.Compression == "" || most) {
			features = f.size(FeaturesFile) - w.state.Rows*int64(f.RowBytes())
		}
		if w.Has(IndicesFile) {
			scratch = 0
		}
		// The scratch file is removed before features are written.
		n := labels + topology + max(scratch, features)
		return n + n/Granule*8
	}
	return Need{of(edges.Least, false), of(edges.Most, true)}
}

// CheckRoom is CheckSpace for a dataset out that does not exist yet. It looks at the disk of the
// nearest existing parent directory of out.
func CheckRoom(fsys vfs.FS, out string, f Facts, edges Need, scratch int64) error {
	free, err := freeAbove(fsys, out)
	if err != nil {
		return err
	}
	return DiskNeed(f, edges, scratch).check(out, free, progress.Discard)
}

// freeAbove returns the free bytes of the disk that a path will lie on.
func freeAbove(fsys vfs.FS, path string) (int64, error) {
	for {
		path = filepath.Dir(path)
		if _, err := fsys.Stat(path); err == nil || path == filepath.Dir(path) {
			return fsys.Free(path)
		}
	}
}

// DiskNeed returns the largest disk space, in bytes, that making a dataset with the facts f takes at
// any time. edges and scratch are as in CheckSpace.
func DiskNeed(f Facts, edges Need, scratch int64) Need {
	w := Writer{state: journal{Facts: f}}
	return w.need(edges, scratch)
}

// DiskBytes returns the approximate size in bytes of the finished dataset without compression.
func DiskBytes(f Facts, edges int64) int64 {
	f.Compression = ""
	return DiskNeed(f, Need{edges, edges}, 0).Least
}
