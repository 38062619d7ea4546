package hyperion

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// by returns a value of every node.
func by(list ...int64) func(uint32) int64 { return func(v uint32) int64 { return list[v] } }

// all returns the same value for every node.
func all(n int64) func(uint32) int64 { return func(uint32) int64 { return n } }

// By hand: what saves most for a byte is held, on the GPU first, and lists in RAM.
func TestByHand(t *testing.T) {
	// A byte of rows saves 4096·accesses/512: 24, 8, 0, 40, 8; of lists 40960/400, 12288/3000,
	// 8192/40, 0 and 4096/512: about 102, 4, 205, 0 and 8, as the rows of nodes 1 and 4.
	rows := demand{Accesses: []uint32{3, 1, 0, 5, 1}, Bytes: all(512), Read: all(4096)}
	lists := demand{Accesses: []uint32{10, 3, 2, 0, 1}, Bytes: by(400, 3000, 40, 8, 512), Read: all(4096)}
	for name, c := range map[string]struct {
		room room
		want placement
	}{
		"nothing fits": {room{GPU: 511, RAM: 39}, placement{}},
		"all fits": {room{GPU: 1 << 20, RAM: 1 << 20}, placement{
			GPU: []uint32{3, 0, 1, 4}, RAM: share{Lists: []uint32{2, 0, 4, 1}}}},
		"no GPU": {room{RAM: 40 + 400 + 512 + 512 + 511}, placement{
			RAM: share{Rows: []uint32{3, 0}, Lists: []uint32{2, 0}}}},
		"rows before lists, lower ids first": {room{RAM: 40 + 400 + 3*512}, placement{
			RAM: share{Rows: []uint32{3, 0, 1}, Lists: []uint32{2, 0}}}},
		"rows go on where the GPU ends": {room{GPU: 1023, RAM: 440 + 512}, placement{
			GPU: []uint32{3}, RAM: share{Rows: []uint32{0}, Lists: []uint32{2, 0}}}},
		"what does not fit is passed over": {room{RAM: 439}, placement{
			RAM: share{Lists: []uint32{2}}}},
		"a list that does not fit lets rows by": {room{GPU: 1024, RAM: 439}, placement{
			GPU: []uint32{3, 0}, RAM: share{Lists: []uint32{2}}}},
	} {
		t.Run(name, func(t *testing.T) { same(t, divide(rows, lists, c.room), c.want) })
	}
}

func same(t testing.TB, got, want placement) {
	t.Helper()
	if !slices.Equal(got.GPU, want.GPU) ||
		!slices.Equal(got.RAM.Rows, want.RAM.Rows) || !slices.Equal(got.RAM.Lists, want.RAM.Lists) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Where rows are of one size and there are no lists, the hottest are held, ties by node id;
// a row over two pages saves twice as much.
func TestRowsAlone(t *testing.T) {
	rows := demand{Accesses: []uint32{2, 9, 4, 4, 0, 4}, Bytes: all(400), Read: by(4096, 4096, 4096, 8192, 8192, 4096)}
	same(t, divide(rows, demand{}, room{GPU: 800, RAM: 900}), placement{
		GPU: []uint32{1, 3}, RAM: share{Rows: []uint32{2, 5}}})
}

// Benefits that differ by less than floating point tells apart, and products beyond 64 bits.
func TestLargeNumbers(t *testing.T) {
	const most = 1<<32 - 1
	rows := demand{Accesses: []uint32{most - 1, most, most}, Bytes: by(most-1, most, most), Read: by(most, most, most-1)}
	same(t, divide(rows, demand{}, room{RAM: 1 << 40}), placement{RAM: share{Rows: []uint32{0, 1, 2}}})
}

// world is a small placement with a number for everything.
type world struct {
	rows, lists     demand
	room            room
	sizes, benefits []int64 // of rows, then of lists
	nodes           int
}

func drawWorld(t *rapid.T) *world {
	w := &world{nodes: rapid.IntRange(0, 4).Draw(t, "nodes")}
	numbers := func(what string, lo, hi int64) []int64 {
		return rapid.SliceOfN(rapid.Int64Range(lo, hi), w.nodes, w.nodes).Draw(t, what)
	}
	row := rapid.Int64Range(1, 6).Draw(t, "bytes of a row")
	demand := func(what string, bytes []int64) demand {
		d := demand{Bytes: by(bytes...), Read: by(numbers(what+" read", 1, 3)...)}
		for v, n := range numbers(what+" accesses", 0, 4) {
			d.Accesses = append(d.Accesses, uint32(n))
			w.sizes = append(w.sizes, bytes[v])
			w.benefits = append(w.benefits, n*d.Read(uint32(v)))
		}
		return d
	}
	w.rows = demand("rows", slices.Repeat([]int64{row}, w.nodes))
	w.lists = demand("lists", numbers("bytes of lists", 1, 9))
	w.room = room{GPU: rapid.Int64Range(0, 15).Draw(t, "GPU"), RAM: rapid.Int64Range(0, 15).Draw(t, "RAM")}
	return w
}

// best tries every placement of the items from i on, and returns the most that one saves.
func (w *world) best(i int, gpu, ram int64) int64 {
	if i == len(w.sizes) {
		return 0
	}
	most := w.best(i+1, gpu, ram)
	if n := w.sizes[i]; i < w.nodes && n <= gpu {
		most = max(most, w.benefits[i]+w.best(i+1, gpu-n, ram))
	}
	if n := w.sizes[i]; n <= ram {
		most = max(most, w.benefits[i]+w.best(i+1, gpu, ram-n))
	}
	return most
}

// A placement keeps to the rooms, holds nothing twice, and saves more than the best of all
// less twice the largest benefit; where all items are of one size it is the best.
func TestAgainstAllDivisions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		d := divide(w.rows, w.lists, w.room)
		held := make([]bool, len(w.sizes))
		saved := int64(0)
		hold := func(nodes []uint32, from int, room int64) int64 {
			for _, v := range nodes {
				i := from + int(v)
				if held[i] || w.benefits[i] == 0 {
					t.Fatalf("item %d is held twice, or for nothing: %+v", i, d)
				}
				held[i] = true
				saved += w.benefits[i]
				room -= w.sizes[i]
			}
			return room
		}
		gpu := hold(d.GPU, 0, w.room.GPU)
		ram := hold(d.RAM.Lists, w.nodes, hold(d.RAM.Rows, 0, w.room.RAM))
		if gpu < 0 || ram < 0 {
			t.Fatalf("%+v in %+v", d, w.room)
		}
		best, largest := w.best(0, w.room.GPU, w.room.RAM), int64(0)
		equal := true
		for i, b := range w.benefits {
			largest = max(largest, b)
			equal = equal && w.sizes[i] == w.sizes[0]
		}
		if saved > best || saved < best && saved <= best-2*largest || equal && saved != best {
			t.Fatalf("saves %d of %d, the largest benefit is %d", saved, best, largest)
		}
		for i, in := range held {
			if !in && w.benefits[i] > 0 && (w.sizes[i] <= ram || w.sizes[i] <= gpu && i < w.nodes) {
				t.Fatalf("item %d fits, and is not held", i)
			}
		}
	})
}

// What divide takes is what placementMemory says, of which half is kept where there is no GPU.
func TestMemory(t *testing.T) {
	rows := demand{Accesses: slices.Repeat([]uint32{1}, 1000), Bytes: all(8), Read: all(1)}
	lists := demand{Accesses: slices.Repeat([]uint32{0, 1}, 500), Bytes: all(8), Read: all(1)}
	d := divide(rows, lists, room{GPU: 4000, RAM: 4000})
	kept := cap(d.GPU) + cap(d.RAM.Rows) + cap(d.RAM.Lists)
	if n := placementMemory(1000, 500); n != 12000 || int64(4*kept) > n || 4*kept != 4*(1000+1000+500) {
		t.Errorf("%d bytes, %d nodes are kept", n, kept)
	}
}
