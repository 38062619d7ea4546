package topology

import (
	"context"
	"math"
	"slices"
	"unsafe"

	"diskgnn/internal/binio"
	"diskgnn/presample/sampler"
)

// missesAtOnce is how many destinations of a hop are sorted and read together. A hop with more
// of them is read in several goes.
const missesAtOnce = 1 << 17

// reader reads hops for one sampler.
type reader struct {
	*fetcher
	missed []uint64 // destinations that are read, in the lower half, and their nodes

	hop  *sampler.Hop
	i    int // index in missed of the next destination
	pos  []int64
	draw []uint64 // edges of a destination and their places, which come next
}

// readerBytes returns the bytes of memory of a reader, without the draws of a destination.
func readerBytes() int64 {
	return 2*roundPages*binio.Page + 8*missesAtOnce + int64(unsafe.Sizeof(fetcher{}))
}

func (c *cached) NewReader() (Reader, error) {
	f, err := newFetcher(c)
	if err != nil {
		return nil, err
	}
	return &reader{fetcher: f, missed: make([]uint64, 0, missesAtOnce)}, nil
}

func (r *reader) Free() { r.free() }

func (r *reader) NumNodes() int { return r.of.offsets.NumNodes() }

func (r *reader) Reads() sampler.Reads { return r.reads }

func (r *reader) Locate(nodes []uint32, start []int64, degree []uint32) error {
	o := r.of.offsets
	for i, v := range nodes {
		if degree[i] = o.Degree(v); start != nil {
			start[i] = o.Start(int64(v))
		}
	}
	return nil
}

// Read serves the destinations with held neighbours, and reads the neighbours of the others.
func (r *reader) Read(ctx context.Context, h *sampler.Hop) error {
	r.hop, r.missed, r.draw = h, r.missed[:0], r.draw[:0]
	for i := range h.Len() {
		if h.Count(i) == 0 && !h.Whole(i) {
			continue
		}
		v := h.Node(i)
		if ids, ok := r.of.held.neighbours(v); ok {
			r.reads.Held++
			if err := r.serve(ctx, i, ids); err != nil {
				return err
			}
			continue
		}
		r.reads.Missed++
		r.missed = append(r.missed, uint64(v)<<32|uint64(i))
		if len(r.missed) == missesAtOnce {
			if err := r.readMissed(ctx); err != nil {
				return err
			}
		}
	}
	return r.readMissed(ctx)
}

// serve serves a destination from memory.
func (r *reader) serve(ctx context.Context, i int, ids []uint32) error {
	if r.hop.Whole(i) {
		return r.hop.Look(ctx, i, ids)
	}
	out := r.hop.Out(i)
	start, _ := r.hop.Edges(i)
	for j, p := range r.drawn(i) {
		out[j] = ids[p-start]
	}
	return nil
}

// drawn draws a destination's edges.
func (r *reader) drawn(i int) []int64 {
	r.pos = binio.Grow(r.pos, r.hop.Count(i))
	r.hop.Draw(i, r.pos)
	return r.pos
}

func (r *reader) readMissed(ctx context.Context) error {
	slices.Sort(r.missed) // by their nodes, and so by their edges
	r.i = 0
	err := r.fetch(ctx, r)
	r.missed = r.missed[:0]
	return err
}

// next returns all edges of a destination that is whole, and of others the drawn edges one by
// one.
func (r *reader) next() (piece, bool) {
	if len(r.draw) == 0 {
		if r.i == len(r.missed) {
			return piece{}, false
		}
		i := int(r.missed[r.i] & math.MaxUint32)
		start, degree := r.hop.Edges(i)
		if r.hop.Whole(i) {
			r.i++
			return piece{start, degree, i, all}, true
		}
		for j, p := range r.drawn(i) {
			r.draw = append(r.draw, uint64(p-start)<<32|uint64(j))
		}
		slices.Sort(r.draw)
		slices.Reverse(r.draw) // to take them from the end
	}
	i := int(r.missed[r.i] & math.MaxUint32)
	start, _ := r.hop.Edges(i)
	d := r.draw[len(r.draw)-1]
	if r.draw = r.draw[:len(r.draw)-1]; len(r.draw) == 0 {
		r.i++
	}
	return piece{start + int64(d>>32), 1, i, int(d & math.MaxUint32)}, true
}

func (r *reader) take(ctx context.Context, p piece, sources []uint32) error {
	if p.at == all {
		return r.hop.Look(ctx, p.to, sources)
	}
	r.hop.Out(p.to)[p.at] = sources[0]
	return nil
}
