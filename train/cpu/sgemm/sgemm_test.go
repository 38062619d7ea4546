package sgemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// eachKind runs the test with every kind of kernels that this processor has.
func eachKind(t *testing.T, test func(t *testing.T)) {
	if len(Kinds()) == 0 {
		t.Skip("this processor has no kernels")
	}
	was := inUse
	defer func() { inUse = was }()
	for _, kind := range Kinds() {
		t.Run(kind, func(t *testing.T) {
			if err := Use(kind); err != nil {
				t.Fatal(err)
			}
			test(t)
		})
	}
}

// fused returns a·b + c, rounded once.
func fused(a, b, c float32) float32 {
	product, wide := float64(a)*float64(b), float64(c) // exact, both
	sum := product + wide
	// What the sum lacks (Knuth's TwoSum). Where it lacks anything, its last bit is set
	// towards that: so the second rounding sees that it is not a tie.
	back := sum - product
	lacks := (product - (sum - back)) + (wide - back)
	if bits := math.Float64bits(sum); lacks != 0 && lacks == lacks && bits&1 == 0 {
		if lacks > 0 == (sum > 0) {
			bits++
		} else {
			bits--
		}
		sum = math.Float64frombits(bits)
	}
	return float32(sum)
}

// operands are those of a product, each with NaN between its rows.
type operands struct {
	tA, tB        bool
	m, n, k       int
	lda, ldb, ldc int
	alpha, beta   float32
	a, b, c       []float32
}

func (o *operands) String() string {
	return fmt.Sprintf("%v %v %d×%d×%d at %d %d %d, alpha %v beta %v", o.tA, o.tB, o.m, o.n, o.k, o.lda, o.ldb, o.ldc, o.alpha, o.beta)
}

func (o *operands) run(c []float32) {
	Multiply(o.tA, o.tB, o.m, o.n, o.k, o.alpha, o.a, o.lda, o.b, o.ldb, o.beta, c, o.ldc)
}

// elements of op(A) and op(B).
func (o *operands) atA(i, l int) float32 {
	if o.tA {
		return o.a[l*o.lda+i]
	}
	return o.a[i*o.lda+l]
}

func (o *operands) atB(l, j int) float32 {
	if o.tB {
		return o.b[j*o.ldb+l]
	}
	return o.b[l*o.ldb+j]
}

// specified returns an element of the result as the package comment specifies it.
func (o *operands) specified(i, j int) float32 {
	c, beta := o.c[i*o.ldc+j], o.beta
	parts := (o.k + maxTerms - 1) / maxTerms
	length := (o.k + parts - 1) / parts
	for from := 0; from < o.k; from += length {
		sum := float32(0)
		for l := from; l < min(from+length, o.k); l++ {
			sum = fused(o.atA(i, l), o.atB(l, j), sum)
		}
		if beta == 0 {
			c = o.alpha * sum
		} else {
			c = fused(o.alpha, sum, beta*c)
		}
		beta = 1
	}
	return c
}

// sizes around those of tiles and panels; one of the three at a time may be large.
func drawSizes(t *rapid.T) (size [3]int) {
	for i := range size {
		size[i] = rapid.OneOf(rapid.IntRange(1, 34), rapid.SampledFrom([]int{47, 48, 49, 63, 64, 65})).Draw(t, "size")
	}
	large := [3][]int{{112, 129, 300}, {480, 511, 512, 513, 545, 1030}, {255, 256, 257, 512, 513, 700}}
	if i := rapid.IntRange(0, 3).Draw(t, "which is large"); i < 3 {
		size[i] = rapid.SampledFrom(large[i]).Draw(t, "large")
	}
	return size
}

// draw draws a product. take returns memory for a matrix.
func draw(t *rapid.T, take func(n int) []float32) *operands {
	size := drawSizes(t)
	o := &operands{tA: rapid.Bool().Draw(t, "tA"), tB: rapid.Bool().Draw(t, "tB"), m: size[0], n: size[1], k: size[2]}
	factor := rapid.SampledFrom([]float32{1, 1, 0, -1, 0.3, -2.5})
	o.alpha, o.beta = factor.Draw(t, "alpha"), factor.Draw(t, "beta")
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	matrix := func(name string, rows, cols int) ([]float32, int) {
		ld := cols + rapid.IntRange(0, 3).Draw(t, name)
		if rapid.IntRange(0, 9).Draw(t, name+" far apart") == 0 {
			ld = (cols + conflict - 1) / conflict * conflict
		}
		x := take((rows-1)*ld + cols)
		for i := range x {
			if x[i] = nan; i%ld < cols {
				x[i] = float32(rng.NormFloat64())
			}
		}
		return x, ld
	}
	turned := func(transposed bool, rows, cols int) (int, int) {
		if transposed {
			return cols, rows
		}
		return rows, cols
	}
	rows, cols := turned(o.tA, o.m, o.k)
	o.a, o.lda = matrix("lda", rows, cols)
	rows, cols = turned(o.tB, o.k, o.n)
	o.b, o.ldb = matrix("ldb", rows, cols)
	o.c, o.ldc = matrix("ldc", o.m, o.n)
	return o
}

var nan = float32(math.NaN())

func onHeap(n int) []float32 { return make([]float32, n) }

// Every bit is what the package comment says, so it is the same for all kinds.
func TestBits(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			o := draw(t, onHeap)
			c := slices.Clone(o.c)
			o.run(c)
			for i, v := range c {
				row, column := i/o.ldc, i%o.ldc
				if column >= o.n {
					if v == v {
						t.Fatalf("%v: written between the rows, at %d, %d", o, row, column)
					}
					continue
				}
				if want := o.specified(row, column); math.Float32bits(v) != math.Float32bits(want) {
					t.Fatalf("%v: element %d, %d is %v, specified %v", o, row, column, v, want)
				}
			}
		})
	})
}

// An element differs from the sum in double precision by what as many roundings may do:
// k of the sum's terms, and a few of alpha, beta and the parts (Higham, Accuracy and
// Stability of Numerical Algorithms, 3.1).
func TestError(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			o := draw(t, onHeap)
			c := slices.Clone(o.c)
			o.run(c)
			roundings := float64(o.k + 3 + o.k/maxTerms)
			for i := range o.m {
				for j := range o.n {
					was := float64(o.beta) * float64(o.c[i*o.ldc+j])
					sum, size := 0.0, math.Abs(was)
					for l := range o.k {
						term := float64(o.alpha) * float64(o.atA(i, l)) * float64(o.atB(l, j))
						sum += term
						size += math.Abs(term)
					}
					if off := math.Abs(float64(c[i*o.ldc+j]) - sum - was); off > roundings*0x1p-24*size {
						t.Fatalf("%v: element %d, %d is off by %g of %g", o, i, j, off, size)
					}
				}
			}
		})
	})
}

// fenced returns memory between two pages that nothing may touch, at the end of what
// lies between them, or at its beginning.
func fenced(t *testing.T, first bool) func(n int) []float32 {
	page := unix.Getpagesize()
	const most = 8 << 20
	all, err := unix.Mmap(-1, 0, page+most+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(all) })
	for _, fence := range [][]byte{all[:page], all[page+most:]} {
		if err := unix.Mprotect(fence, unix.PROT_NONE); err != nil {
			t.Skip(err)
		}
	}
	middle := floats(all[page : page+most])
	return func(n int) []float32 {
		if first {
			return middle[:n:n]
		}
		return middle[len(middle)-n:]
	}
}

// Nothing outside of the operands is read or written: that would end the program.
func TestNothingOutside(t *testing.T) {
	for _, first := range []bool{false, true} {
		takers := []func(int) []float32{fenced(t, first), fenced(t, first), fenced(t, first)}
		eachKind(t, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				next := 0
				o := draw(t, func(n int) []float32 {
					next++
					return takers[next-1](n)
				})
				o.run(o.c)
			})
		})
	}
}

// Parts of a product, computed by themselves, have the bits of the whole.
func TestInParts(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			o := draw(t, onHeap)
			whole, parts := slices.Clone(o.c), slices.Clone(o.c)
			o.run(whole)
			m, n := rapid.IntRange(0, o.m).Draw(t, "row"), rapid.IntRange(0, o.n).Draw(t, "column")
			for _, p := range [][4]int{{0, m, 0, n}, {0, m, n, o.n}, {m, o.m, 0, n}, {m, o.m, n, o.n}} {
				if p[0] == p[1] || p[2] == p[3] {
					continue
				}
				part := *o
				part.m, part.n = p[1]-p[0], p[3]-p[2]
				atA, atB := p[0]*o.lda, p[2]
				if o.tA {
					atA = p[0]
				}
				if o.tB {
					atB = p[2] * o.ldb
				}
				part.a, part.b = o.a[atA:], o.b[atB:]
				part.run(parts[p[0]*o.ldc+p[2]:])
			}
			if !slices.EqualFunc(whole, parts, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) }) {
				t.Fatalf("%v: other bits in parts from %d, %d", o, m, n)
			}
		})
	})
}

// What is not finite gets to where it belongs.
func TestNotFinite(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		inf := float32(math.Inf(1))
		a, b := []float32{1, inf, 2, 3}, []float32{0, 1, 1, nan}
		c := []float32{nan, nan, 5, 6}
		Multiply(false, false, 2, 2, 2, 1, a, 2, b, 2, 0, c, 2)
		if c[0] != inf || c[1] == c[1] || c[2] != 3 || c[3] == c[3] {
			t.Errorf("products %v", c)
		}
	})
}

// Callers at the same time have memory of their own, which stays for the next ones.
func TestConcurrent(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		const m, n, k = 61, 259, 300
		rng := rand.New(rand.NewPCG(1, 2))
		o := &operands{tA: true, tB: true, m: m, n: n, k: k, lda: m, ldb: k, ldc: n, alpha: 1, a: make([]float32, m*k), b: make([]float32, k*n)}
		for _, x := range [][]float32{o.a, o.b} {
			for i := range x {
				x[i] = float32(rng.NormFloat64())
			}
		}
		want := make([]float32, m*n)
		o.run(want)
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				c := make([]float32, m*n)
				for range 5 {
					o.run(c)
					if !slices.Equal(c, want) {
						t.Error("other bits beside other callers")
					}
				}
			})
		}
		wait.Wait()
		if kept := len(spaces.free); kept > 8+1 {
			t.Errorf("%d spaces kept for at most 9 callers", kept)
		}
		c := make([]float32, m*n)
		if allocations := testing.AllocsPerRun(20, func() { o.run(c) }); allocations > 0 {
			t.Errorf("%v allocations a call", allocations)
		}
	})
}

func TestSpace(t *testing.T) {
	s := newSpace()
	const line = 64
	if len(s.b) != maxTerms*maxColumns || len(s.a) != maxTerms*maxLanes || address(s.b)%line != 0 || address(s.a)%line != 0 {
		t.Errorf("%d floats for B at %#x, %d for A at %#x", len(s.b), address(s.b), len(s.a), address(s.a))
	}
	if bytes := 4 * (len(s.b) + len(s.a)); bytes != SpaceBytes {
		t.Errorf("%d bytes, SpaceBytes is %d", bytes, SpaceBytes)
	}
}

func TestEven(t *testing.T) {
	for _, c := range []struct{ n, most, unit, want int }{
		{1, 256, 1, 1}, {256, 256, 1, 256}, {257, 256, 1, 129}, {512, 256, 1, 256}, {600, 256, 1, 200},
		{47, 512, 32, 64}, {512, 512, 32, 512}, {513, 512, 32, 288}, {1030, 512, 32, 352},
	} {
		if got := even(c.n, c.most, c.unit); got != c.want {
			t.Errorf("%d in parts of %d, by %d: %d, want %d", c.n, c.most, c.unit, got, c.want)
		}
	}
}

func TestKinds(t *testing.T) {
	if len(supported) == 0 {
		t.Skip("this processor has no kernels")
	}
	best := &supported[len(supported)-1]
	for asked, want := range map[string]*instructions{"": best, "plain": nil, "avx2": &supported[0], "sse": best} {
		if got := initial(asked); got != want {
			t.Errorf("DISKGNN_SIMD=%s takes %v", asked, got)
		}
	}
	was := inUse
	defer func() { inUse = was }()
	for _, kind := range Kinds() {
		if err := Use(kind); err != nil || Kind() != kind {
			t.Errorf("Use(%q): %v, then %q", kind, err, Kind())
		}
	}
	if Use("sse") == nil {
		t.Error("used what is not there")
	}
	inUse = nil
	if Kind() != "" {
		t.Errorf("without kernels there is %q", Kind())
	}
}

// go test -bench Multiply ./train/cpu/sgemm; go run ./bench sgemm compares it with others.
func BenchmarkMultiply(b *testing.B) {
	const m, n, k = 512, 256, 256
	x, y, z := make([]float32, m*k), make([]float32, k*n), make([]float32, m*n)
	was := inUse
	defer func() { inUse = was }()
	for i := range supported {
		inUse = &supported[i]
		b.Run(inUse.name, func(b *testing.B) {
			for b.Loop() {
				Multiply(false, false, m, n, k, 1, x, k, y, n, 0, z, n)
			}
			b.ReportMetric(2*m*n*k*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
