package exact

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/iostack/all"
	"diskgnn/train/model"
)

// inferred runs a job of all layers in ranges that take no more than room, 0 for what memory leaves.
func (w *world) inferred(t *testing.T, o Options, of targets, room int64, rep progress.Reporter) *job {
	t.Helper()
	j := &job{fs: disk, options: o, report: rep, parts: parts{stack: all.Open, room: room}}
	j.options.EnsureDefaults()
	check(t, j.do(t.Context(), func(ctx context.Context) error {
		of.nodes = j.data.Facts().Nodes
		if err := j.prepare(ctx, j.model.Layers()-1, of, 0); err != nil {
			return err
		}
		return j.compute(ctx, func(context.Context, int, []float32) error { return nil })
	}))
	return j
}

// layers returns the plan of each layer.
func (j *job) layers(t *testing.T) []LayerPlan {
	t.Helper()
	var p Plan
	check(t, j.fill(&p))
	return p.Layers
}

// with returns the raw graph with other edges: degree(v) to sources that draw picks.
func with(raw dataset.Raw, degree func(v int) int, draw func(v int) int) dataset.Raw {
	nodes := len(raw.Labels)
	raw.Indptr, raw.Indices = []int64{0}, nil
	for v := range nodes {
		for range degree(v) {
			raw.Indices = append(raw.Indices, uint32((draw(v)%nodes+nodes)%nodes))
		}
		slices.Sort(raw.Indices[raw.Indptr[v]:])
		raw.Indptr = append(raw.Indptr, int64(len(raw.Indices)))
	}
	return raw
}

// What layers are said to read is what they read, to the byte, and so is the memory: with features
// compressed or not, for all nodes and for some, with little memory and with much.
func TestReadsAreForetold(t *testing.T) {
	groups(t, 64)
	const nodes = 8000
	raw := datasettest.Params{Nodes: nodes, Dim: 97, AvgDegree: 3, Seed: 7}.Raw()
	compressed := raw
	compressed.Compress = true
	rng := rand.New(rand.NewPCG(1, 2))
	few := with(raw, func(v int) int { return 2 }, func(v int) int { return v + rng.IntN(3) })
	for name, c := range map[string]struct {
		raw   dataset.Raw
		model model.Model
		of    []uint32
	}{
		"compressed": {compressed, model.Model{Kind: model.SAGE, Dims: []int{97, 40, 2}}, nil},
		"some nodes": {raw, model.Model{Kind: model.GCN, Dims: []int{97, 41, 2}, InputProjection: 9}, raw.Valid},
		"few nodes":  {few, model.Model{Kind: model.GAT, Heads: 2, Dims: []int{97, 200, 2}, Residual: true}, []uint32{17, 5000}},
		"sums":       {raw, model.Model{Kind: model.SAGE, Aggregator: model.Max, Dims: []int{97, 2}}, raw.Test},
	} {
		w := newWorldOf(t, vfstest.TempDir(t), c.raw, c.model)
		for _, share := range []float64{0, 0.02, 0.4, 1} {
			room := w.tight(t, share)
			j := w.inferred(t, w.options(), targets{ids: c.of}, room, progress.Discard)
			for l, p := range j.layers(t) {
				if got := &j.costs[l]; p.BytesRead != got.BytesRead || p.Ranges != int64(got.Ranges) || p.MemoryBytes > room {
					t.Errorf("%s, %v of the memory, layer %d: %+v was foretold, %+v came", name, share, l, p, got)
				}
				if share == 1 && p.BytesRead > j.steps[0].sizes.Table.Bytes(0, nodes) {
					t.Errorf("%s, layer %d: %+v with all memory", name, l, p)
				}
				t.Logf("%10s %5v layer %d: %4d tiles, %4d blocks, %8d bytes", name, share, l, p.Ranges, p.Blocks, p.BytesRead)
			}
		}
	}
}

// foretold returns what an evaluation with so much memory would read.
func (w *world) foretold(t *testing.T, o Options, memory int64) int64 {
	t.Helper()
	o.Memory = memory
	p, err := PlanEvaluation(t.Context(), disk, o, progress.Discard)
	check(t, err)
	return p.BytesRead
}

// logged is what a reporter was given.
type logged struct {
	progress.Reporter
	lines []string
}

func (l *logged) Logf(format string, args ...any) {
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

// Little memory that would read hundreds of tables is refused before the work, with the memory that
// is enough: with that it runs, and reads what the refusal said within what may be read.
func TestReadsAreBounded(t *testing.T) {
	const nodes = 8000
	rng := rand.New(rand.NewPCG(3, 4))
	raw := with(datasettest.Params{Nodes: nodes, Dim: 96, Seed: 7}.Raw(), func(int) int { return 4 }, func(int) int { return rng.IntN(nodes) })
	w := newWorld(t, vfstest.TempDir(t), raw, 40)
	o := w.options()
	least := func(limit *budget.Size) int64 {
		o := o
		o.MaxRead, o.Memory = limit, 1<<20
		_, err := PlanEvaluation(t.Context(), disk, o, progress.Discard)
		return mebibytes(t, err) << 20
	}
	twenty := &budget.Size{Value: 20, Unit: budget.UnitTimes}
	o.MaxRead, o.Memory = twenty, least(twenty)
	if p, err := PlanEvaluation(t.Context(), disk, o, progress.Discard); err != nil || len(p.Problems) > 0 {
		t.Errorf("with the memory of the refusal: %+v, %v", p, err)
	}
	o.Memory = least(&budget.Size{Unit: budget.UnitUnlimited})
	p, err := PlanEvaluation(t.Context(), disk, o, progress.Discard)
	check(t, err)
	const features = 4 * nodes * 96
	if p.FeatureBytes != features || p.MaxReadBytes != 20*features || p.BytesRead <= p.MaxReadBytes || len(p.Problems) != 1 || p.MemoryBytes > o.Memory || p.DiskBytes != 4*nodes*40 {
		t.Fatalf("%+v", p)
	}
	_, err = Evaluate(t.Context(), disk, o, progress.Discard)
	if !errors.Is(err, fault.ErrBudget) || err.Error() != p.Problems[0] {
		t.Fatalf("%v, planned %+v", err, p)
	}
	po := PredictOptions{Options: o, Out: w.path("out.npy")}
	if _, err := Predict(t.Context(), disk, po, progress.Discard); !errors.Is(err, fault.ErrBudget) {
		t.Errorf("%v", err)
	}
	for _, c := range []struct {
		limit *budget.Size
		bytes int64
	}{
		{twenty, 20 * features},
		{&budget.Size{Value: 5 << 20}, 5 << 20},
	} {
		o := o
		o.MaxRead = c.limit
		p, err := PlanEvaluation(t.Context(), disk, o, progress.Discard)
		check(t, err)
		if p.MaxReadBytes != c.bytes {
			t.Errorf("%v: %+v", c.limit, p)
		}
		o.Memory = mebibytes(t, errors.New(p.Problems[0])) << 20
		e, err := Evaluate(t.Context(), disk, o, progress.Discard)
		check(t, err)
		if less := w.foretold(t, o, (o.Memory>>20-1)<<20); e.BytesRead > c.bytes || less <= c.bytes {
			t.Errorf("%v with %d MiB: %d bytes were read; with a MiB less %d", c.limit, o.Memory>>20, e.BytesRead, less)
		}
	}
	o.MaxRead = &budget.Size{Value: 1 << 20}
	p, err = PlanEvaluation(t.Context(), disk, o, progress.Discard)
	check(t, err)
	if !strings.Contains(p.Problems[0], "no --memory reads less than 2.9 MiB") { // features, once
		t.Errorf("%q", p.Problems)
	}
	o.MaxRead = &budget.Size{Value: features} // which suffices to the byte
	p, err = PlanEvaluation(t.Context(), disk, o, progress.Discard)
	check(t, err)
	if !strings.Contains(p.Problems[0], ": with --memory ") {
		t.Errorf("%q", p.Problems)
	}
	o.MaxRead = &budget.Size{Value: 10, Unit: budget.UnitPercent}
	if _, err := PlanEvaluation(t.Context(), disk, o, progress.Discard); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("a share: %v", err)
	}
}

// A note says how much is read where that is more than ten feature tables, however much may be.
func TestManyReadsAreNoted(t *testing.T) {
	groups(t, 64)
	const nodes = 8000
	rng := rand.New(rand.NewPCG(3, 4))
	raw := with(datasettest.Params{Nodes: nodes, Dim: 96, Seed: 7}.Raw(), func(int) int { return 4 }, func(int) int { return rng.IntN(nodes) })
	w := newWorld(t, vfstest.TempDir(t), raw, 40)
	for share, warns := range map[float64]bool{0: true, 0.1: false} {
		said := &logged{Reporter: progress.Discard}
		j := w.inferred(t, w.options(), targets{}, w.tight(t, share), said)
		warned := slices.ContainsFunc(said.lines, func(s string) bool { return strings.HasPrefix(s, "warning: ") })
		if tables := float64(j.reads().bytes) / (4 * nodes * 96); warned != warns || warns != (tables > 10) || tables < 2 {
			t.Errorf("%v of the memory, %.1f tables: said %q", share, tables, said.lines)
		}
	}
}

// mebibytes returns the memory that a refusal names.
func mebibytes(t *testing.T, refusal error) int64 {
	t.Helper()
	if refusal == nil {
		t.Fatal("nothing was refused")
	}
	m := regexp.MustCompile(`--memory (\d+)MiB(?:\)$| it is )`).FindStringSubmatch(refusal.Error())
	if m == nil {
		t.Fatalf("no memory is named: %v", refusal)
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	check(t, err)
	return n
}

// Hidden states that are much wider than the features may be read as often as ten times all tables;
// a note begins where all were read once.
func TestLimitByHand(t *testing.T) {
	for _, c := range []struct{ features, once, limit int64 }{
		{1000, 1000, 100_000},
		{1000, 9000, 100_000},
		{1000, 33_000, 330_000},
	} {
		if got := (&reads{features: c.features, once: c.once}).limit(); got != c.limit {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

func TestAgainstFeatures(t *testing.T) {
	for bytes, want := range map[int64]string{1536: "1.5 KiB, 1.5 times the features", 10_500 << 10: "10.3 MiB, 10,500 times the features", 10 << 10: "10.0 KiB, 10 times the features"} {
		if got := AgainstFeatures(bytes, 1<<10); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A plan is of what the work is of, and writes nothing.
func TestPlanOfPrediction(t *testing.T) {
	raw := datasettest.Params{Nodes: 500, Dim: 8, AvgDegree: 3, Seed: 7}.Raw()
	w := newWorld(t, vfstest.TempDir(t), raw, 5, 6)
	before, err := os.ReadDir(w.dir)
	check(t, err)
	o := PredictOptions{Options: w.options(), Out: w.path("new/out.npy"), Nodes: dataset.Test}
	p, err := PlanPrediction(t.Context(), disk, o, progress.Discard)
	check(t, err)
	after, err := os.ReadDir(w.dir)
	check(t, err)
	if len(after) != len(before) {
		t.Errorf("%v are there, before %v", after, before)
	}
	_, done := w.predict(t, PredictOptions{Options: o.Options, Nodes: dataset.Test}, 0)
	if len(p.Layers) != 3 || p.DiskBytes != 0 || p.FreeBytes <= 0 || p.MaxReadBytes != math.MaxInt64 || p.Problems != nil || p.BytesRead != done.BytesRead {
		t.Errorf("%+v", p)
	}
	for l, c := range done.Layers {
		got := p.Layers[l]
		got.Seconds, got.ReadSeconds, got.ComputeSeconds, got.WriteSeconds = 0, 0, 0, 0 // predicted, by measurements
		if want := (LayerPlan{Layer: l, Nodes: c.Nodes, Edges: c.Edges, Ranges: int64(c.Ranges), Blocks: c.Blocks, BytesRead: c.BytesRead,
			TopologyBytes: got.TopologyBytes, MemoryBytes: got.MemoryBytes, StateBytes: got.StateBytes, InMemory: l < 2}); got != want {
			t.Errorf("%+v, then %+v", got, want)
		}
	}
	o.Output = Embeddings
	if p, err = PlanPrediction(t.Context(), disk, o, progress.Discard); err != nil || len(p.Layers) != 2 || p.DiskBytes != 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

// A row that lies in two pieces takes both: of node 1638, 160 bytes a row, in pieces of 256 KiB; its own
// row is read once more.
func TestReadsOfOneRow(t *testing.T) {
	w := newWorld(t, vfstest.TempDir(t), datasettest.Params{Nodes: 8000, Dim: 2, Seed: 7}.Raw(), 40)
	for node, pieces := range map[uint32]int64{1637: 1, 1638: 2, 1639: 1} {
		j := w.inferred(t, w.options(), targets{ids: []uint32{node}}, w.tight(t, 0), progress.Discard)
		if got := j.steps[1].plan.OwnBytes; got != pieces*stateGranule || j.costs[1].BytesRead != got+j.steps[1].plan.TableBytes {
			t.Errorf("node %d: %d bytes were foretold, %d were read, want %d pieces", node, got, j.costs[1].BytesRead, pieces)
		}
	}
}
