package pack_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/pack"
	"diskgnn/pack/packfile"
	"diskgnn/presample"
	"diskgnn/presample/mbfile"
)

// wholeByHand computes from every batch's input nodes whether the rows beyond half of the table are at most
// a twentieth of a pack that holds them in chunks, and whether training uses any.
func wholeByHand(t *testing.T, samples string, rowBytes int64, cache float64) bool {
	t.Helper()
	r, err := mbfile.Open(disk, samples)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f := r.Facts()
	uses := make([]int, f.Nodes)
	graphs := int64(0)
	var buf []byte
	for i := range f.Batches() {
		graphs += binio.AlignUp(r.Info(i).Size, 4096)
		if i >= f.TrainBatches {
			continue
		}
		var nodes []uint32
		if nodes, buf, err = r.Inputs(t.Context(), i, buf); err != nil {
			t.Fatal(err)
		}
		for _, v := range nodes {
			uses[v]++
		}
	}
	slices.Sort(uses)
	slices.Reverse(uses)
	half, cold, touched := f.Nodes/2, 0, int64(0)
	for rank, n := range uses {
		if n > 0 {
			touched++
		}
		if int64(rank) >= int64(cache*float64(f.Nodes)) {
			cold += n
		}
	}
	return touched > half && 20*(f.Nodes-half)*rowBytes <= (half+int64(cold))*rowBytes+graphs
}

// TestWholeTable: default bands have an edge of all rows where a plain count of the samples says so, on both
// sides of the limit. Then the pack is not much larger than with the bands given. Elsewhere it has equal bytes.
func TestWholeTable(t *testing.T) {
	seen := map[bool]int{}
	for _, c := range []struct {
		nodes, dim, batch, epochs int
		cache                     float64
	}{{120, 9, 2, 3, 5}, {120, 300, 2, 3, 5}, {120, 300, 2, 3, 40}, {120, 300, 2, 8, 5}, {120, 300, 2, 8, 40}, {120, 300, 10, 3, 5}, {120, 300, 3, 4, 5}, {120, 300, 4, 5, 5}} {
		dir := vfstest.TempDir(t)
		ds, samples := filepath.Join(dir, "D"), filepath.Join(dir, "S")
		if err := dataset.Create(disk, ds, datasettest.Params{Nodes: c.nodes, AvgDegree: 4, Dim: c.dim, Seed: 5}.Raw()); err != nil {
			t.Fatal(err)
		}
		if _, err := presample.Run(t.Context(), disk, presample.Options{Dataset: ds, Out: samples, BatchSize: c.batch, Fanout: []int{3, 2}, Epochs: c.epochs, Workers: 2, Memory: 1 << 30}, progress.Discard); err != nil {
			t.Fatal(err)
		}
		made := func(name string, change func(*pack.Options)) (pack.Result, packfile.Params) {
			t.Helper()
			o := options(ds, samples, filepath.Join(dir, name))
			o.Cache = &budget.Size{Value: c.cache, Unit: budget.UnitPercent}
			change(&o)
			res, err := pack.Run(t.Context(), disk, o, progress.Discard)
			if err != nil {
				t.Fatal(err)
			}
			r, err := packfile.Open(disk, o.Out)
			if err != nil {
				t.Fatal(err)
			}
			return res, r.Params()
		}
		res, params := made("default", func(*pack.Options) {})
		given, wanted := made("given", func(o *pack.Options) { o.Bands = pack.DefaultBands() })
		want := wholeByHand(t, samples, int64(4*c.dim), c.cache/100)
		seen[want]++
		if has := params.Bands[0] == 100; has != want || !slices.Equal(wanted.Bands, []float64{50, 30, 20, 10, 5}) {
			t.Errorf("%+v: the bands are %v, given %v; by hand %t", c, params.Bands, wanted.Bands, want)
		}
		if !want {
			same(t, fmt.Sprint(c), contents(t, filepath.Join(dir, "default")), contents(t, filepath.Join(dir, "given")))
			continue
		}
		if float64(res.DiskBytes) > 1.06*float64(given.DiskBytes)+8192 || res.CacheRows[0] <= given.CacheRows[0] || res.CacheRows[0] != res.HotRows || !slices.Equal(res.CacheRows[1:], given.CacheRows) {
			t.Errorf("%+v: %d bytes and caches of %v, without all rows %d and %v", c, res.DiskBytes, res.CacheRows, given.DiskBytes, given.CacheRows)
		}
		if _, limited := made("limited", func(o *pack.Options) { o.MaxDisk = &budget.Size{Value: 1 << 40} }); limited.Bands[0] != 50 {
			t.Errorf("%+v: with --max-disk the bands are %v", c, limited.Bands)
		}
		if _, min := made("min", func(o *pack.Options) { o.Policy = packfile.PolicyMin }); len(min.Bands) != 0 {
			t.Errorf("%+v: under policy min the bands are %v", c, min.Bands)
		}
	}
	if seen[true] < 2 || seen[false] < 2 {
		t.Errorf("%d packs with an edge of all rows, %d without", seen[true], seen[false])
	}
}
