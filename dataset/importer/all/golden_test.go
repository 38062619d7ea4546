package all_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/all"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
)

const fixtures = "../testdata"

// TestIGB imports fixtures in the layout of IGB, whose split is drawn.
func TestIGB(t *testing.T) {
	for _, name := range []string{"tiny", "large", "patched"} {
		source := filepath.Join(fixtures, "igb", name)
		f, _, err := all.Find(datasettest.FS, all.Auto, []string{source})
		if err != nil || f.Name != "igb" {
			t.Fatalf("found format %q, %v", f.Name, err)
		}
		out := filepath.Join(t.TempDir(), "D")
		res, err := importer.Import(t.Context(), datasettest.FS, out, f, importer.Options{Sources: []string{source}}, progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if res.Train != 7 || res.Valid != 2 || res.Test != 2 || res.Classes != 19 {
			t.Errorf("%s: %+v", name, res)
		}
		d := datasettest.Verified(t, out)
		text := importertest.Text(t, d)
		want, err := os.ReadFile(source + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(text, "nodes 11\nedges 31\n"+string(want)+"train: ") {
			t.Errorf("%s: other than what NumPy reads", name)
		}
		if again := importertest.Text(t, d); again != text {
			t.Errorf("%s: read otherwise a second time", name)
		}
	}
	if _, err := all.Import(t.Context(), datasettest.FS, filepath.Join(t.TempDir(), "D"), "igb", importer.Options{
		Sources: []string{filepath.Join(fixtures, "igb", "tiny")}, Reading: importer.Reading{Task: "2983"}}, progress.Discard); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "node_label_2K.npy is missing") {
		t.Error(err)
	}
}

// TestGoldens imports the fixtures that make.py wrote, and compares the datasets with what the
// formats' own libraries load of them.
func TestGoldens(t *testing.T) {
	for _, c := range []struct {
		golden string // and the source, unless that is named
		format string // as auto finds it
		o      importer.Options
	}{
		{"ogb/arxiv", "ogb", importer.Options{}},
		{"ogb/ogbn_products", "ogb", importer.Options{}},
		{"ogb/ogbn_proteins", "ogb", importer.Options{}},
		{"ogb/binary", "ogb", importer.Options{}},
		{"ogb/hetero", "ogb", importer.Options{}},
		{"ogb/hetero-binary", "ogb", importer.Options{}},
		{"ogb/mag240m_kddcup2021", "ogb", importer.Options{}},
	} {
		t.Run(c.golden, func(t *testing.T) {
			golden := filepath.Join(fixtures, filepath.FromSlash(c.golden))
			if c.o.Sources == nil {
				c.o.Sources = []string{golden}
			}
			f, _, err := all.Find(datasettest.FS, all.Auto, c.o.Sources)
			if err != nil || f.Name != c.format {
				t.Fatalf("found format %q, %v", f.Name, err)
			}
			out := filepath.Join(t.TempDir(), "D")
			if _, err := importer.Import(t.Context(), datasettest.FS, out, f, c.o, progress.Discard); err != nil {
				t.Fatal(err)
			}
			importertest.Same(t, datasettest.Verified(t, out), golden+".txt")
		})
	}
}

// TestRaw imports one graph in every form of every file.
func TestRaw(t *testing.T) {
	at := func(name string) string { return filepath.Join(fixtures, "raw", name) }
	base := importer.Reading{Edges: at("edges.npy"), FeatureFile: at("feat.npy"), LabelFile: at("labels.csv"), SplitFiles: []string{at("train.npy"), at("valid.npy"), at("test.csv")}}
	check := func(what, format string, sources []string, o importer.Reading) {
		t.Helper()
		out := filepath.Join(t.TempDir(), "D")
		if _, err := all.Import(t.Context(), datasettest.FS, out, format, importer.Options{Sources: sources, Reading: o}, progress.Discard); err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		importertest.Same(t, datasettest.Verified(t, out), filepath.Join(fixtures, "raw.txt"))
	}
	for _, edges := range []string{"edges.npy", "edges2.npy", "edges-fortran.npy", "edges2-fortran.npy", "all.npz:edges", "edges.bin:i4:70x2", "edges.bin:int32:70×2", "edges.csv", "edges.parquet", "edges.txt"} {
		o := base
		o.Edges = at(edges)
		check(edges, all.Auto, nil, o)
	}
	for _, features := range []string{"feat.bin:f4:20x3", "feat.parquet", "feat-lists.parquet", "feat.csv.gz", "all.npz:feat"} {
		o := base
		o.FeatureFile = at(features)
		check(features, all.Auto, nil, o)
	}
	o := base
	o.LabelFile, o.SplitFiles = at("labels.parquet"), []string{at("train.parquet"), at("valid.npy"), at("test.csv")}
	check("parquet", all.Auto, nil, o)
	o.SplitFiles[0] = at("train.txt")
	check("text", all.Auto, nil, o)
	o.Edges = ""
	check("snap", all.Auto, []string{at("edges.txt")}, o)
	check("webgraph", all.Auto, []string{at("edges.graph-txt")}, o)
}

// TestRandom draws features and labels: a function of the seed and the node.
func TestRandom(t *testing.T) {
	o := importer.Options{Sources: []string{filepath.Join(fixtures, "raw", "edges.txt")}, Split: &importer.Split{Parts: "50/30/20", Seed: 3},
		Reading: importer.Reading{FeatureFile: "random:5", LabelFile: "random:4", Seed: 3}}
	text := func(seed uint64, nodes int64) string {
		o.Seed, o.Nodes = seed, nodes
		out := filepath.Join(t.TempDir(), "D")
		if _, err := all.Import(t.Context(), datasettest.FS, out, all.Auto, o, progress.Discard); err != nil {
			t.Fatal(err)
		}
		return importertest.Text(t, datasettest.Verified(t, out))
	}
	a := text(3, 0)
	if text(3, 0) != a || text(4, 0) == a {
		t.Error("the draw does not follow from the seed")
	}
	if more := text(3, 25); !strings.Contains(more, "nodes 25\n") || !strings.Contains(more, a[strings.Index(a, "feat 0:"):strings.Index(a, "label 0:")]) {
		t.Error("a node's features depend on how many nodes there are")
	}
}

// TestEdgeOptions counts the edges of a graph by hand: 0→1 twice, 1→0, 2→2, 1→2.
func TestEdgeOptions(t *testing.T) {
	dir := t.TempDir()
	edges := filepath.Join(dir, "edges.txt")
	importertest.Save(t, edges, []byte("0 1\n0 1\n1 0\n2 2\n1 2\n"))
	for _, c := range []struct {
		change func(*importer.Options)
		want   string // destination <- source
	}{
		{func(*importer.Options) {}, "0<-1 1<-0 1<-0 2<-1 2<-2"},
		{func(o *importer.Options) { o.Dedupe = true }, "0<-1 1<-0 2<-1 2<-2"},
		{func(o *importer.Options) { o.SelfLoops = importer.LoopsDrop }, "0<-1 1<-0 1<-0 2<-1"},
		{func(o *importer.Options) { o.SelfLoops = importer.LoopsAdd }, "0<-0 0<-1 1<-0 1<-0 1<-1 2<-1 2<-2"},
		{func(o *importer.Options) { o.Reverse = importer.ReverseYes }, "0<-1 0<-1 0<-1 1<-0 1<-0 1<-0 1<-2 2<-1 2<-2 2<-2"},
		{func(o *importer.Options) { o.Symmetrize = true }, "0<-1 1<-0 1<-2 2<-1"},
		{func(o *importer.Options) { o.Symmetrize, o.SelfLoops = true, importer.LoopsAdd }, "0<-0 0<-1 1<-0 1<-1 1<-2 2<-1 2<-2"},
		{func(o *importer.Options) { o.Reverse, o.Dedupe = importer.ReverseYes, true }, "0<-1 1<-0 1<-2 2<-1 2<-2"},
	} {
		o := importer.Options{Sources: []string{edges}, Split: &importer.Split{Parts: "34/33/33"}, Reading: importer.Reading{FeatureFile: "random:1", LabelFile: "random:2"}}
		c.change(&o)
		out := filepath.Join(t.TempDir(), "D")
		if _, err := all.Import(t.Context(), datasettest.FS, out, all.Auto, o, progress.Discard); err != nil {
			t.Fatal(err)
		}
		text := importertest.Text(t, datasettest.Verified(t, out))
		text = text[strings.Index(text, "\n0 <-")+1 : strings.Index(text, "feat 0:")]
		if got := strings.ReplaceAll(strings.TrimSpace(strings.ReplaceAll(text, " <- ", "<-")), "\n", " "); got != c.want {
			t.Errorf("%+v: %s, want %s", o, got, c.want)
		}
	}
}
