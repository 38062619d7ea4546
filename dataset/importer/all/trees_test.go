package all_test

import (
	"testing"

	"diskgnn/dataset/importer/importertest"
)

type tree = importertest.Tree

var (
	npyFile  = importertest.NPY
	npyOrder = importertest.NPYOrder
	vector   = importertest.Vector
)

func save(t testing.TB, name string, content []byte) {
	t.Helper()
	importertest.Save(t, name, content)
}

// benchmarkTree is a graph in gnn-benchmark's layout: 5 nodes; the edges 0→1,
// 1→0, 0→2, 2→2 and 4→3 twice; 3 features, sparse, one entry in two parts.
func benchmarkTree() tree {
	return tree{
		"g.npz/adj_data":       vector([]float32{1, 1, 1, 1, 1, 1}),
		"g.npz/adj_indptr":     vector([]int32{0, 2, 3, 4, 4, 6}),
		"g.npz/adj_indices":    vector([]int32{1, 2, 0, 2, 3, 3}),
		"g.npz/adj_shape":      vector([]int64{5, 5}),
		"g.npz/attr_data":      vector([]float32{2, 6, 1, 0.5, 0.5, 3}),
		"g.npz/attr_indptr":    vector([]int32{0, 2, 3, 3, 5, 6}),
		"g.npz/attr_indices":   vector([]int32{2, 0, 1, 1, 1, 0}),
		"g.npz/attr_shape":     vector([]int64{5, 3}),
		"g.npz/labels":         vector([]int64{0, 2, 1, -1, 0}),
		"g_split.npz/train":    vector([]int64{4, 0, 3}),
		"g_split.npz/valid":    vector([]int64{2}),
		"g_split.npz/test":     vector([]int64{1}),
		"g.npz/another_member": vector([]bool{true}),
	}
}

// boltTree is a graph in GraphBolt's layout: 4 nodes, 5 directed edges of which
// one is there twice and one is a self-loop, 2 features.
func boltTree() tree {
	return tree{
		"metadata.yaml": []byte(`dataset_name: tiny
graph:
  nodes:
    - num: 4
  edges:
    - {format: numpy, path: edges.npy}
feature_data:
  - {domain: node, name: year, format: numpy, in_memory: true, path: nosuch.npy}
  - {domain: node, name: feat, format: numpy, in_memory: false, path: feat.npy}
  - {domain: edge, name: weight, format: torch, path: weight.pt}
tasks:
  - name: node_classification
    num_classes: 3
    train_set:
      - data:
          - {name: seeds, format: numpy, in_memory: true, path: train.npy}
          - {name: labels, format: numpy, path: train_labels.npy}
    validation_set:
      - data:
          - {name: seeds, format: csv, path: valid.csv}
          - {name: labels, format: csv, path: valid_labels.csv}
    test_set:
      - data:
          - {name: seeds, format: numpy, path: test.npy}
          - {name: labels, format: numpy, path: test_labels.npy}
`),
		"edges.npy":        npyFile("(2, 5)", []int64{3, 0, 1, 1, 2, 0, 1, 0, 0, 2}),
		"feat.npy":         npyFile("(4, 2)", []float32{1, 2, 3, 4, -5, 6, 0, 8}),
		"train.npy":        vector([]int32{2, 0}),
		"train_labels.npy": vector([]uint8{1, 2}),
		"valid.csv":        []byte("3\n"),
		"valid_labels.csv": []byte("0"),
		"test.npy":         vector([]int16{1}),
		"test_labels.npy":  npyFile("(1, 1)", []int64{2}),
	}
}
