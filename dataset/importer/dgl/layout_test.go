package dgl_test

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/dgl"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/fault"
)

// opened writes a file and opens it.
func opened(t testing.TB, path string, content []byte) (importer.Source, error) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return dgl.Format.Open(datasettest.FS, []string{path}, &importer.Reading{})
}

func order(a, b [2]int64) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) }

// TestForms writes random graphs in all forms, and reads the edges and the features.
func TestForms(t *testing.T) {
	path := filepath.Join(t.TempDir(), "g.bin")
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.Int64Range(1, 12).Draw(rt, "nodes")
		node := rapid.Int64Range(0, n-1)
		pair := rapid.Custom(func(rt *rapid.T) [2]int64 { return [2]int64{node.Draw(rt, "from"), node.Draw(rt, "to")} })
		edges := rapid.SliceOfN(pair, 0, 40).Draw(rt, "edges")
		forms := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"coo", "csr", "csc"}), 1, 3, rapid.ID[string]).Draw(rt, "forms")
		slices.SortFunc(forms, func(a, b string) int { return strings.Index("coo csr csc", a) - strings.Index("coo csr csc", b) })
		f := tiny(forms...)
		g := &f.graphs[0]
		g.counts[0] = n
		r := &g.relations[0]
		r.rows, r.cols, r.edges, r.narrow = n, n, edges, rapid.Bool().Draw(rt, "narrow")
		r.early = len(forms) == 1 && rapid.Bool().Draw(rt, "early")
		want := rapid.SliceOfN(rapid.Float32Range(-9, 9), int(2*n), int(2*n)).Draw(rt, "features")
		g.data[0] = []datum{
			{name: rapid.StringMatching("[a-e]{0,9}").Draw(rt, "name"), values: rapid.SliceOfN(rapid.Uint8(), int(n), int(n)).Draw(rt, "other")},
			{name: "feat", values: want, shape: []int64{n, 2}},
			{name: "label", values: make([]int64, n)},
		}
		f.labels = []datum{{name: "glabel", values: rapid.SliceOfN(rapid.Int16(), 0, 9).Draw(rt, "labels")}}
		s, err := opened(t, path, f.bytes())
		if err != nil {
			rt.Fatal(err)
		}
		var got [][2]int64
		if err := s.Edges(t.Context(), func(dst, src []int64) error {
			for i := range dst {
				got = append(got, [2]int64{src[i], dst[i]})
			}
			return nil
		}); err != nil {
			rt.Fatal(err)
		}
		slices.SortFunc(edges, order)
		if slices.SortFunc(got, order); !slices.Equal(got, edges) || s.Shape().Nodes != n || s.Shape().Edges != int64(len(edges)) {
			rt.Fatalf("%v of %+v, want %v", got, s.Shape(), edges)
		}
		first := rapid.Int64Range(0, n-1).Draw(rt, "first")
		rows, err := s.Features(first)
		if err != nil {
			rt.Fatal(err)
		}
		values := make([]float32, 2*(n-first))
		if err := errors.Join(rows.Next(values), rows.Close()); err != nil || !slices.Equal(values, want[2*first:]) {
			rt.Fatalf("%v, %v; want %v", values, err, want[2*first:])
		}
	})
}

// TestTruncated cuts a file at every byte.
func TestTruncated(t *testing.T) {
	f := tiny("coo", "csr")
	f.labels = []datum{{name: "glabel", values: []int64{1}}}
	path := filepath.Join(t.TempDir(), "g.bin")
	content := f.bytes()
	if _, err := opened(t, path, content); err != nil {
		t.Fatal(err)
	}
	for n := len(content) - 1; n >= 0; n-- {
		if err := os.Truncate(path, int64(n)); err != nil {
			t.Fatal(err)
		}
		_, err := dgl.Format.Open(datasettest.FS, []string{path}, &importer.Reading{})
		if !errors.Is(err, fault.ErrInput) || !strings.HasPrefix(err.Error(), path+": truncated") {
			t.Fatalf("%d of %d bytes: %v", n, len(content), err)
		}
	}
}

// TestFlips changes a bit of every byte of a file.
func TestFlips(t *testing.T) {
	for _, form := range []string{"coo", "csc"} {
		f := tiny(form)
		f.labels = []datum{{name: "glabel", values: []int64{1}}}
		path, content := filepath.Join(t.TempDir(), "g.bin"), f.bytes()
		importertest.Save(t, path, content)
		w, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		for at, b := range content {
			if at >= 32 && at < 4096 {
				continue // it is not defined
			}
			for _, change := range []byte{b ^ 1<<(at%8), b} {
				if _, err := w.WriteAt([]byte{change}, int64(at)); err != nil {
					t.Fatal(err)
				}
				if change != b {
					flipped(t, path, at)
				}
			}
		}
	}
}

// flipped reads the edges of a file in which a byte is wrong.
func flipped(t *testing.T, path string, at int) {
	t.Helper()
	s, err := dgl.Format.Open(datasettest.FS, []string{path}, &importer.Reading{})
	if err == nil {
		err = s.Edges(t.Context(), func(dst, src []int64) error { return nil })
	}
	if err != nil && (!errors.Is(err, fault.ErrInput) || strings.Contains(err.Error(), "\n")) {
		t.Errorf("byte %d: %v", at, err)
	}
	if at%32 == 0 {
		importertest.Plan(t, dgl.Format, importer.Options{Sources: []string{path}})
	}
}
