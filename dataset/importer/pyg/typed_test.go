package pyg_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/pyg"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

func typedOf(t *testing.T, name string, r importer.Reading) *dataset.Dataset {
	t.Helper()
	r.Typed = true
	dir, _ := importertest.Imported(t, pyg.Format, filepath.Join("testdata", name+".pt"), r)
	d := datasettest.Verified(t, dir)
	return d
}

// TestTyped imports a graph of several types in all forms.
func TestTyped(t *testing.T) {
	for _, name := range []string{"typed", "typed-object", "typed-tuple"} {
		importertest.SameTyped(t, typedOf(t, name, importer.Reading{}), filepath.Join("testdata", "typed.txt"))
	}
	// The same in sparse tensors, which tell the number of venues.
	adj := importertest.TypedText(t, typedOf(t, "typed-adj", importer.Reading{}))
	want, err := os.ReadFile(filepath.Join("testdata", "typed.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if adj != string(want) {
		t.Errorf("of sparse tensors: %s", adj)
	}
	_, res := importertest.Imported(t, pyg.Format, filepath.Join("testdata", "typed.pt"), importer.Reading{Typed: true})
	if notes := strings.Join(res.Notes, "\n"); !strings.Contains(notes, "data of edges is not imported: paper:in:venue.edge_weight") || !strings.Contains(notes, "author (6), paper (9, labels), venue (3, no features)") {
		t.Errorf("notes %q", res.Notes)
	}
}

// TestTypedChoices leaves out features, and chooses the type with labels.
func TestTypedChoices(t *testing.T) {
	f := typedOf(t, "typed-widths", importer.Reading{Featureless: []string{"author"}}).Facts()
	if k := f.Types.Nodes; f.Dim != 4 || k[0].Name != "paper" || k[1].Features || k[2].Features || f.LabelledType != 0 {
		t.Errorf("%+v", f)
	}
	f = typedOf(t, "typed-labels", importer.Reading{Task: "author"}).Facts()
	if f.LabelledType != 0 || f.Classes != 2 || f.Train != 2 || f.Unlabelled != 12 {
		t.Errorf("%+v", f)
	}
	f = typedOf(t, "typed-labels", importer.Reading{For: importer.ForPredict, Task: "paper"}).Facts()
	if f.LabelledType != 1 || f.Labelled() {
		t.Errorf("%+v", f)
	}
}

func TestTypedRefuses(t *testing.T) {
	typed := importer.Reading{Typed: true}
	for _, c := range []struct {
		name string
		r    importer.Reading
		says string
		kind error
	}{
		{"data", typed, "its graph has one type of nodes (Data): import it without --typed", fault.ErrInput},
		{"two", typed, "several graphs", fault.ErrInput},
		{"hetero-object", typed, "0 node types have labels y (none)", fault.ErrInput},
		{"typed", importer.Reading{}, "its graph has several types (HeteroData): give --typed", fault.ErrInput},
		{"typed-widths", typed, "the features of the node type paper have 4 elements, but of author they have 2: give --without-features paper or author", fault.ErrInput},
		{"typed-labels", typed, "2 node types have labels y (author, paper): choose one with --task", fault.ErrInput},
		{"typed-unknown", typed, `the number of nodes of the type venue is not known: set data["venue"].num_nodes`, fault.ErrInput},
		{"typed", importer.Reading{Typed: true, Task: "city"}, "--task city", fault.ErrUsage},
		{"typed", importer.Reading{Typed: true, Task: "venue"}, "the node type venue has no labels y; with labels it has paper", fault.ErrInput},
		{"typed", importer.Reading{Typed: true, Featureless: []string{"city"}}, "--without-features city", fault.ErrUsage},
		{"typed", importer.Reading{Typed: true, Featureless: []string{"author", "paper"}}, "no node type has features", fault.ErrInput},
		{"typed", importer.Reading{Featureless: []string{"author"}}, "only with --typed", fault.ErrUsage},
		{"data", importer.Reading{Task: "paper"}, "takes it with --typed alone", fault.ErrUsage},
	} {
		o := importer.Options{Sources: []string{filepath.Join("testdata", c.name+".pt")}, Reading: c.r}
		_, err := importer.Import(t.Context(), datasettest.FS, filepath.Join(t.TempDir(), "D"), pyg.Format, o, progress.Discard)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s, %+v: %v; want %q", c.name, c.r, err, c.says)
		}
	}
}

// FuzzTyped fuzzes the types and attributes that a file says that its graph has.
func FuzzTyped(f *testing.F) {
	typed := pyg.Format
	typed.Open = func(fsys vfs.FS, sources []string, o *importer.Reading) (importer.Source, error) {
		o.Typed = true
		return pyg.Format.Open(fsys, sources, o)
	}
	fuzzAs(f, typed, "testdata/typed-object.pt")
}
