package dglgraph_test

import (
	"archive/zip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/internal/dglgraph"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

const fixtures = "../../offgs/testdata"

// records returns the pickle of a file of torch, and its storages.
func records(t testing.TB, name string) (pickle string, storages [][]byte) {
	t.Helper()
	z, err := zip.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	read := func(name string) []byte {
		f, err := z.Open(name)
		if err != nil {
			return nil
		}
		defer f.Close()
		b, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, key := range []string{"0", "1", "2"} {
		if b := read("graph/data/" + key); b != nil {
			storages = append(storages, b)
		}
	}
	return string(read("graph/data.pkl")), storages
}

// TestKinds opens a graph of each kind: OpenFused takes one alone.
func TestKinds(t *testing.T) {
	for name, nodes := range map[string]int64{"bolt": 20, "dgl": 0} {
		file := filepath.Join(fixtures, name, "graph.pth")
		g, err := dglgraph.Open(vfs.OS, file)
		if err != nil || g.Nodes != nodes || g.Edges != 60 {
			t.Fatalf("%+v, %v", g, err)
		}
		var n, sum int64
		err = g.Each(t.Context(), 20, func(dst, src []int64) error {
			for i := range dst {
				n, sum = n+1, sum+dst[i]-src[i]*3
			}
			return nil
		})
		if err != nil || n != 60 || sum != -1007 { // the same edges in both
			t.Errorf("%s: %d edges, %d, %v", name, n, sum, err)
		}
		// The nodes of indptr are 20: those of 19 are another graph's.
		if err := g.Each(t.Context(), 19, func(dst, src []int64) error { return nil }); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := dglgraph.OpenFused(vfs.OS, filepath.Join(fixtures, "dgl", "graph.pth")); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "it does not contain a FusedCSCSamplingGraph") {
		t.Error(err)
	}
}

// FuzzOpen checks that no pickle makes a graph whose edges leave it, or are not as many as it says.
func FuzzOpen(f *testing.F) {
	var storages [][]byte
	for _, name := range []string{"bolt", "dgl"} {
		text, s := records(f, filepath.Join(fixtures, name, "graph.pth"))
		if len(text) == 0 || len(s) < 2 {
			f.Fatalf("%s: a pickle of %d bytes, %d storages", name, len(text), len(s))
		}
		storages = s
		f.Add(text)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		name := filepath.Join(dir, "x.pt")
		if err := os.WriteFile(name, importertest.Torch(t, text, storages...), 0o666); err != nil {
			t.Fatal(err)
		}
		checked := func(err error) bool {
			if err != nil && (!errors.Is(err, fault.ErrInput) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), name)) {
				t.Fatal(err)
			}
			return err == nil
		}
		g, err := dglgraph.Open(vfs.OS, name)
		if !checked(err) {
			return
		}
		const nodes = 20
		if g.Nodes != 0 && g.Nodes != nodes || g.Edges > 1<<12 {
			return
		}
		n := int64(0)
		err = g.Each(t.Context(), nodes, func(dst, src []int64) error {
			n += int64(len(dst))
			for i := range dst {
				if uint64(dst[i]) >= nodes || uint64(src[i]) >= nodes {
					t.Fatalf("an edge from %d to %d", src[i], dst[i])
				}
			}
			return nil
		})
		if checked(err) && n != g.Edges {
			t.Fatalf("%d edges of %d", n, g.Edges)
		}
	})
}
