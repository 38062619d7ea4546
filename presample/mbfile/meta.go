package mbfile

import (
	"fmt"
	"slices"

	"diskgnn/graph"
	"diskgnn/internal/stage"
)

// Format is the directory format that this package reads and writes. MultiLabelFormat is its version
// for batches with Targets, and TypedFormat for typed graphs, with Targets or without.
var (
	Format           = stage.Format{Name: "diskgnn.samples", Version: 1}
	MultiLabelFormat = stage.Format{Name: Format.Name, Version: 2}
	TypedFormat      = stage.Format{Name: Format.Name, Version: 3}
)

// version has the properties of a version of the format.
type version struct {
	plain, targets bool // batches may have one class for each seed node, and Targets
	typed          bool
	decodeIndex    func([]byte) (*index, error)
}

var versions = stage.Versions[version]{
	Format.Version:           {plain: true, decodeIndex: decodeIndex},
	MultiLabelFormat.Version: {targets: true, decodeIndex: decodeIndex},
	TypedFormat.Version:      {plain: true, targets: true, typed: true, decodeIndex: decodeTypedIndex},
}

// FormatFor returns the format of samples with the given length of Targets in bytes for each seed
// node, of a typed graph or another.
func FormatFor(targetBytes int, typed bool) stage.Format {
	if typed {
		return TypedFormat
	}
	if targetBytes > 0 {
		return MultiLabelFormat
	}
	return Format
}

// Names of the files in a SAMPLES directory.
const (
	IndexFile   = "index.bin"
	HotnessFile = "hotness.bin"
	SumsFile    = "hotness.bin.sums"
)

// BatchesFile returns the name of the i-th file of batches.
func BatchesFile(i int) string { return fmt.Sprintf("batches-%05d.bin", i) }

// AllNeighbours is the value in a fanout with which a destination takes all its in-neighbours.
const AllNeighbours = -1

// Labor is the Params.Method of LABOR-0: the destinations of a hop prefer the same neighbours. Package
// sampler defines it.
const Labor = "labor"

// Orders of batches that are drawn from the partitions of the graph in a buffer; package sampler
// defines them.
const (
	Dispersed  = "dispersed"  // the buffer changes during an epoch, along a walk of package walk
	Sequential = "sequential" // it is the same throughout an epoch
)

// MaxBatchDependency is the largest Params.BatchDependency.
const MaxBatchDependency = 1 << 20

// Params are the content parameters of a SAMPLES directory: together with the dataset they determine
// every byte.
type Params struct {
	BatchSize  int     `json:"batch_size"`
	Fanout     []int   `json:"fanout"`      // input side first; the last entry is for the seed nodes
	EvalFanout []int   `json:"eval_fanout"` // for validation and test batches
	Epochs     int     `json:"epochs"`
	TrainRatio float64 `json:"train_ratio"`
	Order      string  `json:"order"`
	Seed       uint64  `json:"seed"`
	// Sampler is the version of the sampler. It changes whenever the same parameters give other
	// batches.
	Sampler int `json:"sampler"`
	// Method is the way in which a destination chooses among its in-neighbours: "" (uniformly, each
	// destination by itself) or Labor. The next two fields are for Labor only.
	Method string `json:"method,omitempty"`
	// BatchDependency is the number of successive batches over which Labor's random numbers change
	// gradually; 0: every batch has its own.
	BatchDependency int  `json:"batch_dependency,omitempty"`
	LayerDependency bool `json:"layer_dependency,omitempty"` // all hops have the same random numbers
	// For the orders Dispersed and Sequential: the number of partitions of the graph, and of the
	// partitions in the buffer; 0 for other orders. Walk is for Dispersed only.
	Partitions int    `json:"partitions,omitempty"`
	Buffer     int    `json:"buffer,omitempty"`
	Walk       string `json:"walk,omitempty"`
	// For typed graphs. RelationFanout has the fanout of every relation, by its names (graph.Types.Triple), and
	// Fanout the largest; nil: all relations have Fanout. EvalRelationFanout is the same for evaluation. Merged says that
	// a destination draws from all relations into it together.
	RelationFanout     map[string][]int `json:"relation_fanout,omitempty"`
	EvalRelationFanout map[string][]int `json:"eval_relation_fanout,omitempty"`
	Merged             bool             `json:"merged,omitempty"`
}

// ByRelation returns the fanout of every relation, for evaluation or for training; nil if all relations have the same.
func (p *Params) ByRelation(t *graph.Types, eval bool) [][]int {
	fanout := p.RelationFanout
	if eval {
		fanout = p.EvalRelationFanout
	}
	if fanout == nil {
		return nil
	}
	by := make([][]int, len(t.Relations))
	for r := range by {
		by[r] = fanout[t.Triple(r)]
	}
	return by
}

// Most returns the largest fanout of each layer.
func Most(fanouts [][]int) []int {
	most := slices.Clone(fanouts[0])
	for _, f := range fanouts {
		for l, n := range f {
			if most[l] != AllNeighbours && (n == AllNeighbours || n > most[l]) {
				most[l] = n
			}
		}
	}
	return most
}

// Facts are the counts of a SAMPLES directory, by which readers size buffers and plans. In a shard
// they count its own batches, except the fields before FirstFile and TargetBytes.
type Facts struct {
	// Nodes is the number of nodes of the graph; of a typed graph, the number of its rows of features, which the
	// input nodes of its batches are.
	Nodes           int64        `json:"nodes"`
	Types           *graph.Types `json:"types,omitempty"`     // of a typed graph
	SeedType        int          `json:"seed_type,omitempty"` // place of the seed nodes' type
	Layers          int          `json:"layers"`              // number of blocks of a batch
	Epochs          int          `json:"epochs"`              // number of sample epochs
	BatchesPerEpoch int          `json:"batches_per_epoch"`
	FirstFile       int          `json:"first_file,omitempty"` // number of a shard's first file of batches
	TrainBatches    int          `json:"train_batches"`        // epochs × batches per epoch
	ValidBatches    int          `json:"valid_batches"`
	TestBatches     int          `json:"test_batches"`
	TargetBytes     int          `json:"target_bytes,omitempty"` // bytes of Targets for each seed node, 0 if not multi-label
	// TypeInputs has, of a typed graph, the number of the training batches' input nodes of each type. Earlier
	// versions did not count them.
	TypeInputs []int64 `json:"type_input_nodes,omitempty"`
	Train      Summary `json:"train"` // all epochs
	Eval       Summary `json:"eval"`  // validation and test
}

// Batches returns the number of all batches.
func (f Facts) Batches() int { return f.TrainBatches + f.ValidBatches + f.TestBatches }

// Summary has the sums over a range of batches, and their largest and mean sizes.
type Summary struct {
	SeedNodes  int64 `json:"seed_nodes"`
	InputNodes int64 `json:"input_nodes"`
	Edges      int64 `json:"edges"`
	Bytes      int64 `json:"bytes"` // of the byte forms
	// Max holds the largest counts of any one batch, layer by layer; buffers and graphs of fixed shape
	// have these sizes. Mean holds the averages, rounded, for cost models. Both are of length 0 when
	// the range is empty.
	Max  graph.Sizes `json:"max"`
	Mean graph.Sizes `json:"mean"`
}

// summarize adds up the batches lo to hi-1.
func summarize(ix *index, lo, hi int) Summary {
	s := Summary{Max: sizesOf(ix.layers, ix.typed), Mean: sizesOf(ix.layers, ix.typed)}
	if lo == hi {
		s.Max, s.Mean = sizesOf(0, false), sizesOf(0, false)
		return s
	}
	nodes, edges, rows := make([]int64, ix.layers+1), make([]int64, ix.layers), make([]int64, ix.layers)
	for i := lo; i < hi; i++ {
		b := ix.info(i)
		s.SeedNodes += int64(b.Seeds())
		s.InputNodes += int64(b.InputNodes())
		s.Edges += b.NumEdges()
		s.Bytes += b.Size
		for l, n := range b.Nodes {
			nodes[l] += int64(n)
		}
		for l, n := range b.Edges {
			edges[l] += int64(n)
			s.Max.Src[l] = max(s.Max.Src[l], int(b.Nodes[l]))
			s.Max.Dst[l] = max(s.Max.Dst[l], int(b.Nodes[l+1]))
			s.Max.Edges[l] = max(s.Max.Edges[l], int(n))
		}
		for l, n := range b.Rows {
			rows[l] += int64(n)
			s.Max.Rows[l] = max(s.Max.Rows[l], int(n))
		}
	}
	mean := func(sum int64) int { n := int64(hi - lo); return int((sum + n/2) / n) }
	for l := range edges {
		s.Mean.Src[l], s.Mean.Dst[l], s.Mean.Edges[l] = mean(nodes[l]), mean(nodes[l+1]), mean(edges[l])
	}
	for l := range s.Mean.Rows {
		s.Mean.Rows[l] = mean(rows[l])
	}
	return s
}

func sizesOf(layers int, typed bool) graph.Sizes {
	s := graph.Sizes{Src: make([]int, layers), Dst: make([]int, layers), Edges: make([]int, layers)}
	if typed {
		s.Rows = make([]int, layers)
	}
	return s
}
