package pack_test

import (
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/pack"
	"diskgnn/pack/cut"
	"diskgnn/pack/packfile"
	"diskgnn/presample"
	"diskgnn/presample/mbfile"
)

// adding is a reporter that checks what is added to each task.
type adding struct {
	progress.Reporter
	t     *testing.T
	mu    sync.Mutex
	names map[string]bool
}

type addingTask struct {
	r     *adding
	name  string
	total int64
	added atomic.Int64
}

func (a *adding) Task(name string, total int64, _ progress.Unit) progress.Task {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.names[name] = true
	return &addingTask{r: a, name: name, total: total}
}

func (t *addingTask) Add(n int64) { t.added.Add(n) }

func (t *addingTask) Done() {
	if n := t.added.Load(); t.total > 0 && n != t.total {
		t.r.t.Errorf("%s: %d of %d", t.name, n, t.total)
	}
}

// TestTasksAddUp: what is reported of every task ends with what was announced.
func TestTasksAddUp(t *testing.T) {
	ds, samples := inputs(t, groupsOf)
	for name, change := range map[string]func(o *pack.Options){
		"static":   func(*pack.Options) {},
		"max-disk": func(o *pack.Options) { o.MaxDisk = &budget.Size{Value: 3_400_000} },
		"min":      func(o *pack.Options) { *o = minOptions(ds, samples, o.Out) },
		"zstd":     func(o *pack.Options) { o.Compress = packfile.CodecZstd },
		"chunks":   func(o *pack.Options) { o.EvalChunks, o.RangeRows = true, 17 },
		"spilled":  func(o *pack.Options) { o.RangeRows = 17 },
	} {
		o := options(ds, samples, filepath.Join(t.TempDir(), "P"))
		change(&o)
		a := &adding{Reporter: progress.Discard, t: t, names: map[string]bool{}}
		if _, err := pack.Run(t.Context(), disk, o, a); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if want := "compress chunks"; name == "zstd" && !a.names[want] {
			t.Errorf("no task %q among %v", want, slices.Sorted(maps.Keys(a.names)))
		}
	}
}

// opened counts how often files are created or opened to be written to.
type opened struct {
	mu    sync.Mutex
	times map[string]int
}

func (o *opened) Before(op vfs.Op, name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if op == vfs.OpOpen || op == vfs.OpCreate {
		o.times[filepath.Base(name)]++
	}
	return nil
}

// TestFilesStayOpen: while fewer files are written than may be open, none is closed and
// opened again, however many ranges it is written in.
func TestFilesStayOpen(t *testing.T) {
	ds, samples := manyGroups(t, 9)
	times := func(rows int64, most int) map[string]int {
		o := options(ds, samples, filepath.Join(t.TempDir(), "P"))
		o.RangeRows = rows
		o.KeepOpen(most)
		in := &opened{times: map[string]int{}}
		if _, err := pack.Run(t.Context(), vfs.Inject(disk, in), o, progress.Discard); err != nil {
			t.Fatal(err)
		}
		return in.times
	}
	one, ranges, few := times(0, 0), times(17, 0), times(17, 3)
	cold := 0
	for name, n := range one {
		if !strings.HasPrefix(name, "cold-") {
			continue
		}
		cold++
		if ranges[name] != n {
			t.Errorf("%s is opened %d times in several ranges, %d in one", name, ranges[name], n)
		}
		if few[name] <= n {
			t.Errorf("%s is opened %d times where three may be open", name, few[name])
		}
	}
	if cold < 8 {
		t.Errorf("%d groups", cold)
	}
}

// TestPlanIsAnUpperBound plans packs that are all graphs: each takes no more than was
// planned, and less by no more than a page for each part.
func TestPlanIsAnUpperBound(t *testing.T) {
	dir := t.TempDir()
	ds, samples := filepath.Join(dir, "D"), filepath.Join(dir, "S")
	if err := dataset.Create(disk, ds, datasettest.Params{Nodes: 20_000, AvgDegree: 8, Dim: 1, Seed: 3}.Raw()); err != nil {
		t.Fatal(err)
	}
	if _, err := presample.Run(t.Context(), disk, presample.Options{
		Dataset: ds, Out: samples, BatchSize: 2000, Fanout: []int{4, 4}, Epochs: 2, Workers: 2, Memory: 1 << 30,
	}, progress.Discard); err != nil {
		t.Fatal(err)
	}
	o := options(ds, samples, filepath.Join(dir, "P"))
	plan, err := pack.MakePlan(t.Context(), disk, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	res, err := pack.Run(t.Context(), disk, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r, err := mbfile.Open(disk, samples)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const page = 4096
	inputs := int64(0)
	for i := range r.Facts().Batches() {
		info := r.Info(i)
		inputs += int64(info.InputNodes())
	}
	// The table's files beside the batches' parts are few. Of a rank and a degree, of 15 and 8 bits here, a list may need none.
	if over := plan.Chosen.DiskBytes - res.DiskBytes; over < 0 || over > int64(2*res.Batches+8)*page+3*inputs {
		t.Errorf("%d bytes were planned, %d made, of %d batches", plan.Chosen.DiskBytes, res.DiskBytes, res.Batches)
	}
	p, err := packfile.Open(disk, o.Out)
	if err != nil {
		t.Fatal(err)
	}
	caches := p.Describe().Caches
	read := float64(caches[0].ColdBytes+caches[0].GraphBytes) / 2 // of two epochs
	if ratio := float64(plan.Chosen.EpochBytes) / read; ratio < 0.98 || ratio > 1.1 {
		t.Errorf("an epoch was planned to read %d bytes, and reads %.0f", plan.Chosen.EpochBytes, read)
	}
}

// TestPlanChoices: packs without shared rows serve every larger cache too; others hold
// one cache's rows as hot.
func TestPlanChoices(t *testing.T) {
	ds, samples := inputs(t, groupsOf)
	o := options(ds, samples, filepath.Join(t.TempDir(), "P"))
	o.Cache, o.Bands = &budget.Size{Value: 10, Unit: budget.UnitPercent}, []float64{30, 20}
	plan, err := pack.MakePlan(t.Context(), disk, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	const most = 200 * 30 / 100
	long, caches := 0, map[int64]bool{}
	for _, c := range plan.Choices {
		caches[c.CacheRows] = true
		want := c.CacheRows
		if c.Segment == 1 {
			want = most
		} else {
			long++
		}
		if c.HotRows != want {
			t.Errorf("%+v: %d hot rows, want %d", c, c.HotRows, want)
		}
	}
	if got := slices.Sorted(maps.Keys(caches)); long == 0 || !slices.Equal(got, []int64{20, 40, 60}) {
		t.Errorf("caches %v, %d choices with segments", got, long)
	}
}

// TestNegativeMemory is refused as such, whatever it is.
func TestNegativeMemory(t *testing.T) {
	for _, memory := range []int64{-1, -1 << 30} {
		o := options("D", "S", "P")
		o.EnsureDefaults()
		o.Memory = memory
		if err := o.Validate(); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "--memory: negative") {
			t.Errorf("%d bytes: %v", memory, err)
		}
	}
}

// TestSimulation: no cache hits nothing, one of all nodes hits always, and more rows
// have no fewer hits.
func TestSimulation(t *testing.T) {
	_, samples := inputs(t, graphOf)
	r, err := mbfile.Open(disk, samples)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	hot, err := r.Hotness()
	if err != nil {
		t.Fatal(err)
	}
	touched, accesses := int64(0), int64(0)
	for _, n := range hot {
		touched, accesses = touched+int64(min(n, 1)), accesses+int64(n)
	}
	scratch := t.TempDir()
	sim, err := cut.NewSimulator(t.Context(), disk, scratch, r, 3)
	if err != nil {
		t.Fatal(err)
	}
	rows := []int64{0, 1, touched / 4, touched / 2, touched}
	var all []cut.Stats
	for _, n := range rows {
		s, err := sim.Run(t.Context(), n, nil, nil)
		if err != nil {
			t.Fatalf("%d rows: %v", n, err)
		}
		all = append(all, s)
	}
	for i, s := range all {
		if s.Rows != rows[i] || s.Accesses != accesses || i > 0 && s.Hits < all[i-1].Hits || s.Admitted > s.Accesses-s.Hits {
			t.Errorf("%d rows: %+v", rows[i], s)
		}
	}
	if first, last := all[0], all[len(all)-1]; first.Hits != 0 || last.Hits != accesses || last.Admitted != 0 {
		t.Errorf("no rows: %+v, all: %+v", first, last)
	}
	// A simulator keeps nothing of one cache that changes the next.
	if s, err := sim.Run(t.Context(), rows[2], nil, nil); err != nil || !reflect.DeepEqual(s, all[2]) {
		t.Errorf("%d rows again: %+v, %v; before: %+v", rows[2], s, err, all[2])
	}
	if err := sim.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) != 0 {
		t.Errorf("left in the scratch directory: %v, %v", left, err)
	}
}

// TestShardsDescribeTheirPart: what shards say that they hold adds up to the whole, in
// which the SSD level is counted as often as it is read.
func TestShardsDescribeTheirPart(t *testing.T) {
	ds, samples := inputs(t, groupsOf)
	for _, maxDisk := range []budget.Size{{Unit: budget.UnitUnlimited}, {Value: 3_400_000}} {
		o := options(ds, samples, filepath.Join(t.TempDir(), "P"))
		o.MaxDisk = &maxDisk
		if _, err := pack.Run(t.Context(), disk, o, progress.Discard); err != nil {
			t.Fatal(err)
		}
		r, err := packfile.Open(disk, o.Out)
		if err != nil {
			t.Fatal(err)
		}
		whole := r.Describe()
		x := r.Index()
		for k, c := range whole.Caches {
			var inputs, cold, ssd int64
			for i := range x.Train {
				tr := &x.Train[i]
				inputs += int64(tr.Inputs)
				for b := range x.Edges[:len(x.Edges)-k] {
					cold, ssd = cold+int64(tr.Bands[b]), ssd+int64(countOf(tr.SSD, b))
				}
			}
			if c.ColdRows != cold || c.SSDRows != ssd || c.SSDBytes != ssd*int64(whole.RowBytes) || math.Abs(c.Hits-(1-float64(cold+ssd)/float64(inputs))) > 1e-12 {
				t.Errorf("%s: cache of %d rows: %+v; want %d cold rows and %d of the SSD level of %d", o.MaxDisk, c.Rows, c, cold, ssd, inputs)
			}
			if k == 0 && maxDisk.Value > 0 && ssd == 0 {
				t.Error("no rows are shared")
			}
		}
		const n = 3
		o.Out = filepath.Join(t.TempDir(), "P")
		batches, rows := 0, map[string]int64{}
		for _, dir := range packShards(t, o, n) {
			r, err := packfile.OpenShard(disk, dir)
			if err != nil {
				t.Fatal(err)
			}
			d := r.Describe()
			batches += d.Batches
			for _, l := range d.Levels {
				rows[l.Name] += l.Rows
			}
		}
		if batches != whole.Batches {
			t.Errorf("%s: %d batches in the shards, %d in the whole", o.MaxDisk, batches, whole.Batches)
		}
		for _, l := range whole.Levels {
			if rows[l.Name] != l.Rows {
				t.Errorf("%s: level %s: %d rows in the shards, %d in the whole", o.MaxDisk, l.Name, rows[l.Name], l.Rows)
			}
		}
	}
}

// countOf returns the b-th count, of which there are none without an SSD level.
func countOf(counts []int, b int) int {
	if b >= len(counts) {
		return 0
	}
	return counts[b]
}

// TestVerifyTellsWhy: a file that ends too early is damage, one that cannot be read is not.
func TestVerifyTellsWhy(t *testing.T) {
	ds, samples := inputs(t, graphOf)
	o := options(ds, samples, filepath.Join(t.TempDir(), "P"))
	if _, err := pack.Run(t.Context(), disk, o, progress.Discard); err != nil {
		t.Fatal(err)
	}
	r, err := packfile.Open(disk, o.Out)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{packfile.ColdFile(0), packfile.GraphFile(0), packfile.HotFile} {
		boom := errors.New("boom")
		in := &vfs.FailAt{Err: boom, Match: func(op vfs.Op, path string) bool { return op == vfs.OpRead && filepath.Base(path) == name }}
		if err := r.Verify(t.Context(), vfs.Inject(disk, in), progress.Discard); !errors.Is(err, boom) || errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "read "+r.Path(name)) {
			t.Errorf("%s cannot be read: %v", name, err)
		}
		st, err := os.Stat(r.Path(name))
		if err != nil {
			t.Fatal(err)
		}
		whole, err := os.ReadFile(r.Path(name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(r.Path(name), st.Size()-1); err != nil {
			t.Fatal(err)
		}
		if err := r.Verify(t.Context(), disk, progress.Discard); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "it was truncated") {
			t.Errorf("%s lacks a byte: %v", name, err)
		}
		if err := os.WriteFile(r.Path(name), whole, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Verify(t.Context(), disk, progress.Discard); err != nil {
		t.Error(err)
	}
}
