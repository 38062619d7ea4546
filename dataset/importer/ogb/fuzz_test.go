package ogb_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"testing"

	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/ogb"
)

// FuzzTypes fuzzes the list of the types of edges, and FuzzNodes how many nodes there are of each
// type.
func FuzzTypes(f *testing.F) { fuzz(f, "raw/triplet-type-list.csv.gz") }
func FuzzNodes(f *testing.F) { fuzz(f, "raw/num-node-dict.csv.gz") }

// fuzz fuzzes a file of text of a set of several types.
func fuzz(f *testing.F, file string) {
	const tree = "../testdata/ogb/hetero"
	packed, err := os.Open(tree + "/" + file)
	if err != nil {
		f.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		f.Fatal(err)
	}
	seed, err := io.ReadAll(z)
	if err != nil {
		f.Fatal(err)
	}
	importertest.Fuzz(f, ogb.Format, tree, file, string(seed), func(content string) ([]byte, error) {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := io.WriteString(z, content); err != nil {
			return nil, err
		}
		if err := z.Close(); err != nil {
			return nil, err
		}
		return b.Bytes(), nil
	})
}
