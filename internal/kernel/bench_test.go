package kernel

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"diskgnn/internal/dtype"
)

// go test -bench . ./internal/kernel

func benchKinds(b *testing.B, bytes int, f func()) {
	benchEach(b, func(b *testing.B) {
		b.SetBytes(int64(bytes))
		for b.Loop() {
			f()
		}
	})
}

// benchEach runs f with every kind of kernels that the processor has.
func benchEach(b *testing.B, f func(b *testing.B)) {
	before := Kind()
	defer Use(before)
	for _, kind := range Kinds() {
		b.Run(kind, func(b *testing.B) {
			if err := Use(kind); err != nil {
				b.Fatal(err)
			}
			f(b)
		})
	}
}

// BenchmarkGatherSum sums rows of a table that fits the cache, or does not.
func BenchmarkGatherSum(b *testing.B) {
	for _, c := range []struct {
		name            string
		rows, d, degree int
	}{
		{"cached", 200, 256, 10}, {"memory", 450_000, 128, 6}, {"memory", 100_000, 256, 10}, {"memory", 450_000, 100, 6}, {"memory", 40_000, 1400, 5},
	} {
		const n = 20_000
		x, dst := make([]float32, c.rows*c.d), make([]float32, 512*c.d)
		rng := rand.New(rand.NewPCG(1, 2))
		idx := make([]uint32, n*c.degree)
		for i := range idx {
			idx[i] = uint32(rng.IntN(c.rows))
		}
		for i := range x {
			x[i] = 1 // an untouched table is one page of zeros
		}
		b.Run(fmt.Sprintf("%s/d=%d", c.name, c.d), func(b *testing.B) {
			benchKinds(b, 4*len(idx)*c.d, func() {
				for i := range n {
					at := i % 512 * c.d
					GatherSum(dst[at:at+c.d], x, idx[i*c.degree:(i+1)*c.degree], nil, 0.1, false)
				}
			})
		})
	}
}

func BenchmarkBiasReLU(b *testing.B) {
	for _, p := range []float64{0, 0.5} {
		z, bias, drop := make([]float32, 512*256), make([]float32, 256), NewDropout(p)
		b.Run(fmt.Sprintf("dropout=%v", p), func(b *testing.B) {
			benchKinds(b, 4*len(z), func() {
				for i := range 512 {
					BiasReLU(z[i*256:(i+1)*256], bias, drop, uint64(i))
				}
			})
		})
	}
}

func BenchmarkReLUBackward(b *testing.B) {
	g, y, sums := make([]float32, 512*256), make([]float32, 512*256), make([]float32, 256)
	benchKinds(b, 8*len(g), func() {
		for i := range 512 {
			ReLUBackward(g[i*256:(i+1)*256], y[i*256:(i+1)*256], sums, 2)
		}
	})
}

func BenchmarkAdam(b *testing.B) {
	n := 1 << 18
	w, g, m, v := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
	s := AdamStep{0.9, 0.999, 0.1, 0.001, 0.01, 1.5, 1e-8}
	benchKinds(b, 16*n, func() { Adam(w, g, m, v, &s) })
}

// BenchmarkConvert counts the bytes of the float32s.
func BenchmarkConvert(b *testing.B) {
	for _, dim := range []int{100, 128} {
		values := make([]float32, 128*dim)
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range values {
			values[i] = float32(rng.NormFloat64())
		}
		for _, to := range []dtype.Type{dtype.Float16, dtype.BFloat16, dtype.Int8, dtype.Int4} {
			rows := make([]byte, 128*to.RowBytes(dim))
			b.Run(fmt.Sprintf("narrow/%s/dim=%d", to, dim), func(b *testing.B) {
				benchKinds(b, 4*len(values), func() { Narrow(rows, to, values, dim) })
			})
			b.Run(fmt.Sprintf("widen/%s/dim=%d", to, dim), func(b *testing.B) {
				benchKinds(b, 4*len(values), func() { Widen(values, rows, to, dim) })
			})
		}
	}
}

// BenchmarkPast widens 32 M numbers, which no cache holds, in pieces, as usual and past the caches. It counts the bytes of the
// float32s.
func BenchmarkPast(b *testing.B) {
	const n, dim, piece = 32 << 20, 128, 1 << 16
	dst := make([]float32, n+16)
	dst = dst[-uintptr(unsafe.Pointer(&dst[0]))%64/4:][:n]
	for _, from := range []dtype.Type{dtype.Float32, dtype.BFloat16, dtype.Int8, dtype.Int4} {
		size := piece / dim * from.RowBytes(dim)
		src := bytes.Repeat([]byte{1}, n/piece*size)
		for name, widen := range map[string]func([]float32, []byte, dtype.Type, int){"usual": Widen, "past": WidenPast} {
			b.Run(string(from)+"/"+name, func(b *testing.B) {
				b.SetBytes(4 * n)
				for b.Loop() {
					for i := range n / piece {
						widen(dst[i*piece:(i+1)*piece], src[i*size:(i+1)*size], from, dim)
					}
				}
			})
		}
	}
}

// BenchmarkHeads weighs rows for eight heads. It counts the bytes of the rows.
func BenchmarkHeads(b *testing.B) {
	const heads, degree, n = 8, 7, 20_000
	for _, c := range []struct {
		name    string
		rows, d int
	}{{"cached", 200, 128}, {"memory", 450_000, 128}, {"memory", 110_000, 256}} {
		x, v := make([]float32, c.rows*c.d), make([]float32, heads*c.d)
		rng := rand.New(rand.NewPCG(1, 2))
		idx := make([]uint32, n*degree)
		for i := range idx {
			idx[i] = uint32(rng.IntN(c.rows))
		}
		for i := range x {
			x[i] = 1
		}
		w := make([]float32, degree*heads)
		b.Run(fmt.Sprintf("dot/%s/d=%d", c.name, c.d), func(b *testing.B) {
			benchKinds(b, 4*len(idx)*c.d, func() {
				for i := range n {
					DotHeads(w, x, c.d, idx[i*degree:(i+1)*degree], v, heads)
				}
			})
		})
		b.Run(fmt.Sprintf("gather/%s/d=%d", c.name, c.d), func(b *testing.B) {
			benchKinds(b, 4*len(idx)*c.d, func() {
				for i := range n {
					GatherHeads(v, x, c.d, idx[i*degree:(i+1)*degree], w, heads, false)
				}
			})
		})
	}
}

func BenchmarkExp(b *testing.B) {
	x := make([]float32, 56)
	benchKinds(b, 4*len(x), func() { Exp(x) })
}

func BenchmarkBiasELU(b *testing.B) {
	z, bias, drop := make([]float32, 512*256), make([]float32, 256), NewDropout(0.5)
	benchKinds(b, 4*len(z), func() {
		for i := range 512 {
			BiasELU(z[i*256:(i+1)*256], bias, drop, uint64(i))
		}
	})
}
