package graphsaint_test

import (
	"os"
	"testing"

	"diskgnn/dataset/importer/graphsaint"
	"diskgnn/dataset/importer/importertest"
)

// FuzzRoles fuzzes the lists of nodes, and FuzzClasses their classes.
func FuzzRoles(f *testing.F)   { fuzz(f, "raw/role.json") }
func FuzzClasses(f *testing.F) { fuzz(f, "raw/class_map.json") }

func fuzz(f *testing.F, file string) {
	const tree = "testdata/yelp"
	seed, err := os.ReadFile(tree + "/" + file)
	if err != nil {
		f.Fatal(err)
	}
	importertest.Fuzz(f, graphsaint.Format, tree, file, string(seed), importertest.Plain)
}
