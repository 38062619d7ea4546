package all_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/all"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
)

// Imported for predict, a source of any format has the same edges and features, and neither labels
// nor splits. Where labels are in files or arrays of their own, these may be absent.
func TestForPredict(t *testing.T) {
	at := func(name string) string { return filepath.Join(fixtures, "raw", name) }
	raw := importer.Reading{Edges: at("edges.npy"), FeatureFile: at("feat.npy")}
	labelled := raw
	labelled.LabelFile, labelled.SplitFiles = at("labels.csv"), []string{at("train.npy"), at("valid.npy"), at("test.csv")}
	written := func(tr tree) string {
		dir := t.TempDir()
		tr.Write(t, dir)
		return dir
	}
	// without copies a source, but for some files.
	without := func(source string, gone ...string) string {
		dir := filepath.Join(t.TempDir(), "source")
		check(t, os.CopyFS(dir, os.DirFS(source)))
		for _, name := range gone {
			found, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(name)))
			check(t, err)
			if len(found) == 0 {
				t.Fatalf("%s has no %s", source, name)
			}
			for _, f := range found {
				check(t, os.Remove(f))
			}
		}
		return dir
	}
	bare := boltTree()
	bare["metadata.yaml"], _, _ = bytes.Cut(bare["metadata.yaml"], []byte("tasks:"))
	for _, name := range []string{"train.npy", "train_labels.npy", "valid.csv", "valid_labels.csv", "test.npy", "test_labels.npy"} {
		delete(bare, name)
	}
	archive := benchmarkTree()
	for _, name := range []string{"g.npz/labels", "g_split.npz/train", "g_split.npz/valid", "g_split.npz/test"} {
		delete(archive, name)
	}
	dgl, flickr := "../dglchunked/testdata/", "../graphsaint/testdata/flickr"
	for name, c := range map[string]struct {
		source, bare string // with labels, and without; the same where there is none without
		o, of        importer.Reading
	}{
		"raw":           {o: labelled, of: raw},
		"graphbolt":     {source: written(boltTree()), bare: written(bare)},
		"gnn-benchmark": {source: written(benchmarkTree()) + "/g.npz", bare: written(archive) + "/g.npz"},
		"graphsaint":    {source: flickr, bare: without(flickr, "raw/class_map.json", "raw/role.json")},
		"reddit":        {source: "../graphsaint/testdata/reddit"},
		"dgl-chunked":   {source: dgl + "one", bare: without(dgl+"one", "node_data/*/label-*", "node_data/*/*_mask-*")},
		"dgl types":     {source: dgl + "many", o: importer.Reading{Task: "paper"}},
		"pyg":           {source: "../pyg/testdata/data.pt"},
		"ogb":           {source: fixtures + "/ogb/arxiv"},
		"ogb types":     {source: fixtures + "/ogb/hetero"},
		"igb":           {source: fixtures + "/igb/tiny"},
	} {
		run := func(source string, o importer.Reading) (string, dataset.Result) {
			out := filepath.Join(t.TempDir(), "D")
			options := importer.Options{Reading: o}
			if source != "" {
				options.Sources = []string{source}
			}
			res, err := all.Import(t.Context(), datasettest.FS, out, all.Auto, options, progress.Discard)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return out, res
		}
		if c.of.Edges == "" {
			c.of = c.o
		}
		if c.of.For = importer.ForPredict; c.bare == "" {
			c.bare = c.source
		}
		want, _ := run(c.source, c.o)
		got, res := run(c.bare, c.of)
		if res.LabelKind != "none" || res.Classes != 0 || res.Train+res.Valid+res.Test != 0 || res.Unlabelled != res.Nodes {
			t.Errorf("%s: %+v", name, res)
		}
		d := datasettest.Verified(t, got)
		if f := d.Facts(); f.Labelled() {
			t.Errorf("%s: %+v", name, f)
		}
		if _, err := d.Labels(); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "has no labels and splits") {
			t.Errorf("%s: labels: %v", name, err)
		}
		for _, file := range []string{dataset.IndptrFile, dataset.IndicesFile, dataset.FeaturesFile} {
			a, err := os.ReadFile(filepath.Join(want, file))
			check(t, err)
			b, err := os.ReadFile(filepath.Join(got, file))
			check(t, err)
			if !bytes.Equal(a, b) {
				t.Errorf("%s: another %s than with labels", name, file)
			}
		}
		for _, file := range []string{dataset.LabelsFile, dataset.SplitFile(dataset.Train), dataset.LabelsFile + ".sums"} {
			if _, err := os.Stat(filepath.Join(got, file)); err == nil {
				t.Errorf("%s: there is %s", name, file)
			}
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
