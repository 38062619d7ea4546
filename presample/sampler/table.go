package sampler

import (
	"math"
	"math/bits"
)

// A table numbers the nodes of one batch in the order of their discovery. Stale entries are recognised
// by their values, so that starting a batch costs nothing: an entry is base plus the node's number,
// and base grows by the numbers that were given out. An entry below base is from an earlier batch.
type table interface {
	// begin forgets all nodes.
	begin()
	// number writes the number of ids[i] to out[i], giving nodes not seen in
	// this batch the next numbers from n on and appending them at nodes[n:],
	// which has room for one more than the new ones. It returns the new n, or false where an
	// id is found that no node of the graph has.
	number(out, ids, nodes []uint32, n uint32) (_ uint32, ok bool)
	// memory returns the bytes that the table needs for a batch of n nodes.
	memory(n int64) int64
}

// arrayTable has an entry for every node of the graph.
type arrayTable struct {
	entry []uint32
	base  uint32
	used  uint32 // numbers given out in this batch
}

// MaxArrayNodes is the largest number of nodes of a graph that an array can number: base plus any
// number stays below 2³², with room to spare.
const MaxArrayNodes = 1 << 31

// ArrayMemory returns the bytes of memory of the array that numbers the nodes of a graph.
func ArrayMemory(nodes int64) int64 { return 4 * nodes }

func newArrayTable(nodes int64) *arrayTable {
	return &arrayTable{entry: make([]uint32, nodes), base: 1}
}

func (t *arrayTable) begin() {
	if t.base += t.used; t.base > math.MaxUint32-uint32(len(t.entry)) {
		clear(t.entry)
		t.base = 1
	}
	t.used = 0
}

// number has no branch that depends on the data: whether a node is new is as
// good as random, and a misprediction would wait for the entry to arrive from
// memory. An entry of another batch lies below base, so that the subtraction
// wraps to more than any number.
func (t *arrayTable) number(out, ids, nodes []uint32, n uint32) (uint32, bool) {
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

// hashTable has entries for the nodes of one batch only: open addressing with
// linear probing, at most half full.
type hashTable struct {
	entry []uint64 // node in the high half, base plus number in the low one
	shift uint
	base  uint32
	used  uint32
}

// hashTableBytes returns the size of the table for a batch of n nodes.
func hashTableBytes(n int64) int64 { return 8 << hashBits(n) }

func hashBits(n int64) int { return max(bits.Len64(uint64(2*n)), 10) }

func newHashTable(n int64) *hashTable {
	b := hashBits(n)
	return &hashTable{entry: make([]uint64, 1<<b), shift: uint(64 - b), base: 1}
}

func (t *hashTable) begin() {
	// Half a table's entries bound the numbers of the next batch, unless it grows.
	if next := uint64(t.base) + uint64(t.used); next+uint64(len(t.entry)) < 1<<32 {
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

// home returns where the search for a node begins (Fibonacci hashing).
func (t *hashTable) home(id uint32) uint64 { return uint64(id) * 0x9E3779B97F4A7C15 >> t.shift }

// number accepts any ids, not only nodes of the graph.
func (t *hashTable) number(out, ids, nodes []uint32, n uint32) (uint32, bool) {
	t.reserve(nodes, n, uint32(len(ids)))
	entry, base, mask := t.entry, t.base, uint64(len(t.entry)-1)
	out = out[:len(ids)]
	for i, id := range ids {
		h := t.home(id)
		for {
			e := entry[h&mask]
			num := uint32(e) - base
			if num >= n { // free
				entry[h&mask] = uint64(id)<<32 | uint64(base+n)
				nodes[n] = id
				out[i] = n
				n++
				break
			}
			if uint32(e>>32) == id {
				out[i] = num
				break
			}
			h++
		}
	}
	t.used = n
	return n, true
}

// reserve grows the table to hold more nodes beside the n it has.
func (t *hashTable) reserve(nodes []uint32, n, more uint32) {
	want := int64(n) + int64(more)
	if 2*want <= int64(len(t.entry)) {
		return
	}
	*t = *newHashTable(want)
	mask := uint64(len(t.entry) - 1)
	for num, id := range nodes[:n] {
		h := t.home(id)
		for ; t.entry[h&mask] != 0; h++ {
		}
		t.entry[h&mask] = uint64(id)<<32 | uint64(t.base) + uint64(num)
	}
}
