package all_test

import (
	"archive/zip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/all"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs/vfstest"
)

// lines keeps what is said in a line.
type lines struct {
	progress.Reporter
	said []string
}

func (l *lines) Logf(_ string, args ...any) {
	for _, a := range args {
		if s, ok := a.(string); ok {
			l.said = append(l.said, s)
		}
	}
}

// add writes one more file into a tree.
func add(name string) importertest.Edit {
	return func(t testing.TB, dir string) {
		importertest.Save(t, filepath.Join(dir, filepath.FromSlash(name)), []byte("x"))
	}
}

// member adds an array to an archive.
func member(name, key string, content []byte) importertest.Edit {
	return func(t testing.TB, dir string) {
		t.Helper()
		path := filepath.Join(dir, filepath.FromSlash(name))
		was, err := zip.OpenReader(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(path + ".new")
		if err != nil {
			t.Fatal(err)
		}
		z := zip.NewWriter(f)
		for _, e := range was.File {
			if err := z.Copy(e); err != nil {
				t.Fatal(err)
			}
		}
		w, err := z.Create(key + ".npy")
		if err == nil {
			_, err = w.Write(content)
		}
		for _, end := range []func() error{z.Close, f.Close, was.Close, func() error { return os.Rename(path+".new", path) }} {
			if err == nil {
				err = end()
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestEdgeDataIsNamed: weights and features of edges, of which a dataset has none, are named by the
// plan, in the result and on stderr, and nothing else is.
func TestEdgeDataIsNamed(t *testing.T) {
	weights := vector([]float32{1, 1, 2})
	notOne := func(tr tree) { tr["g.npz/adj_data"] = vector([]float32{1, 1, 1, 1, 1, 0.5}) }
	written := func(tr tree, change func(tree)) string {
		dir := t.TempDir()
		change(tr)
		tr.Write(t, dir)
		return dir
	}
	same := func(tree) {}
	edited := func(tree string, edits ...importertest.Edit) string { return importertest.Edited(t, tree, edits...) }
	const ogb = "../testdata/ogb/"
	for what, c := range map[string]struct {
		source string
		o      importer.Reading
		says   string // after the name of a file; "": no data of edges
	}{
		"gnn-benchmark":         {written(benchmarkTree(), same) + "/g.npz", importer.Reading{}, ""},
		"weights":               {written(benchmarkTree(), notOne) + "/g.npz", importer.Reading{}, "g.npz: data of edges is not imported: adj_data"},
		"no weights":            {written(benchmarkTree(), func(tr tree) { delete(tr, "g.npz/adj_data") }) + "/g.npz", importer.Reading{}, ""},
		"unreadable weights":    {written(benchmarkTree(), func(tr tree) { tr["g.npz/adj_data"] = []byte("x") }) + "/g.npz", importer.Reading{}, "imported: adj_data"},
		"edge_attr beside":      {written(benchmarkTree(), func(tr tree) { notOne(tr); tr["g.npz/edge_attr"] = weights }) + "/g.npz", importer.Reading{}, "imported: adj_data, edge_attr"},
		"graphbolt":             {written(boltTree(), same), importer.Reading{}, "metadata.yaml: data of edges is not imported: weight"},
		"graphsaint":            {"../graphsaint/testdata/flickr", importer.Reading{}, ""},
		"reddit":                {"../graphsaint/testdata/reddit", importer.Reading{}, "reddit_graph.npz: data of edges is not imported: data"},
		"ogb":                   {ogb + "arxiv", importer.Reading{}, ""},
		"ogb, features":         {edited(ogb+"arxiv", add("raw/edge-feat.csv.gz"), add("raw/edge_year.csv.gz")), importer.Reading{}, "tree: data of edges is not imported: edge-feat.csv.gz, edge_year.csv.gz"},
		"ogb, features used":    {ogb + "ogbn_proteins", importer.Reading{}, ""},
		"ogb, others beside":    {edited(ogb+"ogbn_proteins", add("raw/edge_year.csv.gz")), importer.Reading{}, "imported: edge_year.csv.gz"},
		"ogb, typed":            {edited(ogb+"hetero", add("raw/relations/paper___cites___paper/edge_reltype.csv.gz")), importer.Reading{}, "relations: data of edges is not imported: edge_reltype.csv.gz"},
		"ogb, binary":           {edited(ogb+"binary", member("raw/data.npz", "edge_feat", weights)), importer.Reading{}, "data.npz: data of edges is not imported: edge_feat"},
		"ogb, typed binary":     {edited(ogb+"hetero-binary", add("raw/edge_reltype.npz")), importer.Reading{}, "data of edges is not imported: edge_reltype.npz"},
		"ogb, mag240m":          {edited(ogb+"mag240m_kddcup2021", add("processed/paper___cites___paper/edge_weight.npy")), importer.Reading{}, "processed: data of edges is not imported: edge_weight.npy"},
		"dgl-chunked":           {"../dglchunked/testdata/one", importer.Reading{}, ""},
		"dgl-chunked, features": {edited("../dglchunked/testdata/many", importertest.Replace("metadata.json", `"edge_data": {}`, `"edge_data": {"paper:cites:paper": {"when": null, "feat": null}}`)), importer.Reading{}, "metadata.json: data of edges is not imported: paper:cites:paper feat, paper:cites:paper when"},
		"pyg":                   {"../pyg/testdata/data.pt", importer.Reading{}, ""},
		"raw":                   {"", importer.Reading{Edges: filepath.Join(fixtures, "raw", "all.npz:edges"), FeatureFile: "random:2", LabelFile: "random:2"}, ""},
		"raw, weights":          {"", importer.Reading{Edges: edited(filepath.Join(fixtures, "raw"), member("all.npz", "edge_weight", weights), member("all.npz", "weights", weights)) + "/all.npz:edges", FeatureFile: "random:2", LabelFile: "random:2"}, "all.npz: data of edges is not imported: edge_weight, weights"},
		"raw with names":        {"", importer.Reading{NodeIDs: "edges", Edges: edited(filepath.Join(fixtures, "raw"), member("all.npz", "weight", weights)) + "/all.npz:edges", FeatureFile: "random:2", LabelFile: "random:2"}, "all.npz: data of edges is not imported: weight"},
	} {
		o := importer.Options{Reading: c.o}
		if c.source != "" {
			o.Sources = []string{c.source}
		} else {
			o.Split = &importer.Split{Parts: "60/20/20"}
		}
		const about = "data of edges"
		rep := &lines{Reporter: progress.Discard}
		out := filepath.Join(vfstest.TempDir(t), "D")
		plan, err := all.MakePlan(t.Context(), datasettest.FS, out, all.Auto, o, progress.Discard)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		res, err := all.Import(t.Context(), datasettest.FS, out, all.Auto, o, rep)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		again, err := all.Import(t.Context(), datasettest.FS, out, all.Auto, o, progress.Discard)
		if err != nil || again.State != "done" {
			t.Errorf("%s: again %s, %v", what, again.State, err)
		}
		for where, notes := range map[string][]string{"plan": plan.Notes, "result": res.Notes, "finished": again.Notes, "stderr": rep.said} {
			i := slices.IndexFunc(notes, func(s string) bool { return strings.Contains(s, about) })
			if (i < 0) != (c.says == "") || i >= 0 && !strings.HasSuffix(filepath.ToSlash(notes[i]), c.says) {
				t.Errorf("%s, %s: %q, want %q", what, where, notes, c.says)
			}
		}
	}
}
