package hyperion

import (
	"cmp"
	"math/bits"
	"slices"
)

// demand is the batches' need for rows or lists. The zero value needs nothing.
type demand struct {
	Accesses []uint32 // by node: how often it was needed
	// Bytes returns the memory that holding a node's takes, at least 1, and Read the bytes
	// that the drive reads each time where it is not held, below 2³².
	Bytes, Read func(v uint32) int64
}

// room is the memory for held rows and lists, in bytes.
type room struct {
	GPU, RAM   int64
	ListsOnGPU bool // lists may lie on the GPU
}

// share is the content of a level: the nodes of its rows or lists, by descending benefit a byte.
type share struct{ Rows, Lists []uint32 }

// division is the content of both levels. A node's row is at one of them at most, and so is its list.
type division struct{ GPU, RAM share }

// divisionMemory bounds the bytes that divide takes where so many nodes have rows that were needed,
// and so many lists. What it returns keeps them.
func divisionMemory(rows, lists int64) int64 { return 2 * 4 * (rows + lists) }

// divide divides the memory of a GPU and of the host between rows of features and
// lists of in-neighbours, as the unified caches of Hyperion and Legion do, by what each saves.
//
// Holding the row or the list of a node saves what the drive would read for it: how often
// batches needed it that were drawn before, times the bytes of one read. That is its benefit.
// It counts bytes, not requests: what is missing is read as whole pages. Most reads are of one
// page, and then both count alike; of longer ones the bytes take the drive's time.
//
// What has the greatest benefit for a byte of memory is held, first on the GPU, then in RAM;
// of equals rows come before lists, and lower node ids before higher ones. What does not fit
// is passed over. What has no benefit is not held.
//
// Rows may lie at both levels, lists on the GPU only where it draws. So both rooms together
// bound what is held, and the RAM bounds the lists. As one of these bounds lies within the
// other, the order of benefit a byte would be the best if rows and lists could be cut. They
// are whole: each level has a remainder that is smaller than what did not fit first, so a
// division saves more than the best one less twice the largest benefit.
func divide(rows, lists demand, room room) division {
	var d division
	r := ranking{demand: &rows, left: rows.needed(), near: &d.GPU.Rows, far: &d.RAM.Rows, onGPU: true}
	l := ranking{demand: &lists, left: lists.needed(), near: &d.GPU.Lists, far: &d.RAM.Lists, onGPU: room.ListsOnGPU}
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

// needed returns the nodes that have a benefit, by descending benefit a byte.
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

// compare says whether a of one kind comes before b of the other, by benefit a byte.
func compare(x *demand, a uint32, y *demand, b uint32) int {
	ah, al := bits.Mul64(x.benefit(a), uint64(y.Bytes(b)))
	bh, bl := bits.Mul64(y.benefit(b), uint64(x.Bytes(a)))
	return cmp.Or(cmp.Compare(bh, ah), cmp.Compare(bl, al))
}

// ranking is the nodes of one kind in the order in which they get room.
type ranking struct {
	*demand
	left      []uint32  // that have not had their turn
	near, far *[]uint32 // that lie on the GPU and in RAM
	onGPU     bool
}

// begin takes memory for the nodes on the GPU. Those in RAM take the place of the ranking.
func (r *ranking) begin(room room) {
	if r.onGPU && room.GPU > 0 {
		*r.near = make([]uint32, 0, len(r.left))
	}
	*r.far = r.left[:0]
}

// next gives the first node that is left a place at the first level that has room.
func (r *ranking) next(room *room) {
	v := r.left[0]
	r.left = r.left[1:]
	n := r.Bytes(v)
	switch {
	case r.onGPU && n <= room.GPU:
		room.GPU -= n
		*r.near = append(*r.near, v)
	case n <= room.RAM:
		room.RAM -= n
		*r.far = append(*r.far, v)
	}
}
