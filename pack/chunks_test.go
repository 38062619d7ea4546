package pack

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/pack/internal/rowfile"
	"diskgnn/pack/packfile"
)

// TestChunkIsGivenUp: a chunk that waits for a free block ends with its context, and one that goes on in its block ends
// with the error of an earlier write.
func TestChunkIsGivenUp(t *testing.T) {
	const rowBytes = 1 << 20 // a block each
	boom := errors.New("boom")
	fsys := vfs.Inject(unsynced, &vfs.FailAt{Err: boom, Match: func(op vfs.Op, name string) bool {
		return op == vfs.OpWrite && filepath.Base(name) == packfile.ColdFile(1)
	}})
	dir, _, err := stage.Begin(fsys, t.TempDir()+"/P", stage.Spec{Format: packfile.Format, Params: struct{}{}}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.End(nil) }()
	set := rowfile.NewSet(dir, 0)
	defer set.Close()
	var files [2]*rowfile.File
	for i := range files {
		if files[i], err = set.Create(packfile.ColdFile(i), 2*rowBytes); err != nil {
			t.Fatal(err)
		}
	}
	out, err := rowfile.NewWriters(1)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	blocks := make([]rowfile.Stream, rowfile.Memory(1)/rowBytes-1) // the last MiB is for edges
	hold := func(f *rowfile.File) {
		for i := range blocks {
			blocks[i] = out.Stream()
			if err := blocks[i].Seek(t.Context(), f, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	c := chunks{facts: &packfile.Facts{Nodes: 4, RowBytes: rowBytes, Segment: 1, Train: 1}, form: packfile.Form{RowBytes: rowBytes, Codec: packfile.CodecNone},
		index: &packfile.Index{Bands: 1, Train: []packfile.Train{{Bands: []int{2}, ChunkBytes: 2 * rowBytes, Sums: make([]uint32, 8)}}},
		lists: rowList{nodes: []uint32{1, 3}, start: []int64{0, 2}}, state: rangeState{Running: make([]uint32, 1)}, cold: files[:1]}
	rows := make([]byte, 4*rowBytes)

	hold(files[0])
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := chunkWriter{c: &c, out: out.Stream()}
	if err := w.batch(ctx, 0, 0, 4, rows); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	for i := range blocks {
		blocks[i].Flush()
	}
	if err := w.batch(t.Context(), 0, 0, 4, rows); err != nil {
		t.Errorf("with free blocks: %v", err)
	}
	w.out.Flush()

	hold(files[1])
	w.out = blocks[0]
	w.out.Flush()
	if err := errors.Join(w.out.Seek(t.Context(), files[0], 0), blocks[1].Write(t.Context(), rows[:1])); err != nil {
		t.Fatal(err)
	}
	for i := range blocks[1:] {
		blocks[1+i].Flush()
	}
	if err := out.Drain(); !errors.Is(err, boom) {
		t.Fatal(err)
	}
	if err := w.batch(t.Context(), 0, 0, 4, rows); !errors.Is(err, boom) {
		t.Errorf("after a failed write: %v", err)
	}
}
