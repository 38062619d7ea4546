package packfile

import (
	"slices"

	"diskgnn/graph"
	"diskgnn/internal/dtype"
)

// Params are the content parameters of a pack.
type Params struct {
	CacheRows int64      `json:"cache_rows"` // least hot set: every trainer must hold it
	Bands     []float64  `json:"bands"`      // wanted edges, in percent of the nodes
	DType     dtype.Type `json:"dtype"`
	Policy    string     `json:"policy"`
	MaxDisk   int64      `json:"max_disk,omitempty"` // bytes; 0: unlimited
	Codec     string     `json:"codec"`              // codec of the chunks
	// EvalChunks: validation batches have chunks too.
	EvalChunks bool `json:"eval_chunks,omitempty"`
}

// Facts are the counts that a trainer needs before it reads anything else.
type Facts struct {
	Nodes    int64        `json:"nodes"`           // rows of features
	Types    *graph.Types `json:"types,omitempty"` // of a typed graph
	SeedType int          `json:"seed_type,omitempty"`
	Classes  int          `json:"classes"`
	// TargetBytes is the size of a seed node's classes in a multi-label graph; 0: it has one class.
	TargetBytes int        `json:"target_bytes,omitempty"`
	Dim         int        `json:"dim"`
	DType       dtype.Type `json:"dtype"`
	RowBytes    int        `json:"row_bytes"`
	Metric      string     `json:"metric,omitempty"` // usual metric of the dataset, "" if unknown

	// TableBytes is the size of the dataset's feature table before compression. Disk budgets and the
	// blow-up are multiples of it.
	TableBytes int64 `json:"table_bytes"`

	HotRows  int64 `json:"hot_rows"`
	EvalRows int64 `json:"eval_rows"`
	SSDRows  int64 `json:"ssd_rows"`
	ColdRows int64 `json:"cold_rows"`
	// EvalColdRows are the rows in the chunks of validation batches.
	EvalColdRows int64 `json:"eval_cold_rows,omitempty"`

	Segment  int `json:"segment"`  // batches per segment; 1: no SSD level
	Segments int `json:"segments"` // number of segments of training batches

	Train           int `json:"train_batches"`
	Valid           int `json:"valid_batches"`
	Test            int `json:"test_batches"`
	Epochs          int `json:"epochs"`
	BatchesPerEpoch int `json:"batches_per_epoch"`

	Fanout     []int `json:"fanout"`
	EvalFanout []int `json:"eval_fanout"`

	// TypeInputs has, of a typed graph, the number of the training batches' input nodes of each type; nil: unknown.
	TypeInputs []int64 `json:"type_input_nodes,omitempty"`

	TrainSizes graph.Sizes `json:"train_sizes"` // maxima over the training batches
	EvalSizes  graph.Sizes `json:"eval_sizes"`
	TrainMeans graph.Sizes `json:"train_means"` // rounded means over the training batches

	ChunkBytes int64 `json:"chunk_bytes"` // bytes of the rows of the largest cold chunk, before compression
	GraphBytes int64 `json:"graph_bytes"` // bytes of the largest graph with its plan, evaluation included
}

// MultiLabel reports whether a node has any number of classes, not exactly one.
func (f *Facts) MultiLabel() bool { return f.TargetBytes > 0 }

// BandEdges turns the wanted edges, in percent of the nodes, into descending ranks. The last edge is the
// least hot set, of cacheRows or touched rows if that is less. Wanted edges at or below it are left out. No
// edge is above touched, the number of nodes that training uses.
func BandEdges(nodes, touched, cacheRows int64, percent []float64) []int64 {
	least := min(cacheRows, touched)
	edges := []int64{least}
	for _, p := range percent {
		if e := min(int64(p/100*float64(nodes)), touched); e > least {
			edges = append(edges, e)
		}
	}
	slices.Sort(edges)
	slices.Reverse(edges)
	return slices.Compact(edges)
}
