package dgl_test

import (
	"path/filepath"
	"testing"

	"diskgnn/dataset/importer/dgl"
	"diskgnn/dataset/importer/importertest"
)

// FuzzLayout fuzzes everything behind the first 4096 bytes.
func FuzzLayout(f *testing.F) {
	tree := f.TempDir()
	whole := tiny("coo", "csc")
	whole.labels = []datum{{name: "glabel", values: []int64{1}}}
	content := whole.bytes()
	importertest.Save(f, filepath.Join(tree, "g.bin"), content)
	const fixed = 4096
	for _, other := range []written{tiny("csr"), hetero()} {
		f.Add(string(other.bytes()[fixed:]))
	}
	importertest.Fuzz(f, dgl.Format, tree, "g.bin", string(content[fixed:]), func(text string) ([]byte, error) {
		return append(content[:fixed:fixed], text...), nil
	})
}
