package dglchunked_test

import (
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/dglchunked"
	"diskgnn/dataset/importer/importertest"
)

// typedOf imports a graph with its types.
func typedOf(t *testing.T, source string) (string, []string) {
	t.Helper()
	dir, res := importertest.Imported(t, dglchunked.Format, source, importer.Reading{Typed: true})
	d := datasettest.Verified(t, dir)
	return importertest.TypedText(t, d), res.Notes
}

// TestTyped imports graphs with their types: the one with features is the first.
func TestTyped(t *testing.T) {
	text, _ := typedOf(t, write(t, three(good)))
	const want = `type c: 3 nodes
type a: 2 nodes without features
type b: 3 nodes without features
relation a:to:c
a:to:c: 1 <- 0
a:to:c: 2 <- 1
feat c 0: 5
feat c 1: 6
feat c 2: 7
label c 0: 1
label c 1: 0
label c 2: 1
train: 0
valid:
test:
`
	if text != want {
		t.Errorf("%s\nwant\n%s", text, want)
	}
	text, notes := typedOf(t, filepath.Join("testdata", "many"))
	if !strings.HasPrefix(text, "type paper: ") || strings.Count(text, " <- ") != 45 || strings.Count(text, "relation ") != 3 ||
		!strings.Contains(strings.Join(notes, "\n"), "data of nodes of the types author is not imported: only the type paper has features") {
		t.Errorf("%s\n%q", text, notes)
	}
	importertest.Refused(t, dglchunked.Format, filepath.Join("testdata", "one"), importer.Reading{Typed: true}, "has one type of nodes: import it without --typed")
}
