package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/klauspost/compress/flate"

	"diskgnn/internal/binio"
	"diskgnn/internal/rng"
)

// shape is the size of a generated set.
type shape struct {
	Nodes int64 `json:"nodes"`
	Edges int64 `json:"edges"`
	Dim   int64 `json:"dim"`
}

// generateOGB writes the set, unless one of this shape exists: shape.json, written last, records
// the shape.
func generateOGB(dir string, s shape) error {
	mark, err := json.Marshal(s)
	if err != nil {
		return err
	}
	name := filepath.Join(dir, "shape.json")
	if b, err := os.ReadFile(name); err == nil && bytes.Equal(b, mark) {
		return nil
	}
	for _, sub := range []string{"raw", "split/time"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o777); err != nil {
			return err
		}
	}
	if err := archive(filepath.Join(dir, "raw", "data.npz"), []member{
		{"num_nodes_list", "<i8", "(1,)", 1, one(s.Nodes)},
		{"num_edges_list", "<i8", "(1,)", 1, one(s.Edges)},
		{"edge_index", "<i8", fmt.Sprintf("(2, %d)", s.Edges), 2 * s.Edges, s.ends},
		{"node_feat", "<f4", fmt.Sprintf("(%d, %d)", s.Nodes, s.Dim), s.Nodes * s.Dim, normals},
	}); err != nil {
		return err
	}
	if err := archive(filepath.Join(dir, "raw", "node-label.npz"), []member{
		{"node_label", "<f4", fmt.Sprintf("(%d, 1)", s.Nodes), s.Nodes, classes},
	}); err != nil {
		return err
	}
	for i, split := range []string{"train", "valid", "test"} {
		if err := s.split(filepath.Join(dir, "split", "time", split+".csv.gz"), int64(i)); err != nil {
			return err
		}
	}
	return os.WriteFile(name, mark, 0o666)
}

// member is an array of an archive: make returns the elements in a range, as bytes.
type member struct {
	name, descr, shape string
	count              int64
	make               func(from, to int64) []byte
}

func one(v int64) func(from, to int64) []byte {
	return func(int64, int64) []byte { return binio.Bytes([]int64{v}) }
}

// ends draws sources from a power law, and destinations.
func (s shape) ends(from, to int64) []byte {
	out := make([]int64, to-from)
	for i := range out {
		src := rng.New(rng.Key(1, uint64(from)+uint64(i)))
		x := src.Float64()
		if from+int64(i) < s.Edges {
			x *= x
		}
		out[i] = int64(x * float64(s.Nodes))
	}
	return binio.Bytes(out)
}

func normals(from, to int64) []byte {
	out := make([]float32, to-from)
	src := rng.New(rng.Key(2, uint64(from)))
	for i := range out {
		out[i] = float32(src.Float64() + src.Float64() + src.Float64() - 1.5)
	}
	return binio.Bytes(out)
}

// classes makes the labels: every third node has a class.
func classes(from, to int64) []byte {
	out := make([]float32, to-from)
	for i := range out {
		v := from + int64(i)
		if out[i] = float32(v % 172); v%3 != 0 {
			out[i] = float32(math.NaN())
		}
	}
	return binio.Bytes(out)
}

// split lists every third of the labelled nodes.
func (s shape) split(name string, part int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	z := gzip.NewWriter(f)
	w := bufio.NewWriter(z)
	for v := 3 * part; v < s.Nodes; v += 9 {
		if _, err := w.WriteString(strconv.FormatInt(v, 10) + "\n"); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(w.Flush(), z.Close(), f.Close())
}

// archive writes arrays in the format of numpy.savez_compressed: a zip archive, deflated.
func archive(name string, members []member) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	z := zip.NewWriter(f)
	// zlib's default level, which NumPy uses.
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, 6) })
	for _, m := range members {
		w, err := z.Create(m.name + ".npy")
		if err != nil {
			return errors.Join(err, f.Close())
		}
		header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", m.descr, m.shape)
		header += string(bytes.Repeat([]byte(" "), 117-len(header))) + "\n"
		if _, err := w.Write(append([]byte("\x93NUMPY\x01\x00\x76\x00"), header...)); err != nil {
			return errors.Join(err, f.Close())
		}
		if err := m.write(w); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(z.Close(), f.Close())
}

// piece is the number of elements made at a time. The generated features depend on it.
const piece = 1 << 18

// write makes pieces, and writes them in order.
func (m member) write(w io.Writer) error {
	for from := int64(0); from < m.count; from += piece {
		if _, err := w.Write(m.make(from, min(from+piece, m.count))); err != nil {
			return err
		}
	}
	return nil
}
