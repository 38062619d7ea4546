package importer

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"diskgnn/dataset"
	"diskgnn/dataset/internal/extsort"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/mapped"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

// Values of Options.Relabel; the package comment defines the orders.
const (
	RelabelNone   = "none"
	RelabelDegree = "degree"
	RelabelBFS    = "bfs"
)

// Relabels returns the values that --relabel accepts.
func Relabels() []string { return []string{RelabelNone, RelabelDegree, RelabelBFS} }

// relabels reports whether nodes get new numbers.
func (o *Options) relabels() bool { return o.Relabel != RelabelNone && o.Relabel != "" }

// orderMemory returns the bytes of memory for finding the order of the nodes, beside a sort of edges:
// for every node its old number, its new one, and a bit in a search.
func (im *importing) orderMemory() int64 {
	switch im.o.Relabel {
	case RelabelDegree:
		return 8 * im.shape.Nodes
	case RelabelBFS:
		return 8*im.shape.Nodes + bitBytes(im.shape.Nodes)
	}
	return 0
}

func bitBytes(n int64) int64 { return (n + 63) / 64 * 8 }

// numberMemory is the memory of the new numbers while edges and rows are written, in bytes.
func (im *importing) numberMemory() int64 {
	if !im.o.relabels() {
		return 0
	}
	return 4 * im.shape.Nodes
}

// orderScratch is the disk space of finding the order, in bytes.
func (im *importing) orderScratch() int64 {
	switch {
	case im.o.Relabel == RelabelDegree && im.o.Dedupe:
		return extsort.EdgeBytes(im.storedEdges().Most)
	case im.o.Relabel == RelabelBFS:
		both := 2 * im.shape.Edges
		return extsort.EdgeBytes(both) + 4*both + 8*(im.shape.Nodes+1)
	}
	return 0
}

// order settles im.from, the source's number of each node, and writes it, unless an earlier run
// did.
func (im *importing) order(ctx context.Context) (err error) {
	from := make([]uint32, im.shape.Nodes)
	if im.w.Has(dataset.NodeIDsFile) {
		err := im.w.ReadNumbers(ctx, dataset.NodeIDsFile, func(first int64, ids []int64) {
			for i, id := range ids {
				from[first+int64(i)] = uint32(id)
			}
		})
		im.from = from
		return err
	}
	to := make([]uint32, im.shape.Nodes)
	find := im.byDegree
	if im.o.Relabel == RelabelBFS {
		find = im.byBreadth
	}
	if err := find(ctx, from, to); err != nil {
		return err
	}
	im.from = from
	if im.facts().OriginalIDs != dataset.IDNumbers {
		return nil
	}
	a, err := im.w.Create(dataset.NodeIDsFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Discard()) }()
	ids := make([]int64, 0, Chunk)
	for part := range slices.Chunk(from, Chunk) {
		ids = ids[:0]
		for _, v := range part {
			ids = append(ids, int64(v))
		}
		if _, err := a.Write(binio.Bytes(ids)); err != nil {
			return err
		}
	}
	if err := a.Finish(); err != nil {
		return err
	}
	return im.w.Save()
}

// degreeCounter counts the edges into every node.
type degreeCounter []uint32

// AddAll counts edges; its parameters are the parameters of extsort.Edges.
func (c degreeCounter) AddAll(pairs []uint32, both bool) error {
	for i := 0; i < len(pairs); i += 2 {
		c[pairs[i]]++
		if both {
			c[pairs[i+1]]++
		}
	}
	return nil
}

// byDegree puts the nodes into from by falling in-degree. degrees is as long, for its use.
func (im *importing) byDegree(ctx context.Context, from, degrees []uint32) error {
	if im.o.Dedupe {
		at := 0
		err := im.sortEdges(ctx, extsort.EdgeOptions{Edges: im.storedEdges().Most, Unique: true},
			func(s edgeSink) error { return im.readEdges(ctx, s, im.storing()) },
			func(some, _ []uint32) error {
				at += copy(degrees[at:], some)
				return nil
			})
		if err != nil {
			return err
		}
	} else if err := im.readEdges(ctx, degreeCounter(degrees), im.storing()); err != nil {
		return err
	}
	for v := range from {
		from[v] = uint32(v)
	}
	slices.SortFunc(from, func(a, b uint32) int { return cmp.Or(cmp.Compare(degrees[b], degrees[a]), cmp.Compare(a, b)) })
	return ctx.Err()
}

// sortEdges sorts the edges that read adds.
func (im *importing) sortEdges(ctx context.Context, o extsort.EdgeOptions, read func(edgeSink) error, emit func(degrees, sources []uint32) error) (err error) {
	o.Nodes, o.Workers, o.Memory = im.shape.Nodes, im.o.Workers, im.plan.sort-im.orderMemory()
	s, err := extsort.NewEdges(im.fs, im.w.Scratch("order"), o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := read(s); err != nil {
		return err
	}
	task := im.rep.Task("order nodes", s.Added(), progress.Edges)
	defer task.Done()
	return s.Rows(ctx, func(degrees, sources []uint32) error {
		task.Add(int64(len(sources)))
		return emit(degrees, sources)
	})
}

// byBreadth puts the nodes into from in the order of a search. to is as long, for its use.
func (im *importing) byBreadth(ctx context.Context, from, to []uint32) (err error) {
	g, err := im.undirected(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	return g.guard(func() error { return g.search(ctx, from, to) })
}

// adjacency is an undirected graph in two scratch files that are mapped: where the neighbours of
// each node begin, and the neighbours, ascending, each once and never the node itself.
type adjacency struct {
	graph.CSC
	fs    vfs.FS
	files []*scratchFile
}

// undirected sorts the edges of the source in both directions.
func (im *importing) undirected(ctx context.Context) (_ *adjacency, err error) {
	g := &adjacency{fs: im.fs}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close())
		}
	}()
	for _, name := range []string{"offsets", "neighbours"} {
		f, err := createScratch(im.fs, im.w.Scratch(name))
		if err != nil {
			return nil, err
		}
		g.files = append(g.files, f)
	}
	end, ends := int64(0), make([]int64, 1, Chunk)
	err = im.sortEdges(ctx, extsort.EdgeOptions{Edges: 2 * im.shape.Edges, Unique: true},
		func(s edgeSink) error { return im.readEdges(ctx, s, storing{both: true}) },
		func(degrees, sources []uint32) error {
			for _, n := range degrees {
				end += int64(n)
				if ends = append(ends, end); len(ends) == cap(ends) {
					if err := g.files[0].write(binio.Bytes(ends)); err != nil {
						return err
					}
					ends = ends[:0]
				}
			}
			return g.files[1].write(binio.Bytes(sources))
		})
	if err == nil {
		err = g.files[0].write(binio.Bytes(ends))
	}
	if err != nil {
		return nil, err
	}
	return g, g.open(ctx)
}

// open ends the writing of the files and maps them.
func (g *adjacency) open(ctx context.Context) (err error) {
	var data [2][]byte
	for i, f := range g.files {
		if data[i], err = f.read(ctx); err != nil {
			return err
		}
	}
	g.CSC = graph.CSC{Indptr: binio.View[int64](data[0]), Indices: binio.View[uint32](data[1])}
	return nil
}

func (g *adjacency) guard(fn func() error) error {
	return mapped.Guard(fn, g.files[0].mapped, g.files[1].mapped)
}

func (g *adjacency) close() error {
	var err error
	for _, f := range g.files {
		err = errors.Join(err, f.close())
	}
	return err
}

// checkEvery is how many nodes are looked at between two looks at the context.
const checkEvery = 1 << 16

// search puts the nodes into from, breadth first. Of its arrays, to first has the sets of
// connected nodes (union-find, the lowest node of a component its root), then for each root where
// the search of its component begins, which from had; then from is the queue.
func (g *adjacency) search(ctx context.Context, from, to []uint32) error {
	for v := range to {
		to[v], from[v] = uint32(v), uint32(v)
	}
	root := func(v uint32) uint32 {
		for to[v] != v {
			to[v] = to[to[v]]
			v = to[v]
		}
		return v
	}
	for v := range uint32(len(to)) {
		if v%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		neighbours, err := g.Row(v)
		if err != nil {
			return err
		}
		for _, u := range neighbours {
			if u > v {
				break
			}
			a, b := root(u), root(v)
			to[max(a, b)] = min(a, b)
		}
	}
	for v := range uint32(len(to)) {
		if r := root(v); g.Degree(v) > g.Degree(from[r]) {
			from[r] = v
		}
	}
	for v := range to {
		if to[v] == uint32(v) {
			to[v] = from[v]
		}
	}
	seen := make([]uint64, bitBytes(int64(len(to)))/8)
	head, tail := 0, 0
	push := func(v uint32) {
		if seen[v/64]&(1<<(v%64)) == 0 {
			seen[v/64] |= 1 << (v % 64)
			from[tail] = v
			tail++
		}
	}
	for word := range seen {
		for free := ^seen[word]; free != 0; free = ^seen[word] {
			v := uint32(word*64 + bits.TrailingZeros64(free))
			if int(v) >= len(to) {
				return nil
			}
			push(to[v])
			for ; head < tail; head++ {
				if head%checkEvery == 0 && ctx.Err() != nil {
					return ctx.Err()
				}
				neighbours, err := g.Sources(from[head])
				if err != nil {
					return err
				}
				for _, u := range neighbours {
					push(u)
				}
			}
		}
	}
	return nil
}

// scratchFile is a file that is written, then mapped, and removed when it is closed. Reading checks it
// against the checksums of writing.
type scratchFile struct {
	fs     vfs.FS
	f      vfs.File
	name   string
	buf    *bufio.Writer
	sum    *binio.Summer
	mapped *mapped.File
}

func createScratch(fsys vfs.FS, name string) (*scratchFile, error) {
	f, err := fsys.Create(name)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", name, err)
	}
	return &scratchFile{fs: fsys, f: f, name: name, buf: bufio.NewWriterSize(f, 256<<10), sum: binio.NewSummer(dataset.Granule)}, nil
}

func (s *scratchFile) write(b []byte) error {
	_, _ = s.sum.Write(b) // never fails
	if _, err := s.buf.Write(b); err != nil {
		return fmt.Errorf("write %s: %w", s.name, err)
	}
	return nil
}

// read ends the writing and maps the file.
func (s *scratchFile) read(ctx context.Context) (_ []byte, err error) {
	if err := s.buf.Flush(); err != nil {
		return nil, fmt.Errorf("write %s: %w", s.name, err)
	}
	if s.mapped, err = mapped.Open(s.name); err != nil {
		return nil, err
	}
	sums, data := s.sum.Sums(), s.mapped.Data()
	if int64(len(data)) != sums.Size {
		return nil, fault.New(fault.ErrCorrupt, "%s has %d bytes instead of %d", s.name, len(data), sums.Size)
	}
	return data, mapped.Guard(func() error {
		for off := 0; off < len(data); off += dataset.Granule {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := sums.Verify(s.name, int64(off), data[off:min(off+dataset.Granule, len(data))]); err != nil {
				return err
			}
		}
		return nil
	}, s.mapped)
}

func (s *scratchFile) close() error {
	var err error
	if s.mapped != nil {
		err = s.mapped.Close()
	}
	return errors.Join(err, s.f.Close(), s.fs.Remove(s.name))
}
