package sampler

import (
	"math"
	"math/bits"

	"diskgnn/device"
	"diskgnn/internal/kernel"
	"diskgnn/internal/prefetch"
)

// A table numbers the nodes of one batch in the order of their discovery. Stale entries are recognised
// by their values, so that starting a batch costs nothing: an entry is base plus the node's number,
// and base grows by the numbers that were given out. An entry below base is from an earlier batch.
type table interface {
	// begin forgets all nodes.
	begin()
	// number writes the number of ids[i] to out[i], giving nodes not seen in
	// this batch the next numbers from n on and appending them at nodes[n:],
	// which has room for one more than the ids. It returns the new n, or false where an
	// id is found that no node of the graph has.
	number(out, ids, nodes []uint32, n uint32) (_ uint32, ok bool)
	// memory returns the bytes that the table needs for a batch of n nodes.
	memory(n int64) int64
	// free frees memory outside Go's heap. No other use is allowed afterwards.
	free()
}

// entries are a table's zeroed memory: on Go's heap, or outside it.
type entries struct {
	outside bool
	host    *device.Host // nil: Go's heap
}

// take returns n entries, and frees those before. Tables outside the heap have huge pages: they are read and written at
// random, so that nearly each access would miss the TLB.
func (e *entries) take(n int) []uint32 {
	e.free()
	if e.outside && 4*n >= device.HugePage {
		if h, err := device.NewHost(4 * n); err == nil { // else the heap can try
			h.Huge()
			e.host = h
			return h.Uint32s()
		}
	}
	return make([]uint32, n)
}

func (e *entries) free() {
	if e.host != nil {
		e.host.Free()
		e.host = nil
	}
}

// arrayTable has an entry for every node of the graph.
type arrayTable struct {
	entries
	entry []uint32
	base  uint32
	used  uint32 // numbers given out in this batch
}

// MaxArrayNodes is the largest number of nodes of a graph that an array can number: base plus any
// number stays below 2³², with room to spare.
const MaxArrayNodes = 1 << 31

// ArrayMemory returns the bytes of memory of the array that numbers the nodes of a graph.
func ArrayMemory(nodes int64) int64 { return 4 * nodes }

// nearBytes is the size of an array, in bytes, up to which it is about as fast as a hash table: one that the caches near a
// processor hold, or nearly.
const nearBytes = 8 << 20

// HashFaster reports whether a hash table numbers the nodes of a graph faster than an array, which is larger. Without
// vector instructions it does not.
func HashFaster(nodes int64) bool { return ArrayMemory(nodes) > nearBytes && kernel.Kind() != "plain" }

func newArrayTable(nodes int64, outside bool) *arrayTable {
	t := &arrayTable{entries: entries{outside: outside}, base: 1}
	t.entry = t.take(int(nodes))
	return t
}

func (t *arrayTable) begin() {
	if t.base += t.used; t.base > math.MaxUint32-uint32(len(t.entry)) {
		clear(t.entry)
		t.base = 1
	}
	t.used = 0
}

// requestAhead is the number of ids with entries that are requested from memory together, while the ones before are
// numbered.
const requestAhead = 32

// number requests entries ahead if the array is larger than the caches near a processor.
func (t *arrayTable) number(out, ids, nodes []uint32, n uint32) (_ uint32, ok bool) {
	if 4*len(t.entry) <= nearBytes {
		return t.numberNear(out, ids, nodes, n)
	}
	for lo := 0; lo < len(ids); lo += requestAhead {
		prefetch.Ahead(t.entry, ids, lo, requestAhead)
		hi := min(lo+requestAhead, len(ids))
		if n, ok = t.numberNear(out[lo:hi], ids[lo:hi], nodes, n); !ok {
			return n, false
		}
	}
	return n, true
}

// numberNear has no branch that depends on the data: whether a node is new is as
// good as random, and a misprediction would wait for the entry to arrive from
// memory. An entry of another batch lies below base, so that the subtraction
// wraps to more than any number.
func (t *arrayTable) numberNear(out, ids, nodes []uint32, n uint32) (uint32, bool) {
	entry, base := t.entry, t.base
	out = out[:len(ids)]
	for i, id := range ids {
		if int(id) >= len(entry) {
			t.used = n
			return n, false
		}
		num := min(entry[id]-base, n)
		entry[id] = base + num
		out[i] = num
		nodes[n] = id
		var fresh uint32
		if num == n {
			fresh = 1
		}
		n += fresh
	}
	t.used = n
	return n, true
}

func (t *arrayTable) memory(int64) int64 { return ArrayMemory(int64(len(t.entry))) }

// hashTable has places for the nodes of one batch only, at most half of them taken: a hash table of kernel.Number.
type hashTable struct {
	entries
	entry []uint32
	base  uint32
	used  uint32
}

// hashTableBytes returns the size of the table for a batch of n nodes.
func hashTableBytes(n int64) int64 { return 8 << hashBits(n) }

func hashBits(n int64) int { return max(bits.Len64(uint64(2*n)), 10) }

func newHashTable(n int64, outside bool) *hashTable {
	t := &hashTable{entries: entries{outside: outside}}
	t.grow(n)
	return t
}

// grow makes an empty table for n nodes.
func (t *hashTable) grow(n int64) { t.entry, t.base = t.take(2<<hashBits(n)), 1 }

// places returns the number of places.
func (t *hashTable) places() int { return len(t.entry) / 2 }

func (t *hashTable) begin() {
	// Half a table's places bound the numbers of the next batch, unless it grows.
	if next := uint64(t.base) + uint64(t.used); next+uint64(t.places()) < 1<<32 {
		t.base = uint32(next)
	} else {
		clear(t.entry)
		t.base = 1
	}
	t.used = 0
}

// HashMemory returns the bytes of memory of the hash table that numbers n nodes of a batch, with the
// old entries while the table grows.
func HashMemory(n int64) int64 { b := hashTableBytes(n); return b + b/2 }

func (t *hashTable) memory(n int64) int64 { return HashMemory(n) }

// number accepts any ids, not only nodes of the graph.
func (t *hashTable) number(out, ids, nodes []uint32, n uint32) (uint32, bool) {
	t.reserve(nodes, n, uint32(len(ids)))
	t.used = kernel.Number(out, ids, nodes, n, t.base, t.entry)
	return t.used, true
}

// reserve grows the table to hold more nodes beside the n it has.
func (t *hashTable) reserve(nodes []uint32, n, more uint32) {
	want := int64(n) + int64(more)
	if 2*want <= int64(t.places()) {
		return
	}
	t.grow(want)
	var numbers [512]uint32
	for at := uint32(0); at < n; {
		piece := nodes[at:min(n, at+uint32(len(numbers)))]
		at = kernel.Number(numbers[:], piece, nodes, at, t.base, t.entry)
	}
}
