package kernels_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/binio"
)

// testMemory is enough for one case of a test.
const testMemory = 64 << 20

// gpu is a device with a stream and memory, for one test. What is put there fails the
// test instead of returning an error.
type gpu struct {
	testing.TB
	*cuda.Device
	*cuda.Stream
	arena *cuda.Arena
}

// newGPU takes the first device, or skips the test where there is none.
func newGPU(t testing.TB, bytes int64) *gpu {
	t.Helper()
	d := cudatest.Real(t, cuda.Options{DeviceBytes: bytes})
	g := &gpu{TB: t, Device: d}
	detach, err := d.Attach()
	check(t, err)
	g.Stream, err = d.NewStream()
	check(t, err)
	g.arena, err = d.NewArena(bytes)
	check(t, err)
	t.Cleanup(func() {
		g.arena.Free()
		g.Stream.Free()
		detach()
	})
	return g
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// reset makes all memory free again: a test of many cases needs that of one.
func (g *gpu) reset() {
	g.arena.Free()
	var err error
	g.arena, err = g.Device.NewArena(testMemory)
	check(g, err)
}

// empty returns memory whose every float32 is NaN.
func (g *gpu) empty(bytes int) cuda.Buffer {
	g.Helper()
	b, err := g.arena.Take(int64(bytes))
	check(g, err)
	check(g, g.Fill(b, 0xFF))
	return b
}

// put copies values to the device; nothing of none.
func put[T binio.Number](g *gpu, values []T) cuda.Buffer {
	g.Helper()
	if values == nil {
		return cuda.Buffer{}
	}
	b := g.empty(len(binio.Bytes(values)))
	check(g, g.CopyIn(b, binio.Bytes(values)))
	return b
}

// get copies values back.
func get[T binio.Number](g *gpu, b cuda.Buffer) []T {
	g.Helper()
	bytes := make([]byte, b.Bytes())
	check(g, g.CopyOut(bytes, b))
	check(g, g.Synchronize())
	if len(bytes) == 0 {
		return nil
	}
	return binio.View[T](bytes)
}

// same compares float32s: equal, or both NaN.
func same(t testing.TB, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i, v := range got {
		if v != want[i] && (v == v || want[i] == want[i]) {
			t.Fatalf("%s: value %d of %d is %v (%#x), want %v (%#x)", what, i, len(got), v, math.Float32bits(v), want[i], math.Float32bits(want[i]))
		}
	}
}

// near compares float32s up to a tolerance, relative to the larger of one and the value.
func near(t testing.TB, what string, got, want []float32, tolerance float64) {
	t.Helper()
	for i, v := range got {
		if d := math.Abs(float64(v) - float64(want[i])); !(d <= tolerance*max(1, math.Abs(float64(want[i])))) {
			t.Fatalf("%s: value %d of %d is %v, want %v", what, i, len(got), v, want[i])
		}
	}
}

func nans(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(math.NaN())
	}
	return v
}

// random is a source of test values.
type random struct{ *rand.Rand }

func newRandom(seed uint64) random { return random{rand.New(rand.NewPCG(seed, 1))} }

// floats returns values around zero, of several magnitudes.
func (r random) floats(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64() * math.Exp(r.NormFloat64()))
	}
	return v
}

func (r random) indices(n, below int) []uint32 {
	v := make([]uint32, n)
	for i := range v {
		v[i] = r.Uint32N(uint32(below))
	}
	return v
}

// csr is a list of edges by row, and the same transposed.
type csr struct {
	rows, columns             int
	indptr, indices           []uint32
	tindptr, tindices, tedges []uint32
}

// block returns random edges: rows have none to three times the mean.
func (r random) block(rows, columns, mean int) *csr {
	c := &csr{rows: rows, columns: columns, indptr: make([]uint32, rows+1), tindptr: make([]uint32, columns+1)}
	for i := range rows {
		n := r.IntN(2*mean + 1)
		if r.IntN(10) == 0 {
			n = 3 * mean
		}
		c.indices = append(c.indices, r.indices(n, columns)...)
		c.indptr[i+1] = uint32(len(c.indices))
	}
	for _, s := range c.indices {
		c.tindptr[s+1]++
	}
	for s := range columns {
		c.tindptr[s+1] += c.tindptr[s]
	}
	c.tindices, c.tedges = make([]uint32, len(c.indices)), make([]uint32, len(c.indices))
	next := append([]uint32(nil), c.tindptr...)
	for i := range rows {
		for e := c.indptr[i]; e < c.indptr[i+1]; e++ {
			at := &next[c.indices[e]]
			c.tindices[*at], c.tedges[*at] = uint32(i), e
			*at++
		}
	}
	return c
}

// A test runs its case for shapes that take every path: widths below, at and above a
// warp's, of both kinds; no rows, few, and more than a block has.
var (
	widths = []int{1, 3, 4, 16, 47, 100, 128, 172, 256, 600}
	counts = []int{0, 1, 7, 33, 1000}
)

func shapes(g *gpu, run func(r random, width, rows int)) {
	for i, width := range widths {
		for j, rows := range counts {
			g.reset()
			run(newRandom(uint64(100*i+j)), width, rows)
		}
	}
}

// most returns a count of rows that lies in device memory, and how many rows a launch
// is for: more than there are.
func most(g *gpu, rows int) kernels.Count {
	return kernels.Count{Most: rows + rows/2 + 3, At: put(g, []uint32{uint32(rows)})}
}
