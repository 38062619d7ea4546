package dglchunked_test

import (
	"os"
	"testing"

	"diskgnn/dataset/importer/dglchunked"
	"diskgnn/dataset/importer/importertest"
)

func FuzzMetadata(f *testing.F) {
	const tree, file = "testdata/many", "metadata.json"
	seed, err := os.ReadFile(tree + "/" + file)
	if err != nil {
		f.Fatal(err)
	}
	importertest.Fuzz(f, dglchunked.Format, tree, file, string(seed), importertest.Plain)
}
