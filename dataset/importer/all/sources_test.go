package all_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/all"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

var updateSources = flag.Bool("update", false, "write testdata/sources.txt anew")

// good is a source that a library of its format wrote, and how it is read.
type good struct {
	format string // "": as it is found
	path   string // or, of raw files, what they are
	o      importer.Reading
	drawn  bool // the split
	again  bool // its files are opened by the code that opens those of another source
}

// goodSources are sources of all formats.
func goodSources() []good {
	at := func(name string) string { return filepath.Join(fixtures, "raw", name) }
	table := func(name string) string { return filepath.Join("testdata", "tables", name) }
	sets := []string{at("train.npy"), at("valid.npy"), at("test.csv")}
	sources := []good{
		{"igb", "../testdata/igb/het", importer.Reading{Task: "2983"}, false, true},
		{"igb-h", "../testdata/igb/het", importer.Reading{}, false, false},
		{"", "../testdata/ogb/mag240m_kddcup2021", importer.Reading{Task: "test-dev"}, false, true},
		{"", "../testdata/ogb/ogbn_proteins", importer.Reading{Reverse: importer.ReverseNo}, false, true},
		{"", "../graphbolt/testdata/tutorial", importer.Reading{Features: []string{"feat_1"}}, false, true},
		{"", "../graphbolt/testdata/tutorial", importer.Reading{For: importer.ForPredict}, false, true},
		{"raw", "edges and features", importer.Reading{Edges: at("edges.npy"), FeatureFile: at("feat.npy"), LabelFile: at("labels.csv"), SplitFiles: sets}, false, false},
		{"raw", "what is drawn", importer.Reading{Edges: at("edges.csv"), FeatureFile: "random:2", LabelFile: "random:3", Nodes: 25, Seed: 7}, true, false},
		{"raw", "to predict", importer.Reading{Edges: at("edges.bin:i4:70x2"), FeatureFile: at("feat.parquet"), For: importer.ForPredict}, false, false},
		{"raw", "names", importer.Reading{NodeIDs: "edges", Edges: at("edges.parquet"), FeatureFile: "random:2", LabelFile: "random:3"}, true, false},
		{"raw", "a table of nodes", importer.Reading{Edges: table("edges.csv"), FeatureFile: table("nodes.csv"), LabelColumn: "label", SplitColumn: "split", IDColumn: "id", Drop: []string{"title"}}, false, false},
		{"raw", "two tables of nodes", importer.Reading{Edges: table("numbers.csv"), EdgeColumns: []string{"0", "2"}, FeatureFile: table("features.csv"), LabelFile: table("labels.csv"), LabelColumn: "label", SplitColumn: "split", IDColumn: "id"}, false, false},
		{"snap", at("edges.txt"), importer.Reading{FeatureFile: at("feat.csv.gz"), LabelFile: "random:3"}, true, false},
		{"", at("edges.graph-txt"), importer.Reading{FeatureFile: "random:2", LabelFile: "random:3"}, true, false},
	}
	for _, path := range []string{"../testdata/ogb/arxiv", "../testdata/ogb/ogbn_products", "../testdata/ogb/ogbn_proteins", "../testdata/ogb/binary", "../testdata/ogb/hetero",
		"../testdata/ogb/hetero-binary", "../testdata/ogb/mag240m_kddcup2021", "../testdata/igb/tiny", "../testdata/igb/large", "../testdata/igb/patched",
		"../graphbolt/testdata/tutorial", "../graphbolt/testdata/preprocessed", "../offgs/testdata/bolt", "../offgs/testdata/dgl", "../pyg/testdata/data.pt", "../pyg/testdata/many.pt",
		"../dglchunked/testdata/one", "../dglchunked/testdata/many", "../graphsaint/testdata/flickr", "../graphsaint/testdata/reddit", "../graphsaint/testdata/yelp",
		"../dgl/testdata/coo.bin", "../dgl/testdata/ogb.bin"} {
		again := slices.Contains([]string{"ogbn_products", "tiny", "large", "many.pt", "many", "yelp", "ogb.bin"}, filepath.Base(path))
		sources = append(sources, good{"", path, importer.Reading{}, false, again})
	}
	return sources
}

// find returns the format of a source, and the paths that it is opened by.
func (s *good) find(t *testing.T) (f importer.Format, paths []string) {
	t.Helper()
	if paths = []string{filepath.FromSlash(s.path)}; s.format == "raw" {
		paths = nil
	}
	f, _, err := all.Find(datasettest.FS, s.format, paths)
	if err != nil {
		t.Fatal(err)
	}
	return f, paths
}

// TestSources compares what sources say of themselves before they are read with testdata/sources.txt:
// shapes, notes, what they hold, and which files they are read from.
func TestSources(t *testing.T) {
	var b strings.Builder
	for _, s := range goodSources() {
		f, paths := s.find(t)
		s.o.Scratch = filepath.Join(t.TempDir(), "scratch")
		src, err := f.Open(datasettest.FS, paths, &s.o)
		if err != nil {
			t.Fatalf("%s: %v", s.path, err)
		}
		sh := src.Shape()
		fmt.Fprintf(&b, "%s: %s\n", f.Name, filepath.ToSlash(s.path))
		fmt.Fprintf(&b, "    %d nodes, %d edges, dim %d of %s in %s, %d classes\n", sh.Nodes, sh.Edges, sh.Dim, sh.DType, filepath.ToSlash(sh.Features), sh.Classes)
		if sh.Multi {
			b.WriteString("    multi\n")
		}
		if sh.AddReverse {
			b.WriteString("    reverses\n")
		}
		if sh.Undirected {
			b.WriteString("    undirected\n")
		}
		if sh.NoSplit {
			fmt.Fprintf(&b, "    no split: %+v\n", sh.Split)
		}
		if sh.Held > 0 || sh.NameBytes > 0 {
			fmt.Fprintf(&b, "    holds %d bytes, names of %d\n", sh.Held, sh.NameBytes)
		}
		for _, key := range slices.Sorted(maps.Keys(sh.Reading)) {
			fmt.Fprintf(&b, "    %s = %s\n", key, sh.Reading[key])
		}
		for _, note := range sh.Notes {
			fmt.Fprintf(&b, "    note: %s\n", filepath.ToSlash(note))
		}
		files := src.Files()
		slices.Sort(files)
		for _, name := range files {
			fmt.Fprintf(&b, "    %s\n", filepath.ToSlash(name))
		}
		if c, ok := src.(io.Closer); ok {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	const golden = "testdata/sources.txt"
	if *updateSources {
		if err := os.WriteFile(golden, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	got, lines := strings.Split(b.String(), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(got), len(lines)) {
		if got[i] != lines[i] {
			t.Fatalf("%s:%d: %q, want %q", golden, i+1, got[i], lines[i])
		}
	}
	if len(got) != len(lines) {
		t.Errorf("%d lines, want %d", len(got), len(lines))
	}
}

// TestSourcesFail looks at sources of all formats with every opening of a file failed in turn: each
// failure is the error of the plan, or makes no difference, and no file stays open.
func TestSourcesFail(t *testing.T) {
	boom := errors.New("boom")
	for _, s := range goodSources() {
		if s.again {
			continue
		}
		f, paths := s.find(t)
		o := importer.Options{Sources: paths, Reading: s.o}
		if s.drawn {
			o.Split = &importer.Split{Parts: "60/20/20"}
		}
		out := filepath.Join(t.TempDir(), "D")
		good, err := importer.MakePlan(t.Context(), datasettest.FS, out, f, o, progress.Discard)
		if err != nil || len(good.Problems) > 0 {
			t.Errorf("%s: %q, %v", s.path, good.Problems, err)
		}
		for fail := range importertest.Failures(t, datasettest.FS, boom, vfs.OpOpen) {
			p, err := importer.MakePlan(t.Context(), fail, out, f, o, progress.Discard)
			if fail.Fired() && !errors.Is(err, boom) && !(err == nil && cmp.Equal(p, good)) {
				t.Errorf("%s, %v: %q, %v", s.path, fail, p.Problems, err)
			}
		}
	}
}

// TestNumberOfSources gives every format no source and two.
func TestNumberOfSources(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range goodSources() {
		f, paths := s.find(t)
		if seen[f.Name] || paths == nil {
			continue
		}
		seen[f.Name] = true
		for _, sources := range [][]string{nil, append(paths, paths...)} {
			if f.Detect != nil {
				if sign := f.Detect(datasettest.FS, sources); sign != "" {
					t.Errorf("%s: of %q it says %s", f.Name, sources, sign)
				}
			}
			if _, err := f.Open(datasettest.FS, sources, &s.o); !errors.Is(err, fault.ErrUsage) {
				t.Errorf("%s: %q: %v", f.Name, sources, err)
			}
		}
	}
}

// TestRowsFromAnyNode reads the features of sources of all formats from a later node on, row by row:
// they are those of all nodes, read at once.
func TestRowsFromAnyNode(t *testing.T) {
	for _, s := range goodSources() {
		f, paths := s.find(t)
		s.o.Scratch = filepath.Join(t.TempDir(), "scratch")
		src, err := f.Open(datasettest.FS, paths, &s.o)
		if err != nil {
			t.Fatal(err)
		}
		sh := src.Shape()
		read := func(first int64, atOnce int) []float32 {
			rows, err := src.Features(first)
			if err != nil {
				t.Fatalf("%s: %v", s.path, err)
			}
			all := make([]float32, (sh.Nodes-first)*int64(sh.Dim))
			for left := all; len(left) > 0; {
				n := min(len(left), atOnce*sh.Dim)
				if err := rows.Next(left[:n]); err != nil {
					t.Fatalf("%s, from %d: %v", s.path, first, err)
				}
				left = left[n:]
			}
			if err := rows.Close(); err != nil {
				t.Fatal(err)
			}
			return all
		}
		want := read(0, int(sh.Nodes))
		for _, first := range []int64{0, 1, sh.Nodes / 2, sh.Nodes - 2, sh.Nodes - 1} {
			for _, atOnce := range []int{1, 2} {
				if got := read(first, atOnce); !slices.Equal(got, want[first*int64(sh.Dim):]) {
					t.Errorf("%s: from %d, %d at a time: other rows", s.path, first, atOnce)
				}
			}
		}
		if c, ok := src.(io.Closer); ok {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestSourcesCancel reads labels and edges of sources of all formats under a context that is over:
// nothing is handed on.
func TestSourcesCancel(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, s := range goodSources() {
		f, paths := s.find(t)
		s.o.Scratch = filepath.Join(t.TempDir(), "scratch")
		src, err := f.Open(datasettest.FS, paths, &s.o)
		if err != nil {
			t.Fatal(err)
		}
		if s.o.Labelled() && !strings.HasPrefix(s.o.LabelFile, "random:") {
			if err := src.Labels(over, new(importer.Labelling)); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: labels: %v", s.path, err)
			}
		}
		if err := src.Edges(over, func(_, _ []int64) error { return errors.New("edges come") }); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: edges: %v", s.path, err)
		}
		if c, ok := src.(io.Closer); ok {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
