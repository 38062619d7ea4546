package extsort

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"diskgnn/internal/fault"
	"diskgnn/internal/rng"
	"diskgnn/internal/vfs"
)

type edge struct{ dst, src uint32 }

// run sorts edges and returns degrees and sources.
func run(ctx context.Context, fsys vfs.FS, name string, o EdgeOptions, edges []edge) (degrees, sources []uint32, err error) {
	s, err := NewEdges(fsys, name, o)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for _, e := range edges {
		if err := s.Add(e.dst, e.src); err != nil {
			return nil, nil, err
		}
	}
	err = s.Rows(ctx, func(d, s []uint32) error {
		degrees, sources = append(degrees, d...), append(sources, s...)
		return nil
	})
	return degrees, sources, err
}

// naive is the same in three lines.
func naive(o EdgeOptions, edges []edge) (degrees, sources []uint32) {
	edges = slices.Clone(edges)
	slices.SortFunc(edges, func(a, b edge) int { return int(int64(a.dst)<<32 + int64(a.src) - int64(b.dst)<<32 - int64(b.src)) })
	if o.Unique {
		edges = slices.Compact(edges)
	}
	degrees = make([]uint32, o.Nodes)
	for _, e := range edges {
		degrees[e.dst]++
		sources = append(sources, e.src)
	}
	return degrees, sources
}

func random(seed uint64, nodes int64, n int) []edge {
	src := rng.New(seed)
	edges := make([]edge, n)
	for i := range edges { // low ids are hubs
		edges[i] = edge{uint32(src.Float64() * src.Float64() * float64(nodes)), uint32(src.Uint64n(uint64(nodes)))}
	}
	return edges
}

func TestAgainstNaive(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 3000).Draw(rt, "edges")
		o := EdgeOptions{
			Nodes: rapid.Int64Range(1, 300).Draw(rt, "nodes"), Memory: LeastEdges + rapid.Int64Range(0, 64<<20).Draw(rt, "memory"),
			Edges: int64(n) * rapid.Int64Range(0, 1000).Draw(rt, "guess"), Workers: rapid.IntRange(1, 5).Draw(rt, "workers"),
			Unique: rapid.Bool().Draw(rt, "unique"),
		}
		edges := random(rapid.Uint64().Draw(rt, "seed"), o.Nodes, n)
		degrees, sources, err := run(t.Context(), vfs.OS, filepath.Join(dir, "scratch"), o, edges)
		if err != nil {
			rt.Fatal(err)
		}
		wantDegrees, wantSources := naive(o, edges)
		if d := cmp.Diff(wantDegrees, degrees); d != "" {
			rt.Error(d)
		}
		if d := cmp.Diff(wantSources, sources, cmpopts.EquateEmpty()); d != "" {
			rt.Error(d)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			rt.Error("the scratch file was left")
		}
	})
}

// TestManyUnits sorts a million edges in so little memory that buckets are many
// and the hubs' ones are read in parts.
func TestManyUnits(t *testing.T) {
	o := EdgeOptions{Nodes: 100_000, Edges: 10_000, Memory: LeastEdges, Workers: 2, Unique: true}
	edges := random(1, o.Nodes, 1_000_000)
	s := &Edges{o: o}
	if n := s.wantBuckets(); n > 4 {
		t.Fatalf("%d buckets: the guess of the edges is too good to test anything", n)
	}
	degrees, sources, err := run(t.Context(), vfs.OS, filepath.Join(t.TempDir(), "scratch"), o, edges)
	if err != nil {
		t.Fatal(err)
	}
	wantDegrees, wantSources := naive(o, edges)
	if !slices.Equal(degrees, wantDegrees) || !slices.Equal(sources, wantSources) {
		t.Error("the order is wrong")
	}
}

func TestTooLittleMemory(t *testing.T) {
	if _, err := NewEdges(vfs.OS, filepath.Join(t.TempDir(), "x"), EdgeOptions{Nodes: 5, Memory: LeastEdges - 1, Workers: 1}); !errors.Is(err, fault.ErrBudget) {
		t.Errorf("below the least: %v", err)
	}
	star := make([]edge, 2_000_000) // all into one node: 8 MB of sources
	_, _, err := run(t.Context(), vfs.OS, filepath.Join(t.TempDir(), "x"), EdgeOptions{Nodes: 5, Memory: LeastEdges, Workers: 1}, star)
	if !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "nodes 0 to 0") {
		t.Errorf("a hub that does not fit: %v", err)
	}
}

// TestMemoryIsEnough sorts a star whose hub takes all memory that there is, to the byte, and
// refuses one of an edge more.
func TestEdgeMemoryIsEnough(t *testing.T) {
	const (
		nodes = 4
		cell  = 8*nodes + nodeBytes // all counters, the degree and the offset of the hub
		block = 16
		// What is left of the memory: a block that is read, and the blocks' list and sources.
		sources = (LeastEdges - cell - blockBytes) / 4
	)
	most := 0
	for ; 4*most+block*((most+blockEdges-1)/blockEdges) <= 4*sources; most += blockEdges {
	}
	for most -= blockEdges; 4*(most+1)+block*(most/blockEdges+1) <= 4*sources; most++ {
	}
	for _, n := range []int{most, most + 1} {
		s, err := NewEdges(vfs.OS, filepath.Join(t.TempDir(), "x"), EdgeOptions{Nodes: nodes, Memory: LeastEdges, Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.AddAll(make([]uint32, 2*n), false); err != nil {
			t.Fatal(err)
		}
		got := 0
		err = s.Rows(t.Context(), func(_, sources []uint32) error {
			for i := range s.buckets {
				if s.buckets[i].buf != nil {
					t.Error("a buffer is held while edges are sorted")
				}
			}
			got += len(sources)
			return nil
		})
		if n == most && (err != nil || got != n) || n > most && !errors.Is(err, fault.ErrBudget) {
			t.Errorf("%d edges, of which %d fit: %v, %d came", n, most, err, got)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("closed again: %v", err)
		}
	}
}

// TestBuckets has buckets such that two of them fill a worker's part of the memory, or 32 MiB,
// and one more.
func TestEdgeBuckets(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		o    EdgeOptions
		want int64
	}{
		{EdgeOptions{Nodes: 1000, Edges: 0, Memory: LeastEdges, Workers: 1}, 2},
		{EdgeOptions{Nodes: 1000, Edges: 64 * blockEdges, Memory: 1 << 30, Workers: 8}, 2},    // 2 MiB, not worth more
		{EdgeOptions{Nodes: 1000, Edges: 64*blockEdges + 1, Memory: 1 << 30, Workers: 8}, 16}, // two for every worker
		{EdgeOptions{Nodes: 3, Edges: 64*blockEdges + 1, Memory: 1 << 30, Workers: 8}, 3},     // a node each
		{EdgeOptions{Nodes: mib, Edges: 5 * mib, Memory: 1 << 30, Workers: 1}, 3},             // 12 and 20 MiB are 32
		{EdgeOptions{Nodes: mib, Edges: 5*mib + 1, Memory: 1 << 30, Workers: 1}, 4},           // and a bit
		{EdgeOptions{Nodes: 3, Edges: 262_136, Memory: LeastEdges + 12, Workers: 1}, 3},       // 1 MiB and 4 bytes, half of a part and 1
		{EdgeOptions{Nodes: 3, Edges: 262_135, Memory: LeastEdges + 12, Workers: 1}, 2},
		{EdgeOptions{Nodes: mib, Edges: 5 * mib, Memory: 16 * mib, Workers: 1}, 9},               // of 8 MiB a worker
		{EdgeOptions{Nodes: 20 * mib, Edges: 300 * mib, Memory: 8 * mib, Workers: 1}, 64},        // as many buffers as half of the memory holds
		{EdgeOptions{Nodes: 1 << 32, Edges: 1 << 40, Memory: 1 << 40, Workers: 1}, 4096},         // the most
		{EdgeOptions{Nodes: 1000, Edges: 64*blockEdges + 1, Memory: 1 << 30, Workers: 499}, 998}, // a worker's part is as large as all edges
	} {
		if got := (&Edges{o: c.o}).wantBuckets(); got != c.want {
			t.Errorf("%+v: %d buckets, want %d", c.o, got, c.want)
		}
	}
}

// TestBytes compares the scratch file with what Bytes says.
func TestEdgeBytes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x")
	s, err := NewEdges(vfs.OS, name, EdgeOptions{Nodes: 8, Memory: LeastEdges, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.AddAll([]uint32{0, 1, 2, 3, 7, 7}, true); err != nil {
		t.Fatal(err)
	}
	if err := s.Rows(t.Context(), func(_, _ []uint32) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(name); err != nil || s.Added() != 6 || st.Size() != 48 || EdgeBytes(6) != 48 {
		t.Errorf("%v: %d edges, in %d bytes by Bytes", err, s.Added(), EdgeBytes(6))
	}
}

// TestUnits has one for every bucket where all fits.
func TestUnits(t *testing.T) {
	s, err := NewEdges(vfs.OS, filepath.Join(t.TempDir(), "x"), EdgeOptions{Nodes: 8, Memory: LeastEdges, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.AddAll([]uint32{0, 1, 2, 3, 2, 5, 3, 3, 7, 0}, false); err != nil {
		t.Fatal(err)
	}
	for i := range s.buckets {
		if err := s.flush(&s.buckets[i]); err != nil {
			t.Fatal(err)
		}
	}
	units, slots, err := s.plan()
	if want := []edgeUnit{{0, 0, 4, 4}, {1, 4, 8, 1}}; err != nil || slots != 2 || !slices.Equal(units, want) {
		t.Errorf("%+v, %d slots, %v; want %+v", units, slots, err, want)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestCells has 65536 of them at most, of as many nodes as a power of two.
func TestCells(t *testing.T) {
	for _, c := range []struct{ nodes, each, cells int64 }{{1, 1, 1}, {65536, 1, 65536}, {65537, 2, 32769}, {131072, 2, 65536}, {131073, 4, 32769}} {
		s, err := NewEdges(vfs.OS, filepath.Join(t.TempDir(), "x"), EdgeOptions{Nodes: c.nodes, Memory: LeastEdges, Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		if s.cellNodes != c.each || int64(len(s.cells)) != c.cells {
			t.Errorf("%d nodes: %d cells of %d, want %d of %d", c.nodes, len(s.cells), s.cellNodes, c.cells, c.each)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestPlan cuts one bucket of four nodes where the units that fit are full to the byte, and a
// byte or an edge more.
func TestPlan(t *testing.T) {
	const (
		mib  = 1 << 20
		held = 4 * 8 // counters
		// A node whose unit takes a MiB, and one of 32 MiB.
		one  = (mib - nodeBytes) / 4
		many = (32*mib - nodeBytes) / 4
	)
	for _, c := range []struct {
		memory  int64
		workers int
		cells   []int64
		units   []int64 // where they end
		slots   int
	}{
		{held + 2*(2*mib+blockBytes), 1, []int64{one, one, one, one}, []int64{2, 4}, 2},
		{held + 2*(2*mib+blockBytes) - 1, 1, []int64{one, one, one, one}, []int64{1, 2, 3, 4}, 2},
		{held + 2*(2*mib+blockBytes), 1, []int64{one, one + 1, one, one}, []int64{1, 2, 4}, 2},
		{1 << 40, 7, []int64{many, many, many, many + 1}, []int64{2, 3, 4}, 8}, // 64 MiB at most
		{held + 2*(32*mib+blockBytes), 3, []int64{one, one, many, one}, []int64{2, 3, 4}, 2},
		{held + 2*(32*mib+blockBytes) - 1, 3, []int64{one, one, many, one}, []int64{2, 3, 4}, 1},
		{held + 32*mib + blockBytes, 3, []int64{many, one, one, one}, []int64{1, 4}, 1},
	} {
		s := &Edges{o: EdgeOptions{Nodes: 4, Memory: c.memory, Workers: c.workers}, cellNodes: 1, bucketCells: 4, cells: c.cells, buckets: make([]edgeBucket, 1)}
		units, slots, err := s.plan()
		var ends []int64
		for _, u := range units {
			ends = append(ends, u.hi)
		}
		if err != nil || !slices.Equal(ends, c.units) || slots != c.slots {
			t.Errorf("%+v: units end at %v, %d slots, %v", c, ends, slots, err)
		}
	}
	// The second cell would have two nodes, if there were a fourth.
	for memory, allowed := range map[int64]string{2*mib + 2*8: "2.0 MiB", 8: "0 B"} {
		s := &Edges{o: EdgeOptions{Nodes: 3, Memory: memory, Workers: 1}, cellNodes: 2, bucketCells: 2, cells: []int64{0, (3*mib - blockBytes - nodeBytes) / 4}, buckets: make([]edgeBucket, 1)}
		cell := "sorting the 770045 edges into nodes 2 to 2 needs 3.0 MiB"
		if memory < mib {
			cell = "sorting the 0 edges into nodes 0 to 1 needs 64.0 KiB"
		}
		if units, slots, err := s.plan(); !errors.Is(err, fault.ErrBudget) || err.Error() != cell+" of memory, but only "+allowed+" are allowed" || units != nil || slots != 0 {
			t.Errorf("%d bytes of memory: %v, %d slots, %v", memory, units, slots, err)
		}
	}
}

func TestEdgeScratchIsChecked(t *testing.T) {
	name := filepath.Join(t.TempDir(), "scratch")
	for _, harm := range []func() error{
		func() error {
			b, err := os.ReadFile(name)
			if err == nil {
				b[12345] ^= 1
				err = os.WriteFile(name, b, 0o666)
			}
			return err
		},
		func() error { return os.Truncate(name, 100) },
	} {
		s, err := NewEdges(vfs.OS, name, EdgeOptions{Nodes: 1000, Memory: 8 << 20, Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range random(3, 1000, 3*blockEdges) {
			if err := s.Add(e.dst, e.src); err != nil {
				t.Fatal(err)
			}
		}
		if err := harm(); err != nil {
			t.Fatal(err)
		}
		err = s.Rows(t.Context(), func(_, _ []uint32) error { return nil })
		if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name) {
			t.Errorf("%v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestAddFails returns the error of writing the block that an edge fills, or its reverse.
func TestAddFails(t *testing.T) {
	boom := errors.New("boom")
	for _, before := range []int{0, 1} { // an edge; by its reverse, or by itself the last pair fills a block
		fail := &vfs.FailAt{Err: boom, Match: func(op vfs.Op, _ string) bool { return op == vfs.OpWrite }}
		s, err := NewEdges(vfs.Inject(vfs.OS, fail), filepath.Join(t.TempDir(), "x"), EdgeOptions{Nodes: 1, Memory: LeastEdges, Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.AddAll(make([]uint32, 2*before), false), s.AddAll(make([]uint32, blockEdges-2), true)); err != nil || s.Added() != int64(blockEdges-2+before) {
			t.Errorf("%d edges: %v", s.Added(), err)
		}
		err = s.AddAll([]uint32{0, 0}, true)
		if !errors.Is(err, boom) {
			t.Errorf("%d edges: %v", s.Added(), err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCut says which bytes are missing of a block of one edge.
func TestCut(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x")
	s, err := NewEdges(vfs.OS, name, EdgeOptions{Nodes: 1, Memory: LeastEdges, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := errors.Join(s.Add(0, 0), s.flush(&s.buckets[0]), os.Truncate(name, 4)); err != nil {
		t.Fatal(err)
	}
	err = s.Rows(t.Context(), func(_, _ []uint32) error { return nil })
	if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "x: bytes 0 to 8: the file shrank") {
		t.Errorf("%v", err)
	}
}

// TestCancelled stops after the first of two blocks of a unit.
func TestCancelled(t *testing.T) {
	s, err := NewEdges(vfs.OS, filepath.Join(t.TempDir(), "x"), EdgeOptions{Nodes: 1, Memory: LeastEdges, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.AddAll(make([]uint32, 2*2*blockEdges), false); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read := 0
	err = s.each(ctx, &edgeSlot{block: make([]uint32, 2*blockEdges)}, edgeUnit{hi: 1, edges: 2 * blockEdges}, func([]uint32) { read++; cancel() })
	if !errors.Is(err, context.Canceled) || read != 1 {
		t.Errorf("%d blocks were read: %v", read, err)
	}
}

func TestFailuresAndCancel(t *testing.T) {
	edges := random(9, 500, 3*blockEdges)
	o := EdgeOptions{Nodes: 500, Memory: 8 << 20, Workers: 2}
	boom := errors.New("boom")
	every := func(op vfs.Op, _ string) bool { return true }
	for n := 0; ; n++ {
		in := &vfs.FailAt{N: n, Err: boom, Match: every}
		_, _, err := run(t.Context(), vfs.Inject(vfs.OS, in), filepath.Join(t.TempDir(), "x"), o, edges)
		if !in.Fired() {
			break
		}
		if !errors.Is(err, boom) {
			t.Errorf("%v: %v", in, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := run(ctx, vfs.OS, filepath.Join(t.TempDir(), "x"), o, edges); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func BenchmarkSort(b *testing.B) {
	const n = 2_000_000
	edges := random(5, 100_000, n)
	o := EdgeOptions{Nodes: 100_000, Edges: n, Memory: 256 << 20, Workers: 2, Unique: true}
	b.ResetTimer()
	for range b.N {
		if _, _, err := run(b.Context(), vfs.OS, filepath.Join(b.TempDir(), "x"), o, edges); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/edge")
}
