package hyperion

import (
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"diskgnn/simulate/drives"
	"diskgnn/simulate/kernel"
	"diskgnn/simulate/trace"
)

var update = flag.Bool("update", false, "write testdata/cells.txt anew")

// two returns assumptions under which a graph of two nodes, with rows of 4096 bytes, has one batch: one
// seed node draws the other node. Sampling takes a second, and so do GraphSAGE's products and its sums.
func two(t *testing.T, change func(*Assumptions)) (*lab, setup) {
	a := Assumed()
	a.Scale, a.Warmup, a.Counted = 1, 0, 1
	a.SampleNano, a.Efficiency = 0.5e9, 0.5
	// The only layer has one destination: two matrices of 1024 × 172, forward and for their gradients.
	a.GPUs = map[string]GPU{"a": {Operations: 2 * 2 * 2 * 2 * 1024 * 172, Bytes: 2 * 4096}}
	change(&a)
	l, err := newLab(a)
	if err != nil {
		t.Fatal(err)
	}
	w := &drives.Workload{Nodes: 2, Hotness: []uint32{2, 1}}
	if err := w.Add(&trace.Batch{Rows: []uint32{0, 1}}); err != nil {
		t.Fatal(err)
	}
	l.seen[key{"two", 1, 1}] = &drawn{w, []float64{1, 2}, []float64{1}}
	return l, setup{graph: Graph{"two", 2, 2, 4096, 1024}, model: Models()[0], size: 1, fanout: []int{1}, machine: "a", drive: "intel-p5510", drives: 1}
}

// Reads, rows in RAM and times of two nodes, by hand.
func TestTwoNodes(t *testing.T) {
	for _, c := range []struct {
		system      string
		gpu, host   int64
		reads, zero int64 // reads, and bytes of rows in RAM
		more        int64 // reads of neighbours
		seconds     float64
	}{
		{hyperion, 0, 0, 2, 0, 0, 6}, // the I/O kernels take half of the GPU
		{hyperion, 4096, 0, 1, 0, 0, 6},
		{hyperion, 4096, 4096, 0, 4096, 0, 6},
		{hyperion, 0, 4096, 1, 4096, 0, 6},
		{serial, 0, 4096, 1, 4096, 0, 3},
		{legion, 4096, 0, 0, 4096, 0, 3},
		{noTopology, 4096, 0, 0, 4096, 1, 6}, // the room of the topology holds the other row
		{paged, 4096, 4096, 1, 4096, 0, 3},   // half of the table in RAM, whatever Hyperion's caches are
	} {
		l, s := two(t, func(a *Assumptions) { a.Taken, a.GIDSWhole, a.GIDSBuffer, a.GIDSCache = 0.5, false, 0.5, 0 })
		s.system, s.gpu, s.host = c.system, c.gpu, c.host
		load, err := l.load(s)
		if err != nil {
			t.Fatal(err)
		}
		more := int64(0)
		for _, r := range load.Reads[1:] {
			more += r.Count
		}
		if load.Rows != 2 || load.Reads[0].Count != c.reads || load.Reads[0].Bytes != 4096 || load.Zero != c.zero || more != c.more || load.Hits != 2-c.reads {
			t.Errorf("%+v: %+v", c, load)
		}
		if got := load.Compute.Seconds(); math.Abs(got-c.seconds) > 1e-9 {
			t.Errorf("%+v: computing takes %v s", c, got)
		}
	}
}

// Training steps of one layer, by hand.
func TestTraining(t *testing.T) {
	want := map[string]float64{
		"SAGE": 1 + 1,
		"GCN":  0.5 + 1,                   // one matrix
		"GAT":  1 + 3*4*172/float64(4096), // one matrix, for both nodes; sums of 172 values, three times
	}
	for _, m := range Models() {
		l, s := two(t, func(*Assumptions) {})
		s.model = m
		if got := l.training(s, l.seen[key{"two", 1, 1}]); math.Abs(got-want[m.Name]) > 1e-9 {
			t.Errorf("%s: %v s, want %v", m.Name, got, want[m.Name])
		}
	}
}

// A batch has each node once, and each node draws its neighbours, as the graph has or as the fanout allows.
func TestBatch(t *testing.T) {
	l, err := newLab(Assumed())
	if err != nil {
		t.Fatal(err)
	}
	seen := make([]int32, 100)
	for i, c := range []struct {
		edges int64
		want  float64
	}{{100, 1}, {300, 3}, {900, 4}} {
		rows := map[uint32]bool{}
		visits := 0
		nodes, edges := l.batch(Graph{Nodes: 100, Edges: c.edges}, 5, []int{4}, seen, int32(i+1), func(v uint32) { rows[v], visits = true, visits+1 })
		if visits != len(rows) || nodes[1] != float64(visits) || edges[0] != nodes[0]*c.want || nodes[0] > 5 {
			t.Errorf("%d edges: %v nodes, %v edges, %d rows, %d visits", c.edges, nodes, edges, len(rows), visits)
		}
	}
}

// The figures that follow from the report's costs: 8 × 45,275 / 48,971 = 7.396.
func TestDistDGL(t *testing.T) {
	got, err := DistDGL()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][2]float64{{8.501, 0.87}, {18, 0.4109}, {60, 0.1233}} {
		if math.Abs(got[i].PerCost-want[0]) > 1e-3 || math.Abs(got[i].Throughput-want[1]) > 1e-4 {
			t.Errorf("%+v, want %v", got[i], want)
		}
	}
}

// The formula's time of eight batches, after four others, is within 3 % of the time by simulated events.
func TestEvents(t *testing.T) {
	l, err := newLab(Assumed())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		system string
		drives int
	}{{hyperion, 2}, {hyperion, 6}, {hyperion, 12}, {serial, 12}, {paged, 12}} {
		s := l.on(c.system, named("IG"))
		s.host = 60e9
		load, err := l.load(s)
		if err != nil {
			t.Fatal(err)
		}
		load = l.part(load)
		s.drives = c.drives
		seconds, err := steady(t.Context(), load, []drives.Machine{l.hardware(s)})
		if err != nil {
			t.Fatal(err)
		}
		formula := drives.Estimate(slices.Repeat([]drives.Load{load}, 12), l.hardware(s)) - drives.Estimate(slices.Repeat([]drives.Load{load}, 4), l.hardware(s))
		if math.Abs(seconds[0]/formula-1) > 0.03 {
			t.Errorf("%+v: %v s, by the formula %v", c, seconds[0], formula)
		}
	}
}

// The suggested number of drives has 90 % of the best throughput per cost, as the report says.
func TestSuggested(t *testing.T) {
	a := Assumed()
	a.Part = 400
	c, err := Suggested(t.Context(), a)
	if err != nil || c.Simulated < 0.9 || c.Simulated > 1 {
		t.Errorf("%+v, %v", c, err)
	}
}

// Each variant changes its own assumptions, and has a machine that runs.
func TestVariants(t *testing.T) {
	before := fmt.Sprint(Assumed())
	l, err := newLab(Assumed())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range Variants() {
		a := Assumed()
		v.Set(&a)
		if fmt.Sprint(a) == before {
			t.Errorf("%s changes nothing", v.Name)
		}
		l.Assumptions = a
		m := l.hardware(l.on(hyperion, named("IG")))
		if err := m.Check(); err != nil || batchSize%a.Scale != 0 || 1000%a.Scale != 0 {
			t.Errorf("%s: %v, scale %d", v.Name, err, a.Scale)
		}
	}
	if fmt.Sprint(Assumed()) != before {
		t.Error("a variant has changed the assumptions of others")
	}
}

// TestCells compares the cells with testdata/cells.txt.
func TestCells(t *testing.T) {
	cells, err := Simulate(t.Context(), Assumed())
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, c := range cells {
		line := fmt.Sprintf("%-36s %-8s %8.4g %8.4g %6.1f %%  %s", c.Name, c.Bound, c.Published, c.Simulated, c.Difference(), c.Where)
		fmt.Fprintln(&text, strings.TrimSpace(line))
	}
	const name = "testdata/cells.txt"
	if *update {
		if err := os.WriteFile(name, []byte(text.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil || text.String() != string(want) {
		t.Errorf("%v: got\n%swant\n%s", err, text.String(), want)
	}
	for i, c := range cells {
		if i < Costs && c.Simulated != c.Published {
			t.Errorf("%s: %v, want %v", c.Name, c.Simulated, c.Published)
		}
		if strings.HasPrefix(c.Short, "tco_") != (i < Costs) {
			t.Errorf("cell %d is %s", i, c.Short)
		}
	}
}

// The scale of drawing does not matter: Scale 500 gives the same mean batches within 2 %.
func TestScale(t *testing.T) {
	fine := Assumed()
	fine.Scale = 500
	a, err := newLab(Assumed())
	if err != nil {
		t.Fatal(err)
	}
	b, err := newLab(fine)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"PA", "IG"} {
		x, err := a.load(a.on(hyperion, named(name)))
		if err != nil {
			t.Fatal(err)
		}
		y, err := b.load(b.on(hyperion, named(name)))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range [][2]int64{{x.Rows, y.Rows}, {x.Zero, y.Zero}, {int64(x.Compute / kernel.Microsecond), int64(y.Compute / kernel.Microsecond)}} {
			if math.Abs(float64(v[0])/float64(v[1])-1) > 0.02 {
				t.Errorf("%s: %+v at scale 1000, %+v at 500", name, x, y)
			}
		}
	}
}
