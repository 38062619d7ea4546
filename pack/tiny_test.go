package pack_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/pack"
	"diskgnn/pack/packfile"
	"diskgnn/presample"
)

// TestTinyByValue packs the hand-drawn graph: one layer, all neighbours, one seed
// node a batch. The batches of the seeds 0, 1 and 4 need the nodes 0 1 2 7, 0 1 3
// and 3 4 5 6 7, so that
//
//	node      0  1  2  3  4  5  6  7
//	hotness   2  2  1  2  1  1  1  2
//	rank      0  1  4  2  5  6  7  3
//
// and with a cache of 2 rows and edges at 6 and 4 of 8 ranks
//
//	band 0: 5 6   band 1: 2 4   band 2: 3 7   hot: 0 1
func TestTinyByValue(t *testing.T) {
	raw := datasettest.Tiny(t)
	dir := t.TempDir()
	ds, samples, out := filepath.Join(dir, "D"), filepath.Join(dir, "S"), filepath.Join(dir, "P")
	if err := dataset.Create(disk, ds, raw); err != nil {
		t.Fatal(err)
	}
	if _, err := presample.Run(t.Context(), disk, presample.Options{Dataset: ds, Out: samples, BatchSize: 1, Fanout: []int{9}, Memory: 1 << 30}, progress.Discard); err != nil {
		t.Fatal(err)
	}
	o := options(ds, samples, out)
	o.Cache, o.Bands = &budget.Size{Value: 25, Unit: budget.UnitPercent}, []float64{50, 75}
	res, err := pack.Run(t.Context(), disk, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if res.HotRows != 6 || res.ColdRows != 8 || res.EvalRows != 2 || !slices.Equal(res.CacheRows, []int64{6, 4, 2}) {
		t.Errorf("rows: %+v", res)
	}
	rows := func(nodes ...int) string {
		var b []byte
		for _, v := range nodes {
			b = append(b, raw.Features[v*12:(v+1)*12]...)
		}
		return string(b)
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if read(packfile.HotFile) != rows(0, 1, 3, 7, 2, 4) {
		t.Error("hot.bin does not hold the nodes 0 1 3 7 2 4")
	}
	if read(packfile.EvalFile) != rows(5, 6) {
		t.Error("eval.bin does not hold the nodes 5 6")
	}
	r, err := packfile.Open(vfs.OS, out)
	if err != nil {
		t.Fatal(err)
	}
	type batch struct {
		Input, Indices, Dst, Degree []uint32
		Bands                       []int
		Chunk                       []int
		Label                       int32
	}
	// By their first input rank, since chance orders the seeds.
	want := map[uint32]batch{
		4: {Input: []uint32{4, 3, 1, 0}, Indices: []uint32{2, 0, 1}, Dst: []uint32{3}, Degree: []uint32{1, 0, 2, 3}, Bands: []int{0, 1, 1}, Chunk: []int{2, 7}, Label: 0},                   // seed 0
		2: {Input: []uint32{2, 1, 0}, Indices: []uint32{2, 0}, Dst: []uint32{1}, Degree: []uint32{4, 2, 3}, Bands: []int{0, 0, 1}, Chunk: []int{3}, Label: 0},                               // seed 1
		6: {Input: []uint32{6, 7, 5, 2, 3}, Indices: []uint32{3, 0, 1, 4}, Dst: []uint32{2}, Degree: []uint32{1, 2, 4, 4, 0}, Bands: []int{2, 1, 2}, Chunk: []int{5, 6, 4, 3, 7}, Label: 1}, // seed 4
	}
	cold, graphs := read(packfile.ColdFile(0)), read(packfile.GraphFile(0))
	for i := range r.Facts().Train {
		e := &r.Index().Train[i]
		var b graph.Batch
		if err := r.DecodeTrainGraph(i, packfile.Everything, []byte(graphs[e.GraphOffset:][:e.GraphBytes()]), &b, new(packfile.Plan)); err != nil {
			t.Fatal(err)
		}
		w := want[b.Input[0]]
		got := batch{b.Input, b.Blocks[0].Indices, b.Blocks[0].Dst, b.Degree, e.Bands, w.Chunk, b.Labels[0]}
		if fmt.Sprint(got) != fmt.Sprint(w) {
			t.Errorf("batch %d: %+v, want %+v", i, got, w)
		}
		if e.ChunkOffset%binio.Page != 0 || cold[e.ChunkOffset:][:12*len(w.Chunk)] != rows(w.Chunk...) {
			t.Errorf("batch %d: its chunk does not hold the nodes %v", i, w.Chunk)
		}
		delete(want, b.Input[0])
	}
	if len(want) > 0 {
		t.Errorf("no batch begins with the ranks of %v", want)
	}
	checkTinyEval(t, r, read(packfile.EvalGraphFile))
}

// checkTinyEval: validation seeds 2 ← 0 and 5 ← 4, test seeds 3 ← 0 1 2 4 and
// 6 ← 4 5; an input node is its rank, or 6 + its place in eval.bin.
func checkTinyEval(t *testing.T, r *packfile.Reader, graphs string) {
	t.Helper()
	for i, want := range []string{
		"[4 0] [1] [0] 0 rows",             // 2 and 0
		"[6 5] [1] [0] 1 rows",             // 5 in eval.bin, 4
		"[5 4 2 1 0] [4 3 1 0] [2] 0 rows", // 4 2 3 1 0; 3 ← 0 1 2 4
		"[6 7 5] [2 0] [1] 2 rows",         // 5 6 4; 6 ← 4 5
	} {
		list, k := r.Index().Valid, i
		if i >= 2 {
			list, k = r.Index().Test, i-2
		}
		e := &list[k]
		var b graph.Batch
		if err := r.DecodeEvalGraph(e, packfile.Everything, []byte(graphs[e.GraphOffset:][:e.GraphBytes()]), &b); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(b.Input, b.Blocks[0].Indices, b.Blocks[0].Dst, e.Rows, " rows"); got != want {
			t.Errorf("evaluation batch %d: %s, want %s", i, got, want)
		}
	}
}
