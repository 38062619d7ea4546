package sampler

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/device"
	"diskgnn/internal/kernel"
	"diskgnn/internal/rng"
)

// eachKernel calls f for every kind of kernels that this processor has.
func eachKernel(t *testing.T, f func(t *testing.T)) {
	before := kernel.Kind()
	defer kernel.Use(before)
	for _, kind := range kernel.Kinds() {
		t.Run(kind, func(t *testing.T) {
			if err := kernel.Use(kind); err != nil {
				t.Fatal(err)
			}
			f(t)
		})
	}
}

// TestTables gives all kinds several batches, in pieces, and compares with a
// map. The far array is too large for a processor's caches, and keeps the entries of other batches.
func TestTables(t *testing.T) {
	eachKernel(t, func(t *testing.T) {
		far := newArrayTable(nearBytes/4+1, true)
		defer far.free()
		rapid.Check(t, func(t *rapid.T) {
			const nodes = 5000
			kinds := map[string]table{"array": newArrayTable(nodes, false), "far array": far, "hash": newHashTable(0, false)}
			for range rapid.IntRange(1, 4).Draw(t, "batches") {
				pieces := rapid.SliceOfN(rapid.SliceOfN(rapid.Uint32Range(0, nodes-1), 0, 700), 1, 6).Draw(t, "pieces")
				for name, table := range kinds {
					table.begin()
					want := map[uint32]uint32{}
					got := make([]uint32, nodes+701)
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
	})
}

// TestTablesAgree numbers more nodes than a table of the heap has, most of them new, in growing tables inside and
// outside the heap, and in an array.
func TestTablesAgree(t *testing.T) {
	const nodes, batch, piece = nearBytes/4 + 1, 150_000, 2000
	eachKernel(t, func(t *testing.T) {
		before := device.HostBytes()
		array, outside := newArrayTable(nodes, true), newHashTable(0, true)
		all := []table{array, newHashTable(0, false), outside}
		src := rng.New(3)
		for range 2 {
			var numbered [3][]uint32
			var list [3][]uint32
			ids := make([]uint32, batch)
			for i := range ids {
				ids[i] = src.Uint32n(src.Uint32n(nodes) + 1)
			}
			for k, table := range all {
				table.begin()
				list[k], numbered[k] = make([]uint32, batch+1), make([]uint32, batch)
				n := uint32(0)
				for at := 0; at < batch; at += piece {
					var ok bool
					if n, ok = table.number(numbered[k][at:at+piece], ids[at:at+piece], list[k], n); !ok {
						t.Fatal("a node is out of range")
					}
				}
				list[k] = list[k][:n]
			}
			for k := range all {
				if !slices.Equal(numbered[k], numbered[0]) || !slices.Equal(list[k], list[0]) {
					t.Errorf("table %d numbers other than the array", k)
				}
			}
		}
		if taken := device.HostBytes() - before; taken < int64(4*nodes+4*len(outside.entry)) || taken > int64(4*nodes+4*len(outside.entry)+device.PageSize) {
			t.Errorf("%d bytes outside the heap, %d and %d of the tables", taken, 4*nodes, 4*len(outside.entry))
		}
		for range 2 {
			for _, table := range all {
				table.free()
			}
		}
		if n := device.HostBytes() - before; n != 0 {
			t.Errorf("%d bytes are left outside the heap", n)
		}
	})
}

// TestFarArrayRefuses finds a node that is out of range in the second part of the ids.
func TestFarArrayRefuses(t *testing.T) {
	far := newArrayTable(nearBytes/4+1, true)
	defer far.free()
	ids := make([]uint32, requestAhead+3)
	for i := range ids {
		ids[i] = uint32(i)
	}
	ids[requestAhead+1] = nearBytes/4 + 1
	far.begin()
	if n, ok := far.number(make([]uint32, len(ids)), ids, make([]uint32, len(ids)+1), 0); ok || n != requestAhead+1 {
		t.Errorf("%d nodes are numbered, %t", n, ok)
	}
}

// A hash table is faster where the array is larger than the near caches, and vectors compare places.
func TestHashFaster(t *testing.T) {
	eachKernel(t, func(t *testing.T) {
		simd := kernel.Kind() != "plain"
		for nodes, want := range map[int64]bool{1: false, nearBytes / 4: false, nearBytes/4 + 1: simd, 1 << 33: simd} {
			if got := HashFaster(nodes); got != want {
				t.Errorf("%d nodes: %t", nodes, got)
			}
		}
	})
}

// TestTableAfterARefusal: what a batch numbered before it was refused does not show in the next.
func TestTableAfterARefusal(t *testing.T) {
	table, out, nodes := newArrayTable(4, false), make([]uint32, 3), make([]uint32, 4)
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
	array, hash := newArrayTable(nodes, false), newHashTable(nodes, false)
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
	h := newHashTable(0, false)
	ids := make([]uint32, 3000)
	for i := range ids {
		ids[i] = uint32(i)
	}
	h.begin()
	h.number(make([]uint32, len(ids)), ids, make([]uint32, len(ids)+1), 0)
	if have, said := int64(4*len(h.entry)), hashTableBytes(int64(len(ids))); have > said {
		t.Errorf("%d nodes take %d bytes, %d were reckoned with", len(ids), have, said)
	}
}
