package graphbolt_test

import (
	"os"
	"testing"

	"diskgnn/dataset/importer/graphbolt"
	"diskgnn/dataset/importer/importertest"
)

const (
	tutorialTree     = "testdata/tutorial"
	preprocessedTree = "testdata/preprocessed"
	topologyFile     = "preprocessed/fused_csc_sampling_graph.pt"
)

func FuzzMetadata(f *testing.F) {
	seed, err := os.ReadFile(tutorialTree + "/metadata.yaml")
	if err != nil {
		f.Fatal(err)
	}
	importertest.Fuzz(f, graphbolt.Format, tutorialTree, "metadata.yaml", string(seed), importertest.Plain)
}

func FuzzTopology(f *testing.F) {
	seed, pack := importertest.Pickle(f, preprocessedTree+"/"+topologyFile)
	importertest.Fuzz(f, graphbolt.Format, preprocessedTree, topologyFile, seed, pack)
}
