package all_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/all"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

// TestFilesAreClosed looks at sources of all formats and imports them, with and without an error in
// between: no file stays open.
func TestFilesAreClosed(t *testing.T) {
	fixture := func(path string) importer.Options {
		return importer.Options{Sources: []string{filepath.FromSlash(path)}}
	}
	benchmark := t.TempDir()
	benchmarkTree().Write(t, benchmark)
	at := func(name string) string { return filepath.Join(fixtures, "raw", name) }
	for _, o := range []importer.Options{
		fixture("../testdata/ogb/arxiv"), fixture("../testdata/ogb/binary"), fixture("../testdata/ogb/hetero"), fixture("../testdata/ogb/hetero-binary"),
		fixture("../testdata/igb/patched"), fixture("../graphbolt/testdata/tutorial"), fixture("../graphbolt/testdata/preprocessed"),
		fixture("../dglchunked/testdata/one"), fixture("../dglchunked/testdata/many"), fixture("../pyg/testdata/data.pt"),
		fixture("../graphsaint/testdata/flickr"), fixture("../graphsaint/testdata/reddit"), fixture(filepath.Join(benchmark, "g.npz")),
		{Reading: importer.Reading{Edges: at("edges.npy"), FeatureFile: at("feat.npy"), LabelFile: at("labels.csv"), SplitFiles: []string{at("train.npy"), at("valid.npy"), at("test.csv")}}},
		{Reading: importer.Reading{Edges: at("edges.parquet"), FeatureFile: at("feat-lists.parquet"), LabelFile: at("labels.parquet")}, Split: &importer.Split{Parts: "60/20/20"}},
		{Reading: importer.Reading{Edges: at("all.npz:edges"), FeatureFile: at("all.npz:feat"), LabelFile: "random:3"}, Split: &importer.Split{Parts: "60/20/20"}},
		{Reading: importer.Reading{FeatureFile: "random:2", LabelFile: "random:3"}, Split: &importer.Split{Parts: "60/20/20"}, Sources: []string{at("edges.graph-txt")}},
	} {
		o.Resources = dataset.Resources{Workers: 2}
		what := append(slices.Clone(o.Sources), o.Edges)
		for _, every := range []int{0, 17} {
			files := importertest.NewFiles(datasettest.FS)
			fail := &vfs.FailAt{N: every, Err: errors.New("boom"), Match: func(op vfs.Op, _ string) bool { return every > 0 }}
			fsys := vfs.Inject(files, fail)
			out := filepath.Join(t.TempDir(), "D")
			_, errPlan := all.MakePlan(t.Context(), fsys, out, all.Auto, o, progress.Discard)
			_, err := all.Import(t.Context(), fsys, out, all.Auto, o, progress.Discard)
			if every == 0 && (err != nil || errPlan != nil) {
				t.Errorf("%v: %v, %v", what, errPlan, err)
			}
			for _, f := range files.StillOpen() {
				t.Errorf("%v, failing at %d (%v, %v): %s is still open", what, every, errPlan, err, f)
			}
		}
	}
}
