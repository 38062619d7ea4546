package exact

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/shard"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/iostack/all"
	"diskgnn/train/decide"
	"diskgnn/train/model"
)

// linked replaces the edges of a graph: node v has those from from[v], ascending, and nodes beyond have none.
func linked(raw dataset.Raw, from ...[]uint32) dataset.Raw {
	raw.Indices = nil
	for v := range raw.Labels {
		if v < len(from) {
			raw.Indices = append(raw.Indices, from[v]...)
		}
		raw.Indptr[v+1] = int64(len(raw.Indices))
	}
	return raw
}

// Graphs with next to nothing in them, and models with next to nothing in their rows, follow the formulas on a GPU.
func TestOddGraphsOnGPU(t *testing.T) {
	d := cudatest.Open(t)
	of := func(nodes, dim, classes int) dataset.Raw {
		return datasettest.Params{Nodes: nodes, Dim: dim, Classes: classes, Seed: 3}.Raw()
	}
	for graph, raw := range map[string]dataset.Raw{
		"one node":                  linked(of(1, 3, 2)),
		"one node with loops":       linked(of(1, 3, 2), []uint32{0, 0}),
		"no edges":                  linked(of(9, 3, 2)),
		"one column, one class":     linked(of(9, 1, 1), []uint32{1, 8}, nil, []uint32{2}, []uint32{0, 0, 1, 2, 3, 4, 5, 6, 7, 8}),
		"all edges to the last one": linked(of(6, 2, 3), nil, nil, nil, nil, nil, []uint32{0, 1, 2, 3, 4, 5}),
	} {
		for name, m := range map[string]model.Model{
			"gcn":  {Kind: model.GCN},
			"mean": {Kind: model.SAGE, Orders: orders(model.Aggregate, 2)},
			"max":  {Kind: model.SAGE, Aggregator: model.Max, InputProjection: 1},
			"gat":  {Kind: model.GAT, Heads: 2, Residual: true},
		} {
			m.Dims = []int{raw.Dim, 2, raw.Classes}
			w := newWorldOf(t, vfstest.TempDir(t), raw, m)
			layers, _ := w.oracle(t)
			host, gpu := w.roomOnGPU(t, d)
			for _, rooms := range [][2]int64{{}, {host, gpu}} {
				got, _ := w.predictOnGPU(t, d, PredictOptions{}, rooms[0], rooms[1])
				near(t, graph+", "+name, got, layers[1], tolerance)
			}
		}
	}
}

// A prediction that goes on on a GPU with other memory has tiles that begin elsewhere: it gives the same bits, wherever
// the long lists are.
func TestGPUGoesOnInOtherTiles(t *testing.T) {
	groups(t, 2)
	raw := datasettest.Params{Nodes: 80, Dim: 5, Classes: 3, Seed: 3}.Raw()
	from := make([][]uint32, 80)
	for v := range from {
		if v%14 < 2 || v%22 < 3 {
			from[v] = everyNode(&raw)
		}
	}
	w := newWorldOf(t, vfstest.TempDir(t), linked(raw, from...),
		model.Model{Kind: model.SAGE, Dims: []int{5, 6, 3}})
	d := cudatest.Open(t)
	host, gpu := w.roomOnGPU(t, d)
	want, _ := w.predictOnGPU(t, d, PredictOptions{}, 0, 0)
	tiles := map[int]bool{}
	for _, more := range []int64{0, 2, 4} {
		o := PredictOptions{Options: w.options(), Out: w.path("out.npy"), Force: true}
		o.Engine = decide.EngineGPU
		interruptedWith(t, o, parts{stack: all.Open, room: host, gpu: d, gpuRoom: gpu}, 1)
		got, p := w.predictOnGPU(t, d, PredictOptions{}, host, gpu+512*more)
		if !slices.Equal(binio.Bytes(got), binio.Bytes(want)) {
			t.Errorf("with %d bytes more: other bits", 512*more)
		}
		tiles[p.Layers[0].Ranges] = true
	}
	if len(tiles) < 3 {
		t.Errorf("numbers of tiles: %v", tiles)
	}
}

// Shares of a prediction on a GPU give the bytes of the whole one, also with little memory.
func TestSharesOnGPU(t *testing.T) {
	d := cudatest.Open(t)
	raw := datasettest.Params{Nodes: 45, AvgDegree: 4, Dim: 5, Classes: 3, Seed: 3}.Raw()
	multigraph(&raw, 3, 90, 1)
	w := newWorldOf(t, vfstest.TempDir(t), raw, model.Model{Kind: model.GAT, Dims: []int{5, 4, 3}, Heads: 2, Residual: true})
	host, gpu := w.roomOnGPU(t, d)
	with := parts{stack: all.Open, gpu: d, room: host + 2000, gpuRoom: gpu + 2000}
	o := PredictOptions{Options: w.options(), Out: w.path("out.npy")}
	o.Engine = decide.EngineGPU
	_, err := predict(t.Context(), disk, o, progress.Discard, with)
	check(t, err)
	want := contents(t, w.dir, "out")
	for name := range want {
		check(t, os.Remove(w.path(name)))
	}
	var dirs []string
	for i := range 3 {
		o.Shard = shard.Shard{Index: i, Count: 3}
		p, err := predict(t.Context(), disk, o, progress.Discard, with)
		check(t, err)
		dirs = append(dirs, p.Out)
	}
	_, err = Merge(t.Context(), disk, MergeOptions{Out: o.Out, Shards: dirs}, progress.Discard)
	check(t, err)
	same(t, "3 shares", contents(t, w.dir, "out"), want)
}

// Many labels, a split without nodes, states of 16 bits on disk, and a list with a node twice, which gets one row.
func TestOddPredictionsOnGPU(t *testing.T) {
	d := cudatest.Open(t)
	raw := datasettest.Params{Nodes: 40, AvgDegree: 3, Dim: 5, Classes: 11, Seed: 8}.Raw()
	multigraph(&raw, 3, 30, 2)
	raw.Valid = nil
	raw.Targets = make([]byte, 2*len(raw.Labels))
	for v, y := range raw.Labels {
		raw.Labels[v] = min(y, 0)
	}
	w := newWorldOf(t, vfstest.TempDir(t), raw, model.Model{Kind: model.GCN, Dims: []int{5, 8, 11}})
	layers, _ := w.oracle(t)
	host, gpu := w.roomOnGPU(t, d)
	logits, _ := w.predictOnGPU(t, d, PredictOptions{}, host, gpu)
	near(t, "logits", logits, layers[1], tolerance)
	none, p := w.predictOnGPU(t, d, PredictOptions{Nodes: dataset.Valid}, host, gpu)
	if len(none) != 0 || p.Rows != 0 || p.Columns != 11 {
		t.Errorf("a split without nodes: %v, %+v", none, p)
	}

	half := PredictOptions{Options: w.options(), Out: w.path("out.npy"), Force: true}
	half.Engine, half.StateDType = decide.EngineGPU, StateBF16
	var rows [2][]float32
	for i, with := range []parts{{}, {room: host, gpuRoom: gpu}} {
		with.stack, with.gpu = all.Open, d
		_, err := predict(t.Context(), disk, half, progress.Discard, with)
		check(t, err)
		rows[i], _ = readNPY(t, half.Out)
	}
	near(t, "states of 16 bits", rows[0], layers[1], 0.02)
	if !slices.Equal(rows[0], rows[1]) || slices.Equal(rows[0], logits) {
		t.Errorf("states of 16 bits: with memory %v, with the least %v; of 32 bits %v", rows[0], rows[1], logits)
	}

	o := PredictOptions{Options: w.options(), Out: w.path("classes.npy"), Output: Classes}
	o.Engine = decide.EngineGPU
	with := parts{stack: all.Open, gpu: d}
	_, err := predict(t.Context(), disk, o, progress.Discard, with)
	check(t, err)
	b, err := os.ReadFile(o.Out)
	check(t, err)
	_, classes, _ := bytes.Cut(b, []byte("\n"))
	for i, v := range logits {
		if (classes[i] == 1) != (v > 0) {
			t.Errorf("class %d of node %d is %d, the logit %v", i%11, i/11, classes[i], v)
		}
	}
	check(t, os.WriteFile(w.path("list"), []byte("9\n3\n9\n"), 0o666))
	some, _ := w.predictOnGPU(t, d, PredictOptions{Nodes: w.path("list")}, host, gpu)
	near(t, "a list with a node twice", some, at(layers[1], []uint32{3, 9}), tolerance)
}

// An interrupt at any call of the GPU ends a prediction, or comes too late, and all memory is given back.
func TestInterruptOnGPU(t *testing.T) {
	w := newWorld(t, vfstest.TempDir(t), datasettest.Params{Nodes: 30, AvgDegree: 3, Dim: 4, Classes: 2, Seed: 1}.Raw(), 3)
	o := PredictOptions{Options: w.options(), Out: w.path("out.npy"), Force: true}
	o.Engine = decide.EngineGPU
	host, gpu := w.roomOnGPU(t, cudatest.Open(t))
	interrupted, late := 0, 0
	for n := 1; late == 0; n += 1 + n/4 {
		ctx, cancel := context.WithCancelCause(t.Context())
		calls := 0
		d := cudatest.OpenFaulty(t, cuda.Options{}, func(string) *cuda.Fault {
			if calls++; calls == n {
				cancel(errors.New("interrupt signal received"))
			}
			return nil
		})
		_, err := predict(ctx, disk, o, progress.Discard, parts{stack: all.Open, gpu: d, room: host, gpuRoom: gpu})
		cancel(nil)
		switch {
		case errors.Is(err, fault.ErrInterrupted):
			interrupted++
		case err != nil:
			t.Errorf("call %d: %v", n, err)
		default:
			late++
		}
		if device, pinned := d.Held(); device != 0 || pinned != 0 {
			t.Fatalf("call %d: %d bytes of the GPU and %d pinned were not given back", n, device, pinned)
		}
	}
	if interrupted < 10 {
		t.Errorf("%d predictions were interrupted", interrupted)
	}
}
