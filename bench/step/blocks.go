package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/vfs"
	"diskgnn/presample/mbfile"
)

// meta is the folder's meta.json.
type meta struct {
	Layers  int `json:"layers"`
	Input   int `json:"num_input"`
	Seeds   int `json:"num_seeds"`
	Dim     int `json:"dim"`
	Classes int `json:"classes"`
}

// makeBlocks writes a training batch of samples, with its features and labels, as the
// files that load reads.
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
	rows, err := features(ctx, ds, b.Input)
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
	// Last: a folder with it is whole.
	text, err := json.Marshal(meta{len(b.Blocks), len(b.Input), b.NumSeeds(), f.Dim, f.Classes})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "meta.json"), text, 0o666)
}

// features returns the rows of the nodes, in their order.
func features(ctx context.Context, ds *dataset.Dataset, nodes []uint32) (_ []byte, err error) {
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

// writeNPY writes an array in NumPy's format, version 1.
func writeNPY(dir, name, descr string, data []byte, shape ...int) (err error) {
	f, err := os.Create(filepath.Join(dir, name+".npy"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	const magic, align = "\x93NUMPY\x01\x00", 64
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }", descr, strings.Trim(strings.ReplaceAll(fmt.Sprint(shape), " ", ", "), "[]"))
	text += strings.Repeat(" ", align-1-(len(magic)+2+len(text))%align) + "\n"
	w := bufio.NewWriterSize(f, 1<<20)
	_, err = w.Write(binary.LittleEndian.AppendUint16([]byte(magic), uint16(len(text))))
	for _, b := range [][]byte{[]byte(text), data} {
		if err == nil {
			_, err = w.Write(b)
		}
	}
	if err != nil {
		return err
	}
	return w.Flush()
}

// readNPY reads the elements of an array in NumPy's format, version 1, as writeNPY and NumPy
// write it: little-endian, row by row.
func readNPY[T float32 | int64](dir, name, descr string) ([]T, error) {
	path := filepath.Join(dir, name+".npy")
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	const magic, prefix = "\x93NUMPY\x01", 10 // the prefix ends with the header's length
	if len(b) < prefix || string(b[:len(magic)]) != magic || len(b) < prefix+int(binary.LittleEndian.Uint16(b[prefix-2:])) {
		return nil, fmt.Errorf("%s: not a .npy array, version 1", path)
	}
	header, data, _ := bytes.Cut(b[prefix:], []byte("\n"))
	v := make([]T, len(data)/binary.Size(T(0)))
	if !bytes.Contains(header, []byte("'descr': '"+descr+"'")) || !bytes.Contains(header, []byte("'fortran_order': False")) || copy(binio.Bytes(v), data) < len(data) {
		return nil, fmt.Errorf("%s: not a whole array of %s, row by row: %s", path, descr, header)
	}
	return v, nil
}
