package residency

import (
	"fmt"

	"diskgnn/internal/binio"
)

// online is a policy that decides access by access. Policies of this kind differ in their order.
type online struct {
	table
	name  string
	mark  []uint8 // by frame: inUse, and seven bits of the order
	order order
}

// inUse marks, while Batch runs, the frames with rows of the batch.
const inUse = 1 << 7

// order chooses the row to evict next. Its methods are called for every use of a row, and take amortised
// constant time, also if most frames are in use. It may use the lower seven bits of every frame's mark.
type order interface {
	// begin begins a batch; no frame is in use.
	begin()
	// hit records that the batch uses a frame's row. The frame is not marked as in use yet.
	hit(f int32)
	// evict removes a frame that is not in use from the order, and its row from the cache. At least one such
	// frame must exist.
	evict() int32
	// insert adds the frame that takes v's row to the order. The old row of the frame is evicted, the
	// frame is not marked, and the table does not have v yet.
	insert(f int32, v uint32)

	// save appends the order and its bits of the marks.
	save(b []byte) []byte
	// load reads a result of save. The table has the rows, and the marks are clear.
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
	room := min(len(nodes), cap(o.nodeOf)) - hits // frames that misses can take
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

// leave removes the row of a frame from the cache.
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

// saveMarks appends the bits keep of the marks of the frames with rows.
func (o *online) saveMarks(b []byte, keep uint8) []byte {
	for _, m := range o.mark[:len(o.nodeOf)] {
		b = append(b, m&keep)
	}
	return b
}
