package residency

import (
	"fmt"

	"diskgnn/internal/binio"
)

// online is a policy that decides in the course of the accesses. Policies of this kind differ in their
// order.
type online struct {
	table
	name  string
	mark  []uint8 // by frame: inUse, and what the order keeps
	order order
}

// inUse marks, while Batch runs, the frames with rows that the batch uses.
const inUse = 1 << 7

// order is which row leaves next. It sees every use of a row. It may keep the lower seven
// bits of every frame's mark.
type order interface {
	// begin says that a batch begins; no frame is in use.
	begin()
	// hit says that the batch uses a frame's row. The frame is not marked yet.
	hit(f int32)
	// evict removes from the order a frame that is not in use, of which there is one.
	// The node's row is no longer in the cache.
	evict() int32
	// insert puts into the order the frame that v's row goes to. The row before it is gone,
	// the frame is not marked, and the table does not have v yet.
	insert(f int32, v uint32)

	// save appends the order and what it keeps in the marks.
	save(b []byte) []byte
	// load replaces the order by one that save wrote. The table has the rows, and the marks are clear.
	load(d *binio.Decoder)
	// bytes returns the memory of the order.
	bytes() int64
}

// Batch implements Policy.
func (o *online) Batch(nodes []uint32, held, into []int32) {
	held, into = held[:len(nodes)], into[:len(nodes)]
	o.order.begin()
	hits := 0
	for i, v := range nodes {
		f := max(o.frameOf[v], Absent)
		held[i], into[i] = f, Absent
		if f != Absent {
			o.order.hit(f)
			o.mark[f] |= inUse
			hits++
		}
	}
	room := min(len(nodes), cap(o.nodeOf)) - hits // what is not in use and can be taken
	for i, v := range nodes {
		if room == 0 {
			break
		}
		if held[i] == Absent {
			into[i] = o.take(v)
			o.mark[into[i]] |= inUse
			room--
		}
	}
	for i := range nodes {
		if f := max(held[i], into[i]); f != Absent {
			o.mark[f] &^= inUse
		}
	}
}

// take gives a node a frame that the batch does not use.
func (o *online) take(v uint32) int32 {
	if !o.full() {
		o.order.insert(int32(len(o.nodeOf)), v)
		return o.add(v)
	}
	f := o.order.evict()
	o.order.insert(f, v)
	o.replace(f, v)
	return f
}

// leave says that a frame's row is no longer in the cache.
func (o *online) leave(f int32) { o.frameOf[o.nodeOf[f]] = Absent }

// State implements Policy.
func (o *online) State() []byte { return o.order.save(o.save(o.name)) }

// LoadState implements Policy.
func (o *online) LoadState(b []byte) error {
	o.clear()
	clear(o.mark)
	d := binio.NewDecoder(b)
	if o.load(d, o.name); d.Err() == nil {
		o.order.load(d)
	}
	if err := end(d); err != nil {
		return fmt.Errorf("residency: state of %s: %w", o.name, err)
	}
	return nil
}

// Bytes implements Policy.
func (o *online) Bytes() int64 { return o.table.bytes() + int64(len(o.mark)) + o.order.bytes() }

// saveMarks appends what the order keeps in the marks of the frames with rows.
func (o *online) saveMarks(b []byte, keep uint8) []byte {
	for _, m := range o.mark[:len(o.nodeOf)] {
		b = append(b, m&keep)
	}
	return b
}
