package sampler

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestTables gives both kinds several batches, in pieces, and compares with a
// map.
func TestTables(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const nodes = 5000
		kinds := map[string]table{"array": newArrayTable(nodes), "hash": newHashTable(0)}
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			pieces := rapid.SliceOfN(rapid.SliceOfN(rapid.Uint32Range(0, nodes-1), 0, 700), 1, 6).Draw(t, "pieces")
			for name, table := range kinds {
				table.begin()
				want := map[uint32]uint32{}
				got := make([]uint32, nodes+1)
				n := uint32(0)
				for _, ids := range pieces {
					out := make([]uint32, len(ids))
					n, _ = table.number(out, ids, got, n)
					for i, id := range ids {
						if _, ok := want[id]; !ok {
							want[id] = uint32(len(want))
						}
						if out[i] != want[id] || got[out[i]] != id {
							t.Fatalf("%s: node %d has number %d, want %d", name, id, out[i], want[id])
						}
					}
				}
				if int(n) != len(want) {
					t.Fatalf("%s: %d nodes, want %d", name, n, len(want))
				}
			}
		}
	})
}

// TestTableAfterARefusal: what a batch numbered before it was refused does not show in the next.
func TestTableAfterARefusal(t *testing.T) {
	table, out, nodes := newArrayTable(4), make([]uint32, 3), make([]uint32, 4)
	for range 3 {
		table.begin()
		if n, ok := table.number(out, []uint32{2, 1, 4}, nodes, 0); ok || n != 2 {
			t.Fatalf("node 4 of 4 is numbered: %d", n)
		}
		table.begin()
		if n, ok := table.number(out, []uint32{3, 2, 3}, nodes, 0); !ok || n != 2 || !slices.Equal(out, []uint32{0, 1, 0}) {
			t.Errorf("%d, numbers %v", n, out)
		}
	}
}

// TestTablesWrap writes entries, lets so many batches pass elsewhere that base
// has gone almost once around, and starts a batch whose numbers would go past
// the end: the old entries must not come alive again.
func TestTablesWrap(t *testing.T) {
	const nodes = 1 << 12
	ids := make([]uint32, nodes)
	for i := range ids {
		ids[i] = uint32(i)
	}
	array, hash := newArrayTable(nodes), newHashTable(nodes)
	for name, c := range map[string]struct {
		table
		base *uint32
	}{"array": {array, &array.base}, "hash": {hash, &hash.base}} {
		out, got := make([]uint32, nodes), make([]uint32, nodes+1)
		for range 2 {
			c.begin()
			if n, _ := c.number(out, ids, got, 0); n != nodes || !slices.Equal(got[:nodes], ids) {
				t.Errorf("%s: %d nodes numbered", name, n)
			}
			slices.Reverse(ids)
			*c.base = math.MaxUint32 - nodes
		}
	}
}

func TestHashTableMemory(t *testing.T) {
	h := newHashTable(0)
	ids := make([]uint32, 3000)
	for i := range ids {
		ids[i] = uint32(i)
	}
	h.begin()
	h.number(make([]uint32, len(ids)), ids, make([]uint32, len(ids)+1), 0)
	if have, said := int64(8*len(h.entry)), hashTableBytes(int64(len(ids))); have > said {
		t.Errorf("%d nodes take %d bytes, %d were reckoned with", len(ids), have, said)
	}
}
