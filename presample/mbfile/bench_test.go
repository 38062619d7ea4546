package mbfile

import (
	"path/filepath"
	"testing"

	"diskgnn/graph"
	"diskgnn/internal/progress"
	"diskgnn/internal/rng"
	"diskgnn/internal/stage"
)

// largeBatch has the counts of a batch of 1024 seeds at fanout 10,15,20 on a
// graph of two million nodes.
func largeBatch() *graph.Batch {
	src := rng.New(1)
	counts := []struct{ src, dst, edges int }{{190_000, 100_000, 550_000}, {100_000, 12_000, 90_000}, {12_000, 1024, 13_000}}
	b := &graph.Batch{Labels: make([]int32, 1024)}
	for _, c := range counts {
		k := graph.Block{NumSrc: c.src, NumDst: c.dst, Indptr: make([]uint32, c.dst+1)}
		for i := range k.Indptr {
			k.Indptr[i] = uint32(i * c.edges / c.dst)
		}
		for range c.edges {
			k.Indices = append(k.Indices, src.Uint32n(uint32(c.src)))
		}
		b.Blocks = append(b.Blocks, k)
	}
	for range counts[0].src {
		b.Input, b.Degree = append(b.Input, src.Uint32n(1<<21)), append(b.Degree, src.Uint32n(1<<17))
	}
	return b
}

// BenchmarkRead reads a large batch, its file in the page cache.
//
//	go test -run '^$' -bench Read -cpu 1 ./presample/mbfile
func BenchmarkRead(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "S")
	all := []int{AllNeighbours, AllNeighbours, AllNeighbours}
	params := Params{BatchSize: 1 << 20, Fanout: all, EvalFanout: all, Epochs: 1}
	d, _, err := stage.Begin(disk, dir, stage.Spec{Format: Format, Params: params}, false)
	if err != nil {
		b.Fatal(err)
	}
	w, err := NewWriter(b.Context(), d, Layout{Nodes: 1 << 21, Layers: 3, Train: 1, BatchesPerFile: 1}, progress.Discard)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	var e Encoded
	e.Encode(largeBatch())
	if err := w.Append(&e); err != nil {
		b.Fatal(err)
	}
	files, facts, err := w.Finish(1)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := d.Commit(files, facts, nil); err != nil {
		b.Fatal(err)
	}
	r, err := Open(disk, dir)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	var buf []byte
	var into graph.Batch
	b.SetBytes(r.Info(0).Size)
	b.ReportAllocs()
	for b.Loop() {
		if buf, err = r.Read(b.Context(), 0, buf, &into); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncode encodes a large batch.
func BenchmarkEncode(b *testing.B) {
	batch := largeBatch()
	var e Encoded
	e.Encode(batch)
	b.SetBytes(int64(len(e.Bytes)))
	b.ReportAllocs()
	for b.Loop() {
		e.Encode(batch)
	}
}
