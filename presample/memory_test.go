package presample

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/graph/graphtest"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
)

func TestDivide(t *testing.T) {
	const mib = 1 << 20
	most := sampler.Bound(1<<21, 40_000_000, 1024, []int{10, 15, 20})
	likely := sampler.Extent{Nodes: 400_000, Dst: 60_000, Edges: 1_400_000}
	for _, c := range []struct {
		nodes, free int64
		sampler.Extent
		want allotment
	}{
		{1 << 21, 2048 * mib, most, allotment{workers: 8, share: 256 * mib}},
		{1 << 21, 400 * mib, most, allotment{workers: 2, share: 200 * mib}},
		{1 << 21, 320 * mib, likely, allotment{workers: 8, share: 40 * mib}},
		{1 << 31, 4096 * mib, most, allotment{workers: 8, hash: true, share: 512 * mib}}, // arrays of 8 GiB each
		{1 << 31, 1 << 40, most, allotment{workers: 8, hash: sampler.HashFaster(1 << 31), share: 1 << 37}},
		{1 << 32, 1 << 40, most, allotment{workers: 8, hash: true, share: 1 << 37}}, // beyond what arrays number
		{1 << 21, 64 * mib, most, allotment{workers: 1, share: 64 * mib}},           // may turn out not to fit
	} {
		if got := divide(8, c.free, c.nodes, c.Extent); got != c.want {
			t.Errorf("%d nodes, %d MiB: %+v, want %+v", c.nodes, c.free/mib, got, c.want)
		}
	}
	// An array of 64 MiB is the slower table, and smaller than the hash table of the largest batch.
	const nodes = 1 << 24
	small, large := allotment{workers: 8}.need(most, sampler.ArrayMemory(nodes)), allotment{workers: 8}.need(most, sampler.HashMemory(most.Nodes))
	for share, want := range map[int64]allotment{small: {workers: 8, share: small}, large: {workers: 8, hash: sampler.HashFaster(nodes), share: large}} {
		if got := divide(8, 8*share, nodes, most); got != want {
			t.Errorf("%d bytes a worker: %+v, want %+v", share, got, want)
		}
	}
	for workers, want := range map[int]int{1: 2, 3: 2, 4: 3, 16: 6} {
		if got := spareSlots(workers); got != want {
			t.Errorf("%d workers: %d spare slots, want %d", workers, got, want)
		}
	}
	if got, want := (allotment{workers: 7, hash: true, share: 10}).halved(), (allotment{workers: 3, hash: true, share: 23}); got != want {
		t.Errorf("halved: %+v, want %+v", got, want)
	}
}

// Workers have tables of four bytes for each of a million nodes, or of the ten nodes of a batch, and between
// them, two more slots than they are.
func TestAllotmentMemory(t *testing.T) {
	x := sampler.Extent{Nodes: 10, Dst: 4, Edges: 20, Widest: 5}
	slots := 8*10 + 8*4 + 4*20 // bytes of a batch, and a quarter more
	slot := int64(slots+slots/4) + 1<<10
	for _, c := range []struct {
		hash  bool
		table int64
	}{{false, 4_000_000}, {true, sampler.HashMemory(10)}} {
		p := allotment{workers: 2, hash: c.hash, share: x.Memory() + c.table + 2*slot}
		if got, want := p.all(1_000_000, x), 2*p.share; got != want || !p.fits(1_000_000, x) {
			t.Errorf("hash %t: %d bytes, want %d", c.hash, got, want)
		}
		if p.share--; p.fits(1_000_000, x) {
			t.Errorf("hash %t: fits in a byte less for each worker", c.hash)
		}
	}
	if got, want := alone(1_000_000, x), x.Memory()+sampler.HashMemory(10)+3*slot; got != want {
		t.Errorf("alone %d bytes, want %d", got, want)
	}
}

func TestTwice(t *testing.T) {
	if got, want := twice(sampler.Extent{Nodes: 10, Dst: 20, Edges: 30}, sampler.Extent{Nodes: 15, Dst: 100, Edges: 45, Widest: 7}), (sampler.Extent{Nodes: 15, Dst: 40, Edges: 45, Widest: 7}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// An encoded batch takes no more than is planned for one of its size.
func TestSlotHoldsWhatIsPlanned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		var e mbfile.Encoded
		planned := int64(0)
		for range 3 {
			b := graphtest.Shape{Seeds: rng.IntN(2000) + 1, Classes: 3, Layers: rng.IntN(3) + 1, MaxDegree: rng.IntN(30), Fresh: rng.IntN(1000)}.Batch(rng)
			e.Encode(b)
			planned = max(planned, slotBytes(sampler.ExtentOf(b)))
			if held := int64(cap(e.Bytes) + 4*cap(e.Nodes) + 4*cap(e.Edges)); held > planned || held < (planned-1<<10)/8 {
				t.Fatalf("%d bytes are held, %d planned for %+v", held, planned, sampler.ExtentOf(b))
			}
		}
	})
}
