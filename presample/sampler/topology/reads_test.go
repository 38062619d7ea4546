package topology_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/rng"
	"diskgnn/iostack"
	"diskgnn/iostack/faultio"
	"diskgnn/iostack/pread"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/topology"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const all = mbfile.AllNeighbours

// regular is a graph whose nodes have so many in-neighbours as degree says, no two equal. Its
// first nodes are trained on.
func regular(t testing.TB, nodes, train int, degree func(v int) int) *dataset.Dataset {
	t.Helper()
	raw := datasettest.Params{Nodes: nodes, Dim: 1}.Raw()
	raw.Indptr, raw.Indices = []int64{0}, nil
	for v := range nodes {
		d := degree(v)
		for i := range d {
			raw.Indices = append(raw.Indices, uint32((i*nodes+v%nodes)/max(d, 1)%nodes))
		}
		slices.Sort(raw.Indices[raw.Indptr[v]:])
		raw.Indptr = append(raw.Indptr, int64(len(raw.Indices)))
	}
	raw.Train, raw.Valid, raw.Test = nil, nil, nil
	for v := range train {
		raw.Labels[v] = 0
		raw.Train = append(raw.Train, uint32(v))
	}
	return datasettest.Create(t, t.TempDir(), raw)
}

// rig is samplers of a dataset: by a mapped topology, and by a cached one.
type rig struct {
	d          *dataset.Dataset
	seeds      *sampler.Seeds
	top        topology.Topology
	from       topology.Reader
	plain, by  *sampler.Sampler
	injections *faultio.Stack
}

func newRig(t testing.TB, d *dataset.Dataset, batch int, fanout []int, inject ...faultio.Injector) *rig {
	t.Helper()
	r := &rig{d: d}
	var err error
	if r.seeds, err = sampler.Load(t.Context(), d, mbfile.Params{BatchSize: batch, Fanout: fanout, EvalFanout: fanout, Epochs: 1, TrainRatio: 1, Order: sampler.Random}, progress.Discard); err != nil {
		t.Fatal(err)
	}
	mapped, err := d.Topology(t.Context(), progress.Discard, 1)
	if err != nil {
		t.Fatal(err)
	}
	r.plain = sampler.New(&mapped.CSC, fanout, sampler.Options{})
	r.top, err = topology.Open(t.Context(), d, topology.Options{Level: topology.Cached, Stack: func(_ string, o iostack.Options) (iostack.Stack, string, error) {
		inner, err := pread.New(o)
		if err != nil {
			return nil, "", err
		}
		r.injections = faultio.Wrap(inner, inject...)
		return r.injections, "pread", nil
	}}, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if r.from, err = r.top.NewReader(); err != nil {
		t.Fatal(err)
	}
	r.by = sampler.NewFrom(r.from, fanout, sampler.Options{})
	t.Cleanup(func() {
		r.from.Free()
		if err := errors.Join(r.top.Close(), mapped.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// draw draws a training batch by both.
func (r *rig) draw(ctx context.Context, index int) (want, got *graph.Batch, err error) {
	id := sampler.ID{Index: index}
	if want, err = r.plain.Draw(context.Background(), r.seeds, id); err != nil {
		return nil, nil, err
	}
	got, err = r.by.Draw(ctx, r.seeds, id)
	return want, got, err
}

// pagesOf is what a batch needs of the indices: for each hop, from the drawn edges of nodes
// that are not held. No node has parallel edges.
func pagesOf(g *dataset.Topology, b *graph.Batch, held map[uint32]bool) (hops [][]int64) {
	for l := len(b.Blocks) - 1; l >= 0; l-- {
		pages := map[int64]bool{}
		k := &b.Blocks[l]
		for i := range k.NumDst {
			v := b.Input[i]
			if held[v] {
				continue
			}
			for _, source := range k.Indices[k.Indptr[i]:k.Indptr[i+1]] {
				at, ok := slices.BinarySearch(g.Neighbors(v), b.Input[source])
				if !ok {
					panic("no such edge")
				}
				pages[(g.Indptr[v]+int64(at))*4/4096] = true
			}
		}
		var list []int64
		for p := range pages {
			list = append(list, p)
		}
		slices.Sort(list)
		hops = append(hops, list)
	}
	return hops
}

// TestReadsFollowFromTheDraws: of each hop, every page with a drawn edge is read once, next
// pages by one request, and no other page is, as long as they fit in one round.
func TestReadsFollowFromTheDraws(t *testing.T) {
	d := regular(t, 3000, 200, func(v int) int { return []int{0, 1, 40, 3, 300}[v%5] })
	size := d.IndicesBytes()
	g, err := d.Topology(t.Context(), progress.Discard, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for _, fanout := range [][]int{{2, 3}, {4, all}} {
		r := newRig(t, d, 9, fanout)
		for _, hold := range [][]uint32{nil, {4, 9, 2, 14}} {
			if n, _, err := r.top.Fill(t.Context(), topology.Nodes(hold), 64<<10, progress.Discard); err != nil || n != int64(len(hold)) {
				t.Fatal(n, err)
			}
			held := map[uint32]bool{}
			for _, v := range hold {
				held[v] = true
			}
			for i := range r.seeds.Batches(sampler.Train) {
				before := r.from.Reads()
				want, got, err := r.draw(t.Context(), i)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
					t.Fatal(d)
				}
				var bytes, requests, useful, hits, misses int64
				for _, pages := range pagesOf(g, want, held) {
					for j, p := range pages {
						bytes += min(4096, size-4096*p)
						if j == 0 || pages[j-1] != p-1 {
							requests++
						}
					}
					if len(pages) > 128 {
						t.Fatalf("%d pages: more than a round", len(pages))
					}
				}
				for l := range want.Blocks {
					k := &want.Blocks[l]
					for j := range k.NumDst {
						n := int64(k.Indptr[j+1] - k.Indptr[j])
						switch {
						case n == 0:
						case held[want.Input[j]]:
							hits++
						default:
							misses++
							useful += 4 * n
						}
					}
				}
				if reads, want := r.from.Reads().Sub(before), (sampler.Reads{Bytes: bytes, Requests: requests, Useful: useful, Held: hits, Missed: misses}); reads != want {
					t.Fatalf("fanout %v, batch %d, %d held: %+v, want %+v", fanout, i, len(hold), reads, want)
				}
			}
		}
	}
}

// TestManyRounds: a hop of more pages than two rounds hold, and in-neighbours longer than a
// round, whole and drawn from, in neighbouring pages and apart. A round's last page may be read
// twice.
func TestManyRounds(t *testing.T) {
	long := 300*1024 + 77
	d := regular(t, long, 2500, func(v int) int {
		switch {
		case v == 7:
			return long
		case v < 2500:
			return 700
		}
		return 1
	})
	for _, fanout := range [][]int{{all}, {3}, {5000}} {
		r := newRig(t, d, 2500, fanout)
		want, got, err := r.draw(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if k, l := &want.Blocks[0], &got.Blocks[0]; !slices.Equal(want.Input, got.Input) || !slices.Equal(k.Indptr, l.Indptr) || !slices.Equal(k.Indices, l.Indices) {
			t.Fatalf("%v: another batch", fanout)
		}
		whole := (int64(4*(2499*700+long)) + 4095) / 4096
		reads := r.from.Reads()
		if most := (whole + whole/128 + 2) * 4096; fanout[0] == all && (reads.Bytes < 4*(2499*700+int64(long)) || reads.Bytes > most || reads.Requests > 2*whole/128) {
			t.Errorf("%+v, at most %d bytes", reads, most)
		}
		if fanout[0] == 5000 && reads.Bytes > whole*4096*2 {
			t.Errorf("%+v", reads)
		}
	}
}

// TestEveryReadFails: whichever request fails, while neighbours are read to be held or for a
// batch, is the error, and the next attempt makes the batch.
func TestEveryReadFails(t *testing.T) {
	boom := errors.New("boom")
	d := regular(t, 600, 60, func(v int) int { return v % 90 })
	for i := 0; ; i++ {
		r := newRig(t, d, 20, []int{2, 5}, faultio.On(faultio.Nth(i, faultio.Always()), faultio.Fail(boom)))
		fill := func() error {
			_, _, err := r.top.Fill(t.Context(), topology.Degree, 30<<10, progress.Discard)
			return err
		}
		before := device.HostBytes()
		err := fill()
		if errors.Is(err, boom) {
			if r.top.HostBytes() != topology.StackBytes || device.HostBytes() != before {
				t.Fatal("something is held after an error")
			}
			err = fill()
		}
		for b := 0; err == nil && b < r.seeds.Batches(sampler.Train); b++ {
			want, got, wrong := r.draw(t.Context(), b)
			if errors.Is(wrong, boom) {
				want, got, wrong = r.draw(t.Context(), b)
			}
			if wrong != nil {
				t.Fatalf("request %d fails: %v", i, wrong)
			}
			if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
				t.Fatalf("request %d fails: %s", i, d)
			}
		}
		if err != nil {
			t.Fatalf("request %d fails: %v", i, err)
		}
		if r.injections.Injected() == 0 {
			if i < 8 {
				t.Fatalf("only %d requests", i)
			}
			return
		}
	}
}

// TestDamageIsNamed: a flipped bit, wherever it is in what is read, is an error of kind
// fault.ErrCorrupt that names the file and the page, and so is a file that ends early.
func TestDamageIsNamed(t *testing.T) {
	d := regular(t, 600, 600, func(v int) int { return v % 90 })
	for _, at := range []int64{0, 5000, d.IndicesBytes() - 1} {
		r := newRig(t, d, 600, []int{all, all}, faultio.On(faultio.Covers(at), faultio.Flip(0, 4)))
		_, _, err := r.draw(t.Context(), 0)
		if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "indices.bin: bytes ") || !strings.Contains(err.Error(), "make it again") {
			t.Errorf("byte %d: %v", at, err)
		}
		if _, _, err := r.top.Fill(t.Context(), topology.Degree, 1<<30, progress.Discard); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "read neighbours into memory") {
			t.Errorf("byte %d: %v", at, err)
		}
	}
	r := newRig(t, d, 60, []int{all, all})
	name := filepath.Join(d.Dir(), dataset.IndicesFile)
	if err := os.Truncate(name, 4096); err != nil {
		t.Fatal(err)
	}
	if _, err := r.by.Draw(t.Context(), r.seeds, sampler.ID{}); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "make it again") {
		t.Errorf("cut off: %v", err)
	}
	if _, err := topology.Open(t.Context(), d, topology.Options{Level: topology.Cached}, progress.Discard); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), fmt.Sprintf("has 4096 bytes instead of %d", d.IndicesBytes())) {
		t.Errorf("opened: %v", err)
	}
}

// TestCancelledInFlight: a batch whose reads hang is given up with its context, and the next one
// is drawn.
func TestCancelledInFlight(t *testing.T) {
	d := regular(t, 600, 60, func(v int) int { return v % 90 })
	r := newRig(t, d, 60, []int{all, all}, faultio.On(faultio.Nth(0, faultio.Always()), faultio.Hang()))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, _, err := r.draw(ctx, 0)
		done <- err
	}()
	for r.injections.Stats().Requests == 0 {
		if ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	want, got, err := r.draw(t.Context(), 0)
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || d != "" {
		t.Error(err, d)
	}
}

// TestOrdersByHand lists the hand-drawn graph: in-degrees 3, 2, 1, 4, 4, 1, 2, 0 of nodes 0 to 7
// and out-degrees by its edges.
func TestOrdersByHand(t *testing.T) {
	d := datasettest.Create(t, t.TempDir(), datasettest.Tiny(t))
	o, err := d.Offsets(t.Context(), progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	raw := datasettest.Tiny(t)
	out := make([]float64, 8)
	for _, u := range raw.Indices {
		out[u]++
	}
	ginex := []uint32{0, 1, 2, 3, 4, 5, 6, 7}
	slices.SortStableFunc(ginex, func(a, b uint32) int {
		score := func(v uint32) float64 { return (out[v] + 1e-8) / (float64(o.Degree(v)) + 1e-8) }
		return -cmpFloat(score(a), score(b))
	})
	for name, want := range map[string][]uint32{topology.ByDegree: {3, 4, 0, 1, 6, 2, 5, 7}, topology.ByGinex: ginex} {
		got, _, err := topology.OrderOf(name, nil, nil).List(t.Context(), d, o, progress.Discard)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v; %v", name, got, want, err)
		}
	}
	if ginex[0] != 7 {
		t.Errorf("node 7, which has no in-neighbours, is not the first: %v", ginex)
	}
	// One batch of seed 6 alone, fanout 2 then all: it draws 4 and 5 for sure. Used are 6 in both
	// hops, 4 and 5 in one: 6 has 2 in-neighbours and 2/3, 5 has 1 and (1-1/e)/2, 4 has 4 and
	// (1-1/e)/5.
	got, read, err := topology.Reach([]uint32{6}, 1, []int{all, 2}).List(t.Context(), d, o, progress.Discard)
	if want := []uint32{6, 5, 4, 0, 1, 2, 3, 7}; err != nil || !slices.Equal(got, want) || read != d.IndicesBytes() {
		t.Errorf("reach: %v, want %v; %d, %v", got, want, read, err)
	}
}

func cmpFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// TestFillStops: what is held is the list up to the first node that does not fit, though later
// ones would.
func TestFillStops(t *testing.T) {
	d := regular(t, 5000, 10, func(v int) int { return []int{10, 1500, 4000}[v%3] })
	r := newRig(t, d, 10, []int{2})
	// A bit a node and a count per 512: 632 + 40 bytes; 4 bytes for each held and one; pages.
	table := int64((5000+63)/64*8 + (5000+511)/512*4)
	for _, c := range []struct{ bytes, want int64 }{
		{0, 0}, {table + 4, 0}, {table + 8 + 4095, 0}, {table + 8 + 4096, 1}, {table + 12 + 2*4096, 2}, {table + 12 + 6*4096, 2}, {table + 16 + 6*4096, 3}, {table + 20 + 6*4096, 4}, {1 << 30, 4},
	} {
		n, _, err := r.top.Fill(t.Context(), topology.Nodes([]uint32{0, 1, 2, 2, 0, 3}), c.bytes, progress.Discard)
		if err != nil || n != c.want {
			t.Errorf("%d bytes beyond the table: %d nodes, want %d; %v", c.bytes-table, n, c.want, err)
		}
	}
}

// TestHeldAreFound: of any nodes that are held the in-neighbours are those of the graph.
func TestHeldAreFound(t *testing.T) {
	d := regular(t, 2000, 1500, func(v int) int { return v * 7 % 13 })
	r := newRig(t, d, 1500, []int{all})
	for n := range 12 {
		src := rng.New(uint64(n))
		list := make([]uint32, n*n*9)
		for i := range list {
			list[i] = src.Uint32n(2000)
		}
		if _, _, err := r.top.Fill(t.Context(), topology.Nodes(list), 1<<20, progress.Discard); err != nil {
			t.Fatal(err)
		}
		before := r.from.Reads()
		want, got, err := r.draw(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
		held := int64(0)
		for v := range uint32(1500) {
			if slices.Contains(list, v) && v*7%13 > 0 {
				held++
			}
		}
		if reads := r.from.Reads().Sub(before); reads.Held != held {
			t.Fatalf("%+v, want %d held", reads, held)
		}
	}
}
