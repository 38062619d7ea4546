package dataset

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sort"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/internal/mapped"
	"diskgnn/internal/progress"
)

// Topology is the dataset's graph, in mapped files that were checked. It takes no anonymous memory.
type Topology struct {
	graph.CSC
	of              *Dataset
	indptr, indices *mapped.File
}

// Topology maps indptr.bin and indices.bin and checks every byte and every invariant of both in one
// sequential pass, on the given number of goroutines (0: one for each core). It checks that offsets
// and node ids are in range, and that the in-neighbours of every node ascend. The caller closes the
// result.
func (d *Dataset) Topology(ctx context.Context, rep progress.Reporter, workers int) (_ *Topology, err error) {
	defer func() { err = d.damaged(err) }()
	t := &Topology{of: d}
	if t.indptr, err = mapped.Open(d.path(IndptrFile)); err != nil {
		return nil, err
	}
	if t.indices, err = mapped.Open(d.path(IndicesFile)); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	if err := d.verifyTopology(ctx, rep, workers, t); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	t.indptr.Advise(mapped.Random)
	t.indices.Advise(mapped.Random)
	return t, nil
}

// InOrder tells the kernel that the graph will be read in the order of its nodes, perhaps several times. At
// first it expects random accesses.
func (t *Topology) InOrder() {
	t.indptr.Advise(mapped.Normal)
	t.indices.Advise(mapped.Normal)
}

// Guard runs fn, which reads the graph on the calling goroutine. It returns an error of kind
// fault.ErrCorrupt if a mapped file cannot be read any more or was changed since it was checked; the
// caller must then discard the results of fn. Every goroutine that reads the graph needs its own
// Guard.
func (t *Topology) Guard(fn func() error) error {
	return t.of.damaged(mapped.Guard(fn, t.indptr, t.indices))
}

// Unchanged returns an error of kind fault.ErrCorrupt if one of the checked files was changed,
// replaced or removed. Call it before committing results that depend on the graph.
func (t *Topology) Unchanged() error {
	if err := t.Guard(func() error { return nil }); err != nil {
		return err
	}
	return mapped.Unchanged(t.indptr, t.indices)
}

// Close unmaps the files. The slices of the graph must not be used afterwards.
func (t *Topology) Close() error {
	t.CSC = graph.CSC{}
	var err error
	for _, f := range []*mapped.File{t.indptr, t.indices} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

// verifyStep is how much of a file one goroutine verifies at a time.
const verifyStep = 4 * Granule

// part is one of the two mapped files while it is verified.
type part struct {
	name  string
	file  *mapped.File
	sums  binio.Sums
	check func(off int64, b []byte) error
}

func (d *Dataset) verifyTopology(ctx context.Context, rep progress.Reporter, workers int, t *Topology) error {
	// The offsets come first: the check of the neighbours goes by them.
	parts := []*part{
		{name: IndptrFile, file: t.indptr, check: d.checkIndptr(t)},
		{name: IndicesFile, file: t.indices, check: d.checkIndices(t)},
	}
	var total int64
	for _, p := range parts {
		size := d.facts.size(p.name)
		if int64(len(p.file.Data())) != size {
			return fault.New(fault.ErrCorrupt, "%s has %d bytes instead of %d", d.path(p.name), len(p.file.Data()), size)
		}
		c, err := d.checksums(p.name)
		if err != nil {
			return err
		}
		p.sums = c.sums
		p.file.Advise(mapped.Sequential)
		total += size
	}
	t.Indptr = binio.View[int64](t.indptr.Data())
	t.Indices = binio.View[uint32](t.indices.Data())

	task := rep.Task("verify topology", total, progress.Bytes)
	defer task.Done()
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	for _, p := range parts {
		if err := d.verifyPart(ctx, t, p, workers, task); err != nil {
			return fmt.Errorf("verify %s: %w", d.dir, err)
		}
	}
	return nil
}

// verifyPart verifies one of the files, in steps that the goroutines share.
func (d *Dataset) verifyPart(ctx context.Context, t *Topology, p *part, workers int, task progress.Task) error {
	data := p.file.Data()
	return errgroup.Ranges(ctx, workers, len(data), verifyStep, func(_, off, end int) error {
		return t.Guard(func() error {
			b := data[off:end]
			if err := p.sums.Verify(d.path(p.name), int64(off), b); err != nil {
				return err
			}
			if err := p.check(int64(off), b); err != nil {
				return err
			}
			task.Add(int64(len(b)))
			return nil
		})
	})
}

// checkIndptr checks that the offsets of a step ascend, from the last one of the
// step before.
func (d *Dataset) checkIndptr(t *Topology) func(off int64, b []byte) error {
	return func(off int64, b []byte) error {
		first := off / 8
		last := int64(0)
		if first > 0 {
			last = t.Indptr[first-1]
		}
		ptr := binio.View[int64](b)
		bad := func(i int) error { return d.badOffset(ptr[i], first+int64(i)) }
		if first == 0 && ptr[0] != 0 {
			return bad(0)
		}
		for i, p := range ptr {
			if p < last {
				return bad(i)
			}
			last = p
		}
		if end := len(ptr) - 1; last > d.facts.Edges || first+int64(end) == d.facts.Rows() && last != d.facts.Edges {
			return bad(end)
		}
		return nil
	}
}

// checkIndices checks that the node ids of a step are in range, and that they ascend within each
// node's in-neighbours, also across the border to the step before.
func (d *Dataset) checkIndices(t *Topology) func(off int64, b []byte) error {
	return func(off int64, b []byte) error {
		ids := binio.View[uint32](b)
		first := off / nodeIDBytes
		end := first + int64(len(ids))
		var most uint32
		for _, v := range ids {
			most = max(most, v)
		}
		if int64(most) >= d.facts.Nodes {
			i := slices.IndexFunc(ids, func(v uint32) bool { return int64(v) >= d.facts.Nodes })
			return d.outOfRange(first+int64(i), ids[i])
		}
		// The node that has the step's first edge: the last one that begins at it or before.
		v := sort.Search(len(t.Indptr), func(i int) bool { return t.Indptr[i] > first }) - 1
		for lo := first; lo < end; v++ {
			hi := min(t.Indptr[v+1], end)
			from := lo
			if lo == first && t.Indptr[v] < first {
				from-- // the last of the step before
			}
			row := t.Indices[from:max(hi, from)]
			for i := 1; i < len(row); i++ {
				if row[i] < row[i-1] {
					return d.descending(int64(v), row[i], row[i-1], from+int64(i))
				}
			}
			if err := d.checkSources(int64(v), row); err != nil {
				return err
			}
			lo = max(hi, lo)
		}
		return nil
	}
}

// badOffset is the error of an entry of indptr.
func (d *Dataset) badOffset(p, at int64) error {
	return fault.New(fault.ErrCorrupt, "%s: the offset %d at node %d is out of range, or less than the offset before it", d.path(IndptrFile), p, at)
}

func (d *Dataset) outOfRange(edge int64, u uint32) error {
	return fault.New(fault.ErrCorrupt, "%s: edge %d comes from node %d, but the graph has %d nodes", d.path(IndicesFile), edge, u, d.facts.Nodes)
}

// descending is the error of an edge with a source that is less than the source of the node's edge
// before.
func (d *Dataset) descending(v int64, u, before uint32, edge int64) error {
	return fault.New(fault.ErrCorrupt, "%s: the in-neighbours of node %d do not ascend: %d follows %d at edge %d", d.path(IndicesFile), v, u, before, edge)
}
