package blas

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/fault"
)

// libraries returns every kind that this machine has.
func libraries(t testing.TB) []*Library {
	libs := []*Library{gonumLibrary(nil)}
	for _, kind := range []string{OpenBLAS, Builtin} {
		if lib, err := Open(kind); err == nil {
			libs = append(libs, lib)
		} else {
			t.Logf("without %s: %v", kind, err)
		}
	}
	return libs
}

func TestByHand(t *testing.T) {
	a := []float32{1, 2, 3, 4, 5, 6} // 2×3, or 3×2 transposed
	b := []float32{1, 0, 2, 1, 0, 1} // 3×2, or 2×3 transposed
	for _, lib := range libraries(t) {
		for _, c := range []struct {
			tA, tB  bool
			m, n, k int
			want    []float32
		}{
			{false, false, 2, 2, 3, []float32{5, 5, 14, 11}},
			{true, false, 3, 2, 2, []float32{9, 4, 12, 5, 15, 6}}, // uses the first two rows of b
			{false, true, 2, 2, 3, []float32{7, 4, 16, 10}},
			{true, true, 3, 2, 2, []float32{1, 6, 2, 9, 3, 12}},
		} {
			got := make([]float32, c.m*c.n)
			lda, ldb := c.k, c.n
			if c.tA {
				lda = c.m
			}
			if c.tB {
				ldb = c.k
			}
			lib.Sgemm(c.tA, c.tB, c.m, c.n, c.k, 1, a, lda, b, ldb, 0, got, c.n)
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%s transposes %v %v: %v, want %v", lib.Name(), c.tA, c.tB, got, c.want)
			}
		}
	}
}

// operands draws a product with room around every row, NaN where it must not be read.
type operands struct {
	tA, tB        bool
	m, n, k       int
	lda, ldb, ldc int
	a, b, c       []float32
}

func draw(t *rapid.T) *operands {
	size := rapid.IntRange(1, 150)
	o := &operands{tA: rapid.Bool().Draw(t, "tA"), tB: rapid.Bool().Draw(t, "tB"),
		m: size.Draw(t, "m"), n: size.Draw(t, "n"), k: size.Draw(t, "k")}
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	pad := rapid.IntRange(0, 3)
	matrix := func(rows, cols, ld int) []float32 {
		x := make([]float32, (rows-1)*ld+cols)
		for i := range x {
			if x[i] = float32(math.NaN()); i%ld < cols {
				x[i] = float32(rng.NormFloat64())
			}
		}
		return x
	}
	ar, ac, br, bc := o.m, o.k, o.k, o.n
	if o.tA {
		ar, ac = ac, ar
	}
	if o.tB {
		br, bc = bc, br
	}
	o.lda, o.ldb, o.ldc = ac+pad.Draw(t, "lda"), bc+pad.Draw(t, "ldb"), o.n+pad.Draw(t, "ldc")
	o.a, o.b, o.c = matrix(ar, ac, o.lda), matrix(br, bc, o.ldb), matrix(o.m, o.n, o.ldc)
	return o
}

func (o *operands) run(lib *Library, alpha, beta float32, a, b, c []float32) {
	lib.Sgemm(o.tA, o.tB, o.m, o.n, o.k, alpha, a, o.lda, b, o.ldb, beta, c, o.ldc)
}

func TestAgainstDefinition(t *testing.T) {
	for _, lib := range libraries(t) {
		rapid.Check(t, func(t *rapid.T) {
			o := draw(t)
			alpha, beta := float32(rapid.IntRange(-2, 2).Draw(t, "alpha")), float32(rapid.IntRange(-1, 1).Draw(t, "beta"))
			c := append([]float32(nil), o.c...)
			o.run(lib, alpha, beta, o.a, o.b, c)
			for i := range o.m {
				for j := range o.n {
					sum := 0.0
					for l := range o.k {
						x, y := o.a[min(i*o.lda+l, len(o.a)-1)], o.b[min(l*o.ldb+j, len(o.b)-1)]
						if o.tA {
							x = o.a[l*o.lda+i]
						}
						if o.tB {
							y = o.b[j*o.ldb+l]
						}
						sum += float64(x) * float64(y)
					}
					want := float64(alpha)*sum + float64(beta)*float64(o.c[i*o.ldc+j])
					if got := float64(c[i*o.ldc+j]); math.Abs(got-want) > 1e-4*(1+math.Abs(want)) {
						t.Fatalf("%s: element %d,%d is %v, want %v", lib.Name(), i, j, got, want)
					}
				}
			}
			for i, v := range c {
				if i%o.ldc >= o.n && v == v {
					t.Fatalf("%s wrote between the rows, at %d", lib.Name(), i)
				}
			}
		})
	}
}

// The same operands give the same bits at every alignment, GOMAXPROCS and load.
func TestSameBits(t *testing.T) {
	shift := func(x []float32, by int) []float32 {
		y := append(make([]float32, by, by+len(x)), x...)
		return y[by:]
	}
	same := func(x, y []float32) bool {
		for i := range x {
			if math.Float32bits(x[i]) != math.Float32bits(y[i]) {
				return false
			}
		}
		return true
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	rng := rand.New(rand.NewPCG(1, 2))
	for _, lib := range libraries(t) {
		for shape := range 8 {
			o := &operands{tA: shape&1 != 0, tB: shape&2 != 0, m: 133 + 100*(shape&4), n: 259, k: 197}
			o.lda, o.ldb, o.ldc = o.k, o.n, o.n
			if o.tA {
				o.lda = o.m
			}
			if o.tB {
				o.ldb = o.k
			}
			o.a, o.b = make([]float32, o.m*o.k), make([]float32, o.k*o.n)
			for _, x := range [][]float32{o.a, o.b} {
				for i := range x {
					x[i] = float32(rng.NormFloat64())
				}
			}
			want := make([]float32, o.m*o.n)
			o.run(lib, 1, 0, o.a, o.b, want)
			var wg sync.WaitGroup
			for procs := 1; procs <= 4; procs++ {
				runtime.GOMAXPROCS(procs)
				wg.Go(func() {
					got := shift(make([]float32, o.m*o.n), procs)
					o.run(lib, 1, 0, shift(o.a, procs), shift(o.b, procs+1), got)
					if !same(got, want) {
						t.Errorf("%s: bits differ for transposes %v %v on %d procs at another alignment", lib.Name(), o.tA, o.tB, procs)
					}
				})
			}
			wg.Wait()
		}
	}
}

func TestNothingToSum(t *testing.T) {
	for _, lib := range libraries(t) {
		nan := float32(math.NaN())
		c := []float32{nan, 2, nan, 4}
		lib.Sgemm(false, false, 2, 1, 0, 1, nil, 0, nil, 1, 0, c, 2)
		if c[0] != 0 || c[1] != 2 || c[2] != 0 || c[3] != 4 {
			t.Errorf("%s: no terms left %v", lib.Name(), c)
		}
		lib.Sgemm(false, false, 0, 0, 3, 1, nil, 3, nil, 0, 0, nil, 0)
		c = []float32{1, 2, 3, 4}
		lib.Sgemm(false, false, 2, 1, 1, 0, []float32{nan, nan}, 1, []float32{nan}, 1, 0.5, c, 2)
		if !slices.Equal(c, []float32{0.5, 2, 1.5, 4}) {
			t.Errorf("%s: alpha 0 left %v", lib.Name(), c)
		}
	}
}

func TestShortSlicesPanic(t *testing.T) {
	for _, lib := range libraries(t) {
		for i := range 3 {
			x := [3][]float32{make([]float32, 6), make([]float32, 6), make([]float32, 4)}
			x[i] = x[i][:len(x[i])-1]
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: operand %d too short, and no panic", lib.Name(), i)
					}
				}()
				lib.Sgemm(false, false, 2, 2, 3, 1, x[0], 3, x[1], 2, 0, x[2], 2)
			}()
		}
	}
}

func TestNoAllocation(t *testing.T) {
	a, b, c := make([]float32, 64*64), make([]float32, 64*64), make([]float32, 64*64)
	for _, lib := range libraries(t) {
		if n := testing.AllocsPerRun(100, func() {
			lib.Sgemm(false, true, 64, 64, 64, 1, a, 64, b, 64, 0, c, 64)
		}); n > 0 {
			t.Errorf("%s: %v allocations a call", lib.Name(), n)
		}
	}
}

func TestOpen(t *testing.T) {
	if _, err := Open("mkl"); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("an unknown kind: %v", err)
	}
	if lib, err := Open(Gonum); err != nil || lib.Kind() != Gonum || lib.Reason() != "" {
		t.Errorf("gonum by name: %v %v", lib, err)
	}
	lib, err := Open(Auto)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(OpenBLAS); err == nil {
		if lib.Kind() != OpenBLAS || !strings.HasPrefix(lib.Name(), "openblas ") {
			t.Errorf("auto took %s although OpenBLAS is here", lib.Name())
		}
	} else if _, err := Open(Builtin); err == nil {
		if lib.Kind() != Builtin || lib.Reason() != "" {
			t.Errorf("auto fell back to %s with reason %q", lib.Name(), lib.Reason())
		}
	} else if lib.Kind() != Gonum || !strings.Contains(lib.Reason(), "libopenblas0") {
		t.Errorf("auto fell back to %s with reason %q", lib.Name(), lib.Reason())
	}
}

// Auto takes the first that is there.
func TestChoose(t *testing.T) {
	fail := func() (*Library, error) { return nil, errors.New("not here") }
	found := func(kind string) func() (*Library, error) {
		return func() (*Library, error) { return &Library{kind: kind}, nil }
	}
	for _, c := range []struct {
		kind              string
		openBLAS, builtin func() (*Library, error)
		want              string // "" is an error
	}{
		{Auto, found(OpenBLAS), found(Builtin), OpenBLAS},
		{Auto, fail, found(Builtin), Builtin},
		{Auto, fail, fail, Gonum},
		{"", fail, fail, Gonum},
		{OpenBLAS, fail, found(Builtin), ""},
		{Builtin, found(OpenBLAS), fail, ""},
		{Builtin, found(OpenBLAS), found(Builtin), Builtin},
		{Gonum, found(OpenBLAS), found(Builtin), Gonum},
	} {
		lib, err := choose(c.kind, c.openBLAS, c.builtin)
		switch {
		case c.want == "":
			if !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "not here") {
				t.Errorf("%s: %v, %v", c.kind, lib, err)
			}
		case err != nil || lib.Kind() != c.want:
			t.Errorf("%s: %v, %v, want %s", c.kind, lib, err, c.want)
		case (lib.Reason() != "") != (c.want == Gonum && c.kind != Gonum):
			t.Errorf("%s: taking %s because %q", c.kind, c.want, lib.Reason())
		}
	}
}

func TestKindOf(t *testing.T) {
	for _, lib := range libraries(t) {
		if got := KindOf(lib.Name()); got != lib.Kind() {
			t.Errorf("%q is of kind %q, want %q", lib.Name(), got, lib.Kind())
		}
	}
	if got := KindOf("mkl 2024"); got != "" {
		t.Errorf("mkl is of kind %q", got)
	}
}

// go test -bench Sgemm ./train/cpu/blas
func BenchmarkSgemm(b *testing.B) {
	const m, n, k = 512, 256, 256
	x, y, z := make([]float32, m*k), make([]float32, k*n), make([]float32, m*n)
	for i := range x {
		x[i] = float32(i % 7)
	}
	for i := range y {
		y[i] = float32(i % 5)
	}
	for _, lib := range libraries(b) {
		b.Run(strings.Fields(lib.Name())[0], func(b *testing.B) {
			for b.Loop() {
				lib.Sgemm(false, false, m, n, k, 1, x, k, y, n, 0, z, n)
			}
			b.ReportMetric(2*m*n*k*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
