package hyperion

import (
	"cmp"
	"math/bits"
	"slices"
)

// demand is the batches' need for rows or lists. The zero value needs nothing.
type demand struct {
	Accesses []uint32 // by node: the number of accesses to its row or list
	// Bytes returns the memory of a held row or list, in bytes, at least 1. Read returns the bytes that
	// the drive reads for one access to a row or list that is not held, below 2³².
	Bytes, Read func(v uint32) int64
}

// room is the memory for held rows and lists, in bytes.
type room struct{ GPU, RAM int64 }

// share is the content of a level: the nodes of its rows or lists, by descending benefit a byte.
type share struct{ Rows, Lists []uint32 }

// placement is the content of both levels. A node's row is at one of them at most. Lists are in RAM.
type placement struct {
	GPU []uint32 // rows
	RAM share
}

// placementMemory bounds the memory of divide, in bytes, for demands of the given numbers of rows and lists.
// The result of divide keeps this memory.
func placementMemory(rows, lists int64) int64 { return 2 * 4 * (rows + lists) }

// divide divides the memory of a GPU and of the host between rows of features and lists of in-neighbours,
// as the unified caches of Hyperion and Legion do, by the reads that each row or list saves.
//
// The benefit of a held row or list is the number of its accesses by earlier batches, times the bytes of
// one read. It counts bytes, not requests. Reads are whole pages, and most are one page long; then bytes
// and requests give the same order. For longer reads the bytes decide the drive's time.
//
// divide holds rows and lists by descending benefit for a byte of memory, first on the GPU, then in RAM.
// Among equals, rows come before lists, and lower node ids before higher ones. It skips a row or list that
// does not fit, or has no benefit.
//
// Rows may lie at both levels, lists in RAM alone, since the host draws from them: where the GPU draws, all lists
// are in memory, and reads have none to save. So the sum of both rooms bounds rows and lists together, and the RAM
// bounds the lists. One bound contains the other, so the greedy order
// would be optimal if rows and lists could be cut. They cannot: at each level the unused remainder is
// smaller than the first row or list that did not fit. So a placement saves more than the optimum less
// twice the largest benefit.
func divide(rows, lists demand, room room) placement {
	var d placement
	r := ranking{demand: &rows, left: rows.needed(), near: &d.GPU, far: &d.RAM.Rows}
	l := ranking{demand: &lists, left: lists.needed(), far: &d.RAM.Lists}
	r.begin(room)
	l.begin(room)
	for len(r.left) > 0 || len(l.left) > 0 {
		if len(l.left) == 0 || len(r.left) > 0 && compare(&rows, r.left[0], &lists, l.left[0]) <= 0 {
			r.next(&room)
		} else {
			l.next(&room)
		}
	}
	return d
}

// benefit returns the bytes of reads saved by holding a node's row or list.
func (d *demand) benefit(v uint32) uint64 { return uint64(d.Accesses[v]) * uint64(d.Read(v)) }

// needed returns the nodes with a benefit above 0, by descending benefit a byte.
func (d *demand) needed() []uint32 {
	n := 0
	for v := range d.Accesses {
		if d.benefit(uint32(v)) > 0 {
			n++
		}
	}
	nodes := make([]uint32, 0, n)
	for v := range d.Accesses {
		if d.benefit(uint32(v)) > 0 {
			nodes = append(nodes, uint32(v))
		}
	}
	slices.SortFunc(nodes, func(a, b uint32) int {
		return cmp.Or(compare(d, a, d, b), cmp.Compare(a, b))
	})
	return nodes
}

// compare orders node a of demand x and node b of demand y by descending benefit a byte.
func compare(x *demand, a uint32, y *demand, b uint32) int {
	ah, al := bits.Mul64(x.benefit(a), uint64(y.Bytes(b)))
	bh, bl := bits.Mul64(y.benefit(b), uint64(x.Bytes(a)))
	return cmp.Or(cmp.Compare(bh, ah), cmp.Compare(bl, al))
}

// ranking has the nodes of one demand in the order of placement.
type ranking struct {
	*demand
	left      []uint32  // not divided yet
	near, far *[]uint32 // held on the GPU and in RAM; near is nil if they must be in RAM
}

// begin allocates the list of nodes on the GPU. The list of nodes in RAM reuses the memory of left.
func (r *ranking) begin(room room) {
	if r.near != nil && room.GPU > 0 {
		*r.near = make([]uint32, 0, len(r.left))
	}
	*r.far = r.left[:0]
}

// next puts the first node of left into the first level with room.
func (r *ranking) next(room *room) {
	v := r.left[0]
	r.left = r.left[1:]
	n := r.Bytes(v)
	switch {
	case r.near != nil && n <= room.GPU:
		room.GPU -= n
		*r.near = append(*r.near, v)
	case n <= room.RAM:
		room.RAM -= n
		*r.far = append(*r.far, v)
	}
}
