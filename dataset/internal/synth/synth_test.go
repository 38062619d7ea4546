package synth

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/rng"
)

func TestPermutation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(1, 3000).Draw(t, "n")
		p := newPermutation(n, rapid.Uint64().Draw(t, "key"))
		seen := make([]bool, n)
		for x := range n {
			y := p.forward(x)
			if y >= n || seen[y] {
				t.Fatalf("%d → %d: out of range or taken", x, y)
			}
			seen[y] = true
			if back := p.backward(y); back != x {
				t.Fatalf("%d → %d → %d", x, y, back)
			}
		}
	})
	p := newPermutation(1<<32, 7)
	for x := uint64(1<<32 - 1000); x < 1<<32; x++ {
		if y := p.forward(x); y >= 1<<32 || p.backward(y) != x {
			t.Fatalf("%d → %d", x, y)
		}
	}
}

// TestPermutationMixes checks that near nodes do not land near each other more
// often than chance has it.
func TestPermutationMixes(t *testing.T) {
	const n = 1 << 17
	p := newPermutation(n-5, 1)
	near := 0
	for x := range uint64(n - 6) {
		if d := int64(p.forward(x)) - int64(p.forward(x+1)); d > -n/64 && d < n/64 {
			near++
		}
	}
	if share := float64(near) / n; math.Abs(share-1.0/32) > 0.003 {
		t.Errorf("%.4f of neighbours land within n/64, expected %.4f", share, 1.0/32)
	}
}

func newModel(t testing.TB, p Params) *Model {
	t.Helper()
	m, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestNeighbors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(8, 400).Draw(t, "nodes")
		p := Params{
			Nodes: n, AvgDegree: rapid.Float64Range(0, float64(n-1)/4).Draw(t, "degree"),
			Dim: 2, Classes: rapid.IntRange(2, 8).Draw(t, "classes"), Seed: rapid.Uint64().Draw(t, "seed"),
		}
		m, err := New(p)
		if err != nil {
			t.Fatal(err)
		}
		edges := 0
		var row []uint32
		for v := range uint32(n) {
			row = m.Neighbors(row[:0], v)
			for i, u := range row {
				if int64(u) >= n || u == v || i > 0 && u <= row[i-1] {
					t.Fatalf("node %d: neighbours %v", v, row)
				}
			}
			if most := int(math.Ceil(m.law.most)) + 1; len(row) > most {
				t.Fatalf("node %d has degree %d, above the bound %d", v, len(row), most)
			}
			edges += len(row)
		}
		if want := p.AvgDegree * float64(n); math.Abs(float64(edges)-want) > float64(p.Classes)/2+1 {
			t.Fatalf("%d edges, want %.1f", edges, want)
		}
	})
}

// TestLaw checks on one graph what the package promises of its topology.
func TestLaw(t *testing.T) {
	const n = 60_000
	p := Params{Nodes: n, AvgDegree: 15, Dim: 1, Classes: 32, Seed: 5}
	m := newModel(t, p)
	in, out := make([]float64, n), make([]float64, n)
	inside, edges := 0, 0
	var row []uint32
	for v := range uint32(n) {
		row = m.Neighbors(row[:0], v)
		in[v] = float64(len(row))
		edges += len(row)
		for _, u := range row {
			out[u]++
			if m.Community(u) == m.Community(v) {
				inside++
			}
		}
	}
	if edges != 15*n {
		t.Errorf("%d edges, want %d", edges, 15*n)
	}
	if share := float64(inside) / float64(edges); share < 0.76 || share > 0.82 {
		t.Errorf("%.3f of the edges stay inside their community, want about 0.8", share)
	}
	for name, degrees := range map[string][]float64{"in": in, "out": out} {
		if e := exponent(degrees, 10, 100); math.Abs(e-Exponent) > 0.25 {
			t.Errorf("%s-degrees follow exponent %.2f, want %.1f", name, e, Exponent)
		}
		if most := slices.Max(degrees); most < 500 {
			t.Errorf("the largest %s-degree is %g: no hubs", name, most)
		}
	}
	if r := correlation(in, out); r < 0.9 {
		t.Errorf("in- and out-degrees correlate by %.3f", r)
	}
}

// exponent fits the distribution of degrees between two bounds: the slope of the
// logarithm of the complementary distribution, minus one.
func exponent(degrees []float64, lo, hi float64) float64 {
	above := func(x float64) (n float64) {
		for _, d := range degrees {
			if d >= x {
				n++
			}
		}
		return n
	}
	return 1 + math.Log(above(lo)/above(hi))/math.Log(hi/lo)
}

func correlation(a, b []float64) float64 {
	var ma, mb float64
	for i := range a {
		ma, mb = ma+a[i]/float64(len(a)), mb+b[i]/float64(len(a))
	}
	var aa, bb, ab float64
	for i := range a {
		x, y := a[i]-ma, b[i]-mb
		aa, bb, ab = aa+x*x, bb+y*y, ab+x*y
	}
	return ab / math.Sqrt(aa*bb)
}

func TestSplitsAndLabels(t *testing.T) {
	p := Params{Nodes: 20_000, AvgDegree: 3, Dim: 1, Classes: 5, Seed: 9, Train: 1000, Valid: 77, Test: 300}
	m := newModel(t, p)
	var splits [4]int64
	var classes, communities [5]int
	other := 0
	for v := range uint32(p.Nodes) {
		splits[m.Split(v)]++
		classes[m.Label(v)]++
		communities[m.Community(v)]++
		if m.Label(v) != m.Community(v) {
			other++
		}
	}
	if splits != [4]int64{20_000 - 1377, 1000, 77, 300} {
		t.Errorf("splits %v", splits)
	}
	if share := float64(other) / 20_000; math.Abs(share-LabelNoise) > 0.01 {
		t.Errorf("%.3f of the labels are not their community's, want %.2f", share, LabelNoise)
	}
	for c := range classes {
		if communities[c] != 4000 || classes[c] < 3700 || classes[c] > 4300 {
			t.Errorf("class %d: %d nodes, community of %d", c, classes[c], communities[c])
		}
	}
}

// TestFeaturesAlone measures what the best classifier of features alone scores,
// for shapes far apart.
func TestFeaturesAlone(t *testing.T) {
	for _, s := range []struct{ dim, classes int }{{128, 32}, {8, 32}, {100, 4}, {16, 10}, {300, 64}, {128, 3}, {32, 2}, {3, 7}} {
		t.Run(fmt.Sprintf("%dx%d", s.dim, s.classes), func(t *testing.T) {
			p := Params{Nodes: 4000, AvgDegree: 3, Dim: s.dim, Classes: s.classes, Seed: uint64(s.dim)}
			m := newModel(t, p)
			row := make([]float32, s.dim)
			right := 0
			for v := range uint32(p.Nodes) {
				m.Features(row, v)
				if m.Classify(row) == m.Label(v) {
					right++
				}
			}
			got, want := float64(right)/float64(p.Nodes), FeaturesTarget(s.classes)
			if math.Abs(got-want) > 0.03 {
				t.Errorf("features alone score %.3f, want %.2f", got, want)
			}
		})
	}
}

// TestNeighbourhood shows that neighbours tell what features do not: the nearest
// class mean to the average over two hops.
func TestNeighbourhood(t *testing.T) {
	p := Params{Nodes: 20_000, AvgDegree: 15, Dim: 64, Classes: 16, Seed: 2}
	m := newModel(t, p)
	right := 0
	var row, far []uint32
	x, sum := make([]float32, p.Dim), make([]float32, p.Dim)
	const tested = 1000
	for v := range uint32(tested) {
		row = m.Neighbors(row[:0], v)
		clear(sum)
		n := 0
		for _, u := range row[:min(len(row), 10)] {
			far = m.Neighbors(append(far[:0], u), u)
			for _, w := range far[:min(len(far), 10)] {
				m.Features(x, w)
				for j := range sum {
					sum[j] += x[j]
				}
				n++
			}
		}
		if n == 0 {
			continue
		}
		for j := range sum {
			sum[j] /= float32(n) * float32(Inside*Inside)
		}
		if m.Classify(sum) == m.Label(v) {
			right++
		}
	}
	if got := float64(right) / tested; got < 0.72 || got > 1-LabelNoise+0.03 {
		t.Errorf("two hops score %.3f, want between 0.72 and %.2f", got, 1-LabelNoise)
	}
}

func TestNormal(t *testing.T) {
	src := rng.New(3)
	xs := make([]float32, 1<<20)
	normals(&src, xs)
	var m1, m2, m4 float64
	within := 0
	for _, x := range xs {
		v := float64(x)
		m1, m2, m4 = m1+v, m2+v*v, m4+v*v*v*v
		if math.Abs(v) < 1 {
			within++
		}
	}
	n := float64(len(xs))
	m1, m2, m4 = m1/n, m2/n, m4/n
	if math.Abs(m1) > 0.005 || math.Abs(m2-1) > 0.01 || math.Abs(m4-3) > 0.1 || math.Abs(float64(within)/n-0.6827) > 0.002 {
		t.Errorf("moments %.4f, %.4f, %.4f; %.4f within 1", m1, m2, m4, float64(within)/n)
	}
}

// TestStable pins a few values: changing them changes every generated dataset,
// which must then change the generator's version.
func TestStable(t *testing.T) {
	m := newModel(t, Params{Nodes: 1000, AvgDegree: 6, Dim: 4, Classes: 3, Seed: 42, Train: 100, Valid: 20, Test: 20})
	row := make([]float32, 4)
	m.Features(row, 7)
	got := fmt.Sprint(m.Neighbors(nil, 7), m.Community(7), m.Label(7), m.Split(7), row)
	const want = "[108 222 638 839 940] 2 2 0 [0.1879215 0.23537913 -1.209881 0.3876745]"
	if got != want {
		t.Errorf("node 7 is %s, was %s", got, want)
	}
}

func TestRefuses(t *testing.T) {
	for _, avg := range []float64{-1, math.NaN(), math.Inf(1), 30} {
		if _, err := New(Params{Nodes: 100, AvgDegree: avg, Dim: 1, Classes: 2}); err == nil {
			t.Errorf("average degree %g accepted", avg)
		}
	}
}

func BenchmarkNeighbors(b *testing.B) {
	m := newModel(b, Params{Nodes: 1_000_000, AvgDegree: 15, Dim: 1, Classes: 32, Seed: 1})
	var row []uint32
	edges := 0
	for i := range b.N {
		row = m.Neighbors(row[:0], uint32(i%1_000_000))
		edges += len(row)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(edges), "ns/edge")
}

func BenchmarkFeatures(b *testing.B) {
	m := newModel(b, Params{Nodes: 1_000_000, AvgDegree: 15, Dim: 128, Classes: 32, Seed: 1})
	row := make([]float32, 128)
	b.SetBytes(512)
	for i := range b.N {
		m.Features(row, uint32(i%1_000_000))
	}
}

func BenchmarkNew(b *testing.B) {
	for range b.N {
		newModel(b, Params{Nodes: 1_000_000, AvgDegree: 15, Dim: 128, Classes: 32, Seed: 1})
	}
}
