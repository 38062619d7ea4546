package packfile

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"strings"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// Share determines the bytes of a pack's files that a slice has. The other bytes are zeros, and holes if
// the file system supports holes. It holds a bit for every page of the SSD level.
//
//	cold-GGGGG.bin   the chunks of the rank's batches
//	graph-GGGGG.bin  their graphs
//	ssd-GGGGG.bin    the pages that those batches read, whatever the cache
//	all others       whole
type Share struct {
	r     *Reader
	fs    vfs.FS
	s     Slice
	group map[string]int // of the files of groups, by name
	pages map[int]pageSet
}

// Share finds the bytes of a slice, from the pack or from an equal slice of it. With an SSD level, it
// reads the graphs of the rank's batches.
func (r *Reader) Share(ctx context.Context, fsys vfs.FS, s Slice) (*Share, error) {
	x := &Share{r: r, fs: fsys, s: s, group: map[string]int{}, pages: map[int]pageSet{}}
	for g := range r.facts.Groups() {
		x.group[ColdFile(g)], x.group[GraphFile(g)], x.group[SSDFile(g)] = g, g, g
	}
	if len(r.index.Segments) == 0 {
		return x, nil
	}
	for g := range r.facts.Groups() {
		if err := x.markGroup(ctx, g); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// Files returns the entries of all of the pack's files in meta.json.
func (x *Share) Files() []stage.File { return x.r.meta.Files }

// shared reports whether a file is one of the SSD level.
func (x *Share) shared(name string) bool {
	g, ok := x.group[name]
	return ok && name == SSDFile(g)
}

// Batches returns the number of training batches of the slice.
func (x *Share) Batches() int {
	n := 0
	for i := range x.r.index.Train {
		if x.s.Has(&x.r.facts, i) {
			n++
		}
	}
	return n
}

// Bytes returns the number of bytes of all files that the slice has.
func (x *Share) Bytes() (int64, error) {
	total := int64(0)
	for _, f := range x.Files() {
		ranges, err := x.Ranges(f)
		if err != nil {
			return 0, err
		}
		for r := range ranges {
			total += r.Len
		}
	}
	return total, nil
}

// Ranges returns the ranges of a file that the slice has, ascending, with the pack's checksums of them.
// A whole file with one checksum in meta.json is a range without a checksum.
func (x *Share) Ranges(f stage.File) (iter.Seq[binio.Range], error) {
	g, ok := x.group[f.Name]
	if !ok {
		if table := x.table(f.Name); table != "" {
			sums, err := x.r.Sums(x.fs, table)
			return sums.Ranges(), err
		}
		if f.Name == EvalGraphFile {
			return x.r.index.EvalGraphs(), nil
		}
		return func(yield func(binio.Range) bool) { yield(binio.Range{Len: f.Size}) }, nil
	}
	lo, hi := x.r.facts.GroupSpan(g)
	var has []Train
	for i := lo; i < hi; i++ {
		if x.s.Has(&x.r.facts, i) {
			has = append(has, x.r.index.Train[i])
		}
	}
	switch f.Name {
	case ColdFile(g):
		return chunks(has, x.r.Form(), x.r.index.Bands), nil
	case GraphFile(g):
		return TrainGraphs(has), nil
	}
	sums, err := x.r.Sums(x.fs, SSDSums(g))
	return x.pages[g].of(sums.Ranges()), err
}

// table returns the name of a file's table of page checksums, "" if it has none.
func (x *Share) table(name string) string {
	base, ok := strings.CutSuffix(name, dataSuffix)
	if !ok {
		return ""
	}
	if _, ok := x.r.files[base+sumsSuffix]; !ok {
		return ""
	}
	return base + sumsSuffix
}

// Checker returns a checker for the whole content of a file of the slice, zeros included; name is for its
// errors.
func (x *Share) Checker(name string, f stage.File) (binio.Checker, error) {
	if _, ok := x.group[f.Name]; !ok && x.table(f.Name) == "" && f.Name != EvalGraphFile {
		return binio.CheckHash(name, f.Checksum), nil
	}
	ranges, err := x.Ranges(f)
	if err != nil {
		return nil, err
	}
	return binio.CheckRanges(name, ranges), nil
}

// markGroup notes the pages of a group's file of the SSD level that the rank's batches read.
func (x *Share) markGroup(ctx context.Context, g int) (err error) {
	r := x.r
	file, ok := r.files[SSDFile(g)]
	if !ok {
		return nil
	}
	f, err := x.fs.Open(r.Path(GraphFile(g)))
	if err != nil {
		return err
	}
	defer f.Close()
	pages := make(pageSet, (file.Size/binio.Page+64)/64)
	var raw []byte
	var b graph.Batch
	plan, plans := r.NewPlan(), Needs{Through: r.index.Bands - 1}
	lo, hi := r.facts.GroupSpan(g)
	for i := lo; i < hi; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !x.s.Has(&r.facts, i) {
			continue
		}
		off, n := r.TrainGraph(i, plans)
		raw = binio.Grow(raw, n)
		if n, err := f.ReadAt(raw, off); n < len(raw) {
			return fmt.Errorf("read %s: %w", f.Name(), err)
		}
		if err := r.DecodeTrainGraph(i, plans, raw, &b, &plan); err != nil {
			return err
		}
		pages.read(plan.SSD, r.index.Segments[r.SegmentOf(i)].Offset, int64(r.facts.RowBytes), file.Size)
	}
	x.pages[g] = pages
	return nil
}

// pageSet has a bit for every page of a file.
type pageSet []uint64

// read adds the pages that a store reads for a batch's rows: the pages of the rows, and gaps of up to
// MaxGap pages between two rows. places ascend; place 0 is at offset base.
func (p pageSet) read(places []uint32, base, rowBytes, size int64) {
	end := int64(-MaxGap - 1) // the page after the last one of the run
	for _, place := range places {
		off := base + int64(place)*rowBytes
		from, to := off/binio.Page, (min(off+rowBytes, size)+binio.Page-1)/binio.Page
		if from <= end+MaxGap {
			from = min(from, end)
		}
		for page := from; page < to; page++ {
			p[page/64] |= 1 << (page % 64)
		}
		end = max(end, to)
	}
}

// of returns the pages of a file that are in the set. all yields all pages of the file.
func (p pageSet) of(all iter.Seq[binio.Range]) iter.Seq[binio.Range] {
	return func(yield func(binio.Range) bool) {
		for r := range all {
			page := r.Offset / binio.Page
			if p[page/64]&(1<<(page%64)) != 0 && !yield(r) {
				return
			}
		}
	}
}

// RefuseSlice refuses, as an error of kind fault.ErrInput, a directory that is a slice of a pack:
// for commands that take a directory's files as they are.
func RefuseSlice(fsys vfs.FS, dir string) error {
	ok, err := vfs.Exists(fsys, filepath.Join(dir, SliceFile))
	if err != nil || !ok {
		return err
	}
	return fault.New(fault.ErrInput, "%s is a slice of a pack, and its files have holes: the whole pack is needed here", dir)
}

// sumsSuffix ends the names of tables of page checksums, dataSuffix the names of the files with these
// pages.
const (
	sumsSuffix = ".sums"
	dataSuffix = ".bin"
)

// Check checks a directory with a meta.json, which is a pack or a shard; see stage.Spec. It refuses a
// slice.
func Check(ctx context.Context, fsys vfs.FS, dir string, m *stage.Meta, look stage.Look) error {
	open := OpenSlice
	if _, part := m.Format.Whole(); part {
		open = OpenShard
	}
	r, err := open(fsys, dir) // which checks the index
	if err == nil && r.slice != nil {
		err = fault.New(fault.ErrCorrupt, "%s is only %s of this pack", dir, r.slice)
	}
	if err != nil {
		return err
	}
	return r.check(ctx, fsys, look)
}

// CheckSlice checks a directory that should be the given slice of a pack; see stage.Spec.
func CheckSlice(ctx context.Context, fsys vfs.FS, dir string, want Slice, look stage.Look) error {
	r, err := OpenSlice(fsys, dir)
	switch {
	case err != nil:
		return err
	case r.slice == nil:
		return fault.New(fault.ErrCorrupt, "%s is not a slice: it has no %s", dir, SliceFile)
	case *r.slice != want:
		return fault.New(fault.ErrCorrupt, "%s is %s, not %s", dir, r.slice, want)
	}
	return r.check(ctx, fsys, look)
}

// check compares the tables of checksums with meta.json and, with stage.Bytes, all files with their
// checksums.
func (r *Reader) check(ctx context.Context, fsys vfs.FS, look stage.Look) error {
	m := r.meta
	for _, table := range m.Files {
		name, ok := strings.CutSuffix(table.Name, sumsSuffix)
		if !ok {
			continue
		}
		sums, err := r.Sums(fsys, table.Name)
		if err != nil {
			return err
		}
		f, ok := m.File(name + dataSuffix)
		if !ok || f.Size != sums.Size || f.Checksum != sums.Checksum() {
			return fault.New(fault.ErrCorrupt, "%s does not match the entry of %s in %s", r.Path(table.Name), name+dataSuffix, stage.MetaFile)
		}
	}
	if look == stage.Tables {
		return nil
	}
	if err := r.Verify(ctx, fsys, progress.Discard); err != nil {
		return fmt.Errorf("check the pack: %w", err)
	}
	return nil
}
