package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/vfs"
	"diskgnn/presample/mbfile"
)

// blocksMeta is the folder's meta.json.
type blocksMeta struct {
	Layers  int `json:"layers"`
	Input   int `json:"num_input"`
	Seeds   int `json:"num_seeds"`
	Dim     int `json:"dim"`
	Classes int `json:"classes"`
}

// makeBlocks writes a training batch of samples, with its features and labels, as the files of
// loadBlocks.
func makeBlocks(ctx context.Context, dir, samples, data string, index int) (err error) {
	ds, err := dataset.Open(vfs.OS, data)
	if err != nil {
		return err
	}
	if ds.Facts().DType != dtype.Float32 {
		return fmt.Errorf("%s: its features are %s, not %s", data, ds.Facts().DType, dtype.Float32)
	}
	r, err := mbfile.Open(vfs.OS, samples)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if index < 0 || index >= r.Facts().TrainBatches {
		return fmt.Errorf("%s has no training batch %d", samples, index)
	}
	var b graph.Batch
	if _, err := r.Read(ctx, index, nil, &b); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	f := ds.Facts()
	rows, err := rowsOf(ctx, ds, b.Input)
	if err != nil {
		return err
	}
	if err := writeNPY(dir, "x", "<f4", rows, len(b.Input), f.Dim); err != nil {
		return err
	}
	integers := map[string][]int64{"y": widened(b.Labels), "degree": widened(b.Degree)}
	for l := range b.Blocks {
		k := &b.Blocks[l]
		dst := make([]int64, k.NumDst)
		for i := range dst {
			dst[i] = int64(k.DstPos(i))
		}
		for name, v := range map[string][]int64{"indptr": widened(k.Indptr), "indices": widened(k.Indices), "dst": dst} {
			integers[fmt.Sprintf("%s_%d", name, l)] = v
		}
	}
	for name, v := range integers {
		if err := writeNPY(dir, name, "<i8", binio.Bytes(v), len(v)); err != nil {
			return err
		}
	}
	// Written last: a folder with it is complete.
	text, err := json.Marshal(blocksMeta{len(b.Blocks), len(b.Input), b.NumSeeds(), f.Dim, f.Classes})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "meta.json"), text, 0o666)
}

// rowsOf returns the rows of the nodes, in their order.
func rowsOf(ctx context.Context, ds *dataset.Dataset, nodes []uint32) (_ []byte, err error) {
	r, err := ds.Features()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	order := make([]int, len(nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(nodes[a]) - int(nodes[b]) }) // each piece is read once
	row := ds.RowBytes()
	rows := make([]byte, len(nodes)*row)
	for _, i := range order {
		v := int64(nodes[i])
		if err := r.ReadRows(ctx, v, v+1, rows[i*row:(i+1)*row]); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

func widened[T int32 | uint32](v []T) []int64 {
	out := make([]int64, len(v))
	for i, x := range v {
		out[i] = int64(x)
	}
	return out
}

// loadBlocks reads the folder; dim is the input width.
func loadBlocks(dir string) (batch *graph.Batch, x []float32, dim, classes int, err error) {
	var meta blocksMeta
	text, err := os.ReadFile(filepath.Join(dir, "meta.json"))
	if err != nil {
		return nil, nil, 0, 0, err
	}
	if err := json.Unmarshal(text, &meta); err != nil {
		return nil, nil, 0, 0, fmt.Errorf("%s: %w", filepath.Join(dir, "meta.json"), err)
	}
	if x, err = readNPY[float32](dir, "x", "<f4"); err != nil {
		return nil, nil, 0, 0, err
	}
	batch = &graph.Batch{Input: make([]uint32, meta.Input), Degree: make([]uint32, meta.Input)}
	if degree, err := readIntegers[uint32](dir, "degree"); err == nil {
		batch.Degree = degree
	} else if !errors.Is(err, os.ErrNotExist) { // folders of other makers lack it: they do for models without
		return nil, nil, 0, 0, err
	}
	if batch.Labels, err = readIntegers[int32](dir, "y"); err != nil {
		return nil, nil, 0, 0, err
	}
	src := meta.Input
	for l := range meta.Layers {
		k := graph.Block{NumSrc: src}
		for name, to := range map[string]*[]uint32{"indptr": &k.Indptr, "indices": &k.Indices, "dst": &k.Dst} {
			if *to, err = readIntegers[uint32](dir, fmt.Sprintf("%s_%d", name, l)); err != nil {
				return nil, nil, 0, 0, err
			}
		}
		k.NumDst = len(k.Dst)
		if isPrefix(k.Dst) {
			k.Dst = nil
		}
		batch.Blocks = append(batch.Blocks, k)
		src = k.NumDst
	}
	return batch, x, meta.Dim, meta.Classes, batch.Validate()
}

// isPrefix reports whether destinations are the first sources.
func isPrefix(dst []uint32) bool {
	for i, s := range dst {
		if int(s) != i {
			return false
		}
	}
	return true
}

func readIntegers[T int32 | uint32](dir, name string) ([]T, error) {
	wide, err := readNPY[int64](dir, name, "<i8")
	if err != nil {
		return nil, err
	}
	out := make([]T, len(wide))
	for i, v := range wide {
		out[i] = T(v)
	}
	return out, nil
}
