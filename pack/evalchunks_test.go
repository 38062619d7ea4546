package pack_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/pack"
	"diskgnn/pack/packfile"
	"diskgnn/presample/mbfile"
)

// evaluated is options with chunks of validation batches, and edges below which all ranks are hot.
func evaluated(ds, samples, out string) pack.Options {
	o := options(ds, samples, out)
	o.EvalChunks, o.Cache, o.Bands = true, &budget.Size{Value: 10, Unit: budget.UnitPercent}, []float64{40, 20}
	return o
}

// chunksByHand gathers, for each validation batch, the rows of eval-cold.bin: ids of nodes from the samples,
// ranked by hotness, and rows of the raw features.
func chunksByHand(t *testing.T, samples string, p datasettest.Params, f packfile.Facts, least int64) (chunks [][]byte) {
	t.Helper()
	r, err := mbfile.Open(disk, samples)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	hotness, err := r.Hotness()
	if err != nil {
		t.Fatal(err)
	}
	order := make([]uint32, f.Nodes)
	for v := range order {
		order[v] = uint32(v)
	}
	slices.SortStableFunc(order, func(a, b uint32) int { return int(hotness[b]) - int(hotness[a]) })
	rank := make([]int64, f.Nodes)
	for place, v := range order {
		rank[v] = int64(place)
	}
	features, row := p.Raw().Features, 4*p.Dim
	var buf []byte
	for i := range f.Valid {
		var nodes []uint32
		if nodes, buf, err = r.Inputs(t.Context(), f.Train+i, buf); err != nil {
			t.Fatal(err)
		}
		nodes = slices.DeleteFunc(slices.Clone(nodes), func(v uint32) bool { return rank[v] < least })
		slices.SortFunc(nodes, func(a, b uint32) int { // nodes that are not hot by node, then hot ones by descending rank
			hotA, hotB := rank[a] < f.HotRows, rank[b] < f.HotRows
			switch {
			case hotA && hotB:
				return int(rank[b] - rank[a])
			case hotA != hotB && hotA:
				return 1
			case hotA != hotB:
				return -1
			}
			return int(a) - int(b)
		})
		var chunk []byte
		for _, v := range nodes {
			chunk = append(chunk, features[int(v)*row:int(v+1)*row]...)
		}
		chunks = append(chunks, chunk)
	}
	return chunks
}

// TestEvalChunksByHand: eval-cold.bin has the rows of every validation batch, each batch from a page on, and
// zeros between; every other file of rows and graphs is as without chunks.
func TestEvalChunksByHand(t *testing.T) {
	ds, samples := inputs(t, graphOf)
	o := evaluated(ds, samples, filepath.Join(vfstest.TempDir(t), "P"))
	res, err := pack.Run(t.Context(), disk, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r, err := packfile.Open(disk, o.Out)
	if err != nil {
		t.Fatal(err)
	}
	f, edges := r.Facts(), r.Index().Edges
	least := edges[len(edges)-1]
	if f.Valid < 2 || least == 0 || least == f.HotRows || !r.Index().EvalChunks {
		t.Fatalf("%+v, always hot: %d, %v", f, least, r.Meta().Format)
	}
	rows := int64(0)
	got, want := contents(t, o.Out), []byte{}
	for i, chunk := range chunksByHand(t, samples, graphOf, f, least) {
		if e := r.Index().Valid[i]; e.Cold*f.RowBytes != len(chunk) || e.ChunkOffset != int64(len(want)) {
			t.Errorf("batch %d: %+v, by hand %d bytes at %d", i, e, len(chunk), len(want))
		}
		rows += int64(len(chunk) / f.RowBytes)
		want = append(want, chunk...)
		want = append(want, make([]byte, binio.AlignUp(int64(len(want)), binio.Page)-int64(len(want)))...)
	}
	if got[packfile.EvalColdFile] != string(want) {
		t.Error("other rows in the chunks")
	}
	if f.EvalColdRows != rows || res.EvalChunkBytes != rows*int64(f.RowBytes) {
		t.Errorf("%d rows, %d bytes; by hand %d rows", f.EvalColdRows, res.EvalChunkBytes, rows)
	}
	plain := o
	plain.EvalChunks, plain.Out = false, o.Out+"-plain"
	without, err := pack.Run(t.Context(), disk, plain, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	reference := contents(t, plain.Out)
	for name := range reference {
		if strings.HasSuffix(name, ".bin") && name != packfile.IndexFile && got[name] != reference[name] {
			t.Errorf("%s differs", name)
		}
	}
	if again := (f.EvalRows + f.HotRows - least) * int64(f.RowBytes); res.BytesRead != without.BytesRead+again || without.EvalChunkBytes != 0 {
		t.Errorf("%d bytes read, without chunks %d; by hand %d more", res.BytesRead, without.BytesRead, again)
	}
	for _, l := range r.Describe().Levels {
		if l.Name == "evaluation" && l.Bytes != int64(len(got[packfile.EvalFile])+len(got[packfile.EvalSums])+len(want)+len(got[packfile.EvalColdSums])) {
			t.Errorf("evaluation has %d bytes", l.Bytes)
		}
	}
}

// TestEvalChunksSameBytes: neither workers, nor memory, nor ranges, nor shards, nor an interruption show, also
// under policy min and with classes by bits.
func TestEvalChunksSameBytes(t *testing.T) {
	labelled := graphOf
	labelled.MultiLabel, labelled.Classes = true, 20
	for name, c := range map[string]struct {
		graph  datasettest.Params
		change func(*pack.Options)
	}{
		"static": {graphOf, func(*pack.Options) {}},
		"min":    {labelled, func(o *pack.Options) { o.Policy, o.Bands, o.DType = packfile.PolicyMin, nil, "int8" }},
	} {
		ds, samples := inputs(t, c.graph)
		o := evaluated(ds, samples, filepath.Join(vfstest.TempDir(t), "P"))
		c.change(&o)
		if _, err := pack.Run(t.Context(), disk, o, progress.Discard); err != nil {
			t.Fatal(err)
		}
		want := contents(t, o.Out)
		for _, rows := range []int64{1, 17} {
			again := o
			again.Out, again.Workers, again.Memory, again.RangeRows = o.Out+"-again", 7, 256<<20, rows
			if _, err := pack.Run(t.Context(), disk, again, progress.Discard); err != nil {
				t.Fatal(err)
			}
			same(t, name, contents(t, again.Out), want)
			remove(t, again.Out)
		}
		out := o.Out + "-merged"
		if _, err := merge(disk, t, out, packShards(t, o, 2)); err != nil {
			t.Fatal(err)
		}
		same(t, name+", merged", contents(t, out), want)
		r, err := packfile.Open(disk, out)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Verify(t.Context(), disk, progress.Discard); err != nil {
			t.Error(err)
		}
	}
}

// TestEvalChunksFailures fails operations on the chunks' files in turn: each is noticed, and the next run ends with
// the same bytes.
func TestEvalChunksFailures(t *testing.T) {
	small := graphOf
	small.Nodes = 40
	ds, samples := inputs(t, small)
	o := evaluated(ds, samples, filepath.Join(t.TempDir(), "ref"))
	o.RangeRows = 15
	if _, err := pack.Run(t.Context(), disk, o, progress.Discard); err != nil {
		t.Fatal(err)
	}
	failing(t, o, contents(t, o.Out), 1, func(n int) *vfs.FailAt {
		return &vfs.FailAt{N: n, Match: func(op vfs.Op, name string) bool {
			return op != vfs.OpClose && strings.HasPrefix(filepath.Base(name), "eval-cold.")
		}}
	})
}

// TestEvalChunksFit: a disk budget counts the chunks, and the plan foretells their bytes.
func TestEvalChunksFit(t *testing.T) {
	wide := graphOf
	wide.Dim = 1024
	ds, samples := inputs(t, wide)
	o := evaluated(ds, samples, filepath.Join(vfstest.TempDir(t), "P"))
	plan, err := pack.MakePlan(t.Context(), disk, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	plain := o
	plain.EvalChunks = false
	without, err := pack.MakePlan(t.Context(), disk, plain, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	res, err := pack.Run(t.Context(), disk, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	chunks := plan.Chosen.EvalChunkBytes
	if chunks == 0 || res.EvalChunkBytes != chunks || without.Chosen.EvalChunkBytes != 0 {
		t.Errorf("%d bytes of chunks are planned, %d packed", chunks, res.EvalChunkBytes)
	}
	if d := plan.Chosen.DiskBytes - res.DiskBytes; d < 0 {
		t.Errorf("%d bytes are planned, %d packed", plan.Chosen.DiskBytes, res.DiskBytes)
	}
	r, err := packfile.Open(disk, o.Out)
	if err != nil {
		t.Fatal(err)
	}
	f, edges := r.Facts(), r.Index().Edges
	// Each chunk begins on a page, each page has a checksum, and the index 12 bytes for each batch. Two files.
	size := chunks + int64(f.Valid)*4095
	files := size + 32 + size/4096*4 + 12*int64(f.Valid+f.Test) + 2*256
	if d := plan.Chosen.DiskBytes - without.Chosen.DiskBytes; d != files {
		t.Errorf("chunks of %d bytes take %d bytes of disk, by hand %d", chunks, d, files)
	}
	if again := (f.EvalRows + f.HotRows - edges[len(edges)-1]) * int64(f.RowBytes); plan.Chosen.BytesRead != without.Chosen.BytesRead+again {
		t.Errorf("%d bytes read are planned, without chunks %d", plan.Chosen.BytesRead, without.Chosen.BytesRead)
	}
	o.Out, plain.Out = o.Out+"-budget", o.Out+"-budget"
	if d := least(t, o) - least(t, plain); d != float64(files) {
		t.Errorf("the least disk budget grows by %.0f bytes", d)
	}
	o.MaxDisk = &budget.Size{Value: least(t, o)}
	if res, err = pack.Run(t.Context(), disk, o, progress.Discard); err != nil || float64(res.DiskBytes) > o.MaxDisk.Value || res.EvalChunkBytes != chunks {
		t.Errorf("under a disk budget: %d bytes of %.0f, %v", res.DiskBytes, o.MaxDisk.Value, err)
	}
}
