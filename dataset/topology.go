package dataset

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/internal/mapped"
	"diskgnn/internal/progress"
)

// Topology is the graph, mapped and verified. It takes no anonymous memory.
type Topology struct {
	graph.CSC
	indptr, indices *mapped.File
}

// Topology maps indptr and indices and verifies every byte and every invariant
// of both in one sequential pass, on the given number of goroutines (0: one per
// core). After it, every offset and node id that the graph yields is in range.
func (d *Dataset) Topology(ctx context.Context, rep progress.Reporter, workers int) (*Topology, error) {
	t := new(Topology)
	var err error
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

// Guard runs fn, which touches the graph, and returns an error of kind
// fault.ErrCorrupt when a mapping can no longer be read. It covers the calling
// goroutine alone: each that touches the graph needs its own.
func (t *Topology) Guard(fn func() error) error { return mapped.Guard(fn, t.indptr, t.indices) }

// Close unmaps the graph. Its slices must not be used afterwards.
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
	steps int64
	check func(off int64, b []byte) error
}

func (d *Dataset) verifyTopology(ctx context.Context, rep progress.Reporter, workers int, t *Topology) error {
	parts := []*part{
		{name: IndptrFile, file: t.indptr, check: d.checkIndptr(t)},
		{name: IndicesFile, file: t.indices, check: d.checkIndices},
	}
	var total, steps int64
	for _, p := range parts {
		size := d.facts.size(p.name)
		if int64(len(p.file.Data())) != size {
			return fault.New(fault.ErrCorrupt, "%s has %d bytes instead of %d", d.path(p.name), len(p.file.Data()), size)
		}
		var err error
		if p.sums, err = d.sums(p.name); err != nil {
			return err
		}
		p.file.Advise(mapped.Sequential)
		p.steps = (size + verifyStep - 1) / verifyStep
		total, steps = total+size, steps+p.steps
	}
	t.Indptr = binio.View[int64](t.indptr.Data())
	t.Indices = binio.View[uint32](t.indices.Data())

	task := rep.Task("verify topology", total, progress.Bytes)
	defer task.Done()
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range min(int64(workers), steps) {
		g.Go(func() error {
			return t.Guard(func() error {
				for {
					i := next.Add(1) - 1
					if i >= steps {
						return nil
					}
					if err := ctx.Err(); err != nil {
						return err
					}
					p := parts[0]
					if i >= p.steps {
						i, p = i-p.steps, parts[1]
					}
					off := i * verifyStep
					b := p.file.Data()[off:min(off+verifyStep, int64(len(p.file.Data())))]
					if err := p.sums.Verify(d.path(p.name), off, b); err != nil {
						return err
					}
					if err := p.check(off, b); err != nil {
						return err
					}
					task.Add(int64(len(b)))
				}
			})
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("verify %s: %w", d.dir, err)
	}
	return nil
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
		bad := func(i int) error {
			return fault.New(fault.ErrCorrupt, "%s: offset %d of node %d is out of range or descends", d.path(IndptrFile), ptr[i], first+int64(i))
		}
		if first == 0 && ptr[0] != 0 {
			return bad(0)
		}
		for i, p := range ptr {
			if p < last {
				return bad(i)
			}
			last = p
		}
		if end := len(ptr) - 1; last > d.facts.Edges || first+int64(end) == d.facts.Nodes && last != d.facts.Edges {
			return bad(end)
		}
		return nil
	}
}

// checkIndices checks that the node ids of a step are in range.
func (d *Dataset) checkIndices(off int64, b []byte) error {
	ids := binio.View[uint32](b)
	var most uint32
	for _, v := range ids {
		most = max(most, v)
	}
	if int64(most) < d.facts.Nodes {
		return nil
	}
	for i, v := range ids {
		if int64(v) >= d.facts.Nodes {
			return fault.New(fault.ErrCorrupt, "%s: edge %d comes from node %d of %d", d.path(IndicesFile), off/4+int64(i), v, d.facts.Nodes)
		}
	}
	return nil
}
