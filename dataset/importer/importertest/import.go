package importertest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
)

// Imported imports a source into a new directory, and returns that and the result.
func Imported(t testing.TB, format importer.Format, source string, r importer.Reading) (dir string, res dataset.Result) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "D")
	res, err := importer.Import(t.Context(), datasettest.FS, dir, format, importer.Options{Sources: []string{source}, Reading: r}, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return dir, res
}

// Refused makes the plan of a source, see Plan, and imports it. The import must fail with bad input in
// one line that contains says, and change nothing but its own directory.
func Refused(t testing.TB, format importer.Format, source string, r importer.Reading, says string) {
	t.Helper()
	outer, how, before := t.TempDir(), importer.Options{Sources: []string{source}, Reading: r}, listing(source)
	Plan(t, format, how)
	_, err := importer.Import(t.Context(), datasettest.FS, filepath.Join(outer, "D"), format, how, progress.Discard)
	if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: %v; want bad input in one line that says %q", source, err, says)
	}
	left, err := os.ReadDir(outer)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range left {
		if f.Name() != "D.partial" {
			t.Errorf("it left %s", f.Name())
		}
	}
	if after := listing(source); after != before {
		t.Errorf("there was\n%s, now there is\n%s", before, after)
	}
}

// listing describes the files below a directory, or says that it does not exist.
func listing(dir string) string {
	var b strings.Builder
	_ = filepath.Walk(dir, func(path string, st os.FileInfo, err error) error {
		if err != nil {
			fmt.Fprintln(&b, err)
			return nil
		}
		fmt.Fprintln(&b, path, st.Mode(), st.Size())
		return nil
	})
	return b.String()
}
