// Package exact is inference over a whole graph, layer by layer: every node is
// computed from all of its neighbours, once per layer. The features and hidden states of
// the graph need not fit in memory.
//
//	features ─► layer 0 ─► states ─► layer 1 ─► … ─► last layer ─► scores, or a file
//	(dataset)              (scratch)
//
// A layer is computed over a grid of tiles of destinations and blocks of sources (package grid): the table
// of its input rows is read in sequence, once for each tile, and the tiles' sums fill the memory. The last
// layer is computed only for the requested nodes.
//
// A job is a list of steps: the input projection, if the model has one, and the layers. The rows of a step
// are a state, the table of the next step. A state stays in memory, or goes to the scratch directory, in
// pieces with checksums: the plan chooses for all steps together, so that the fewest bytes are read and
// written. So the bytes to read are known before the work starts, exactly, and more than Options.MaxRead is
// refused.
//
// Whether a layer multiplies or aggregates first follows from the graph and the widths. So results have the
// same bits for any memory and any number of threads, with one library of matrix products. If the weight
// of an edge depends on the others in its block (model.BlockNorm), the block is the whole graph. With
// states of bfloat16 the results differ from others, but not from each other.
//
// The CPU or a GPU computes the layers (Options.Engine). Results of one engine have the same bits for any memory
// of the host and of the GPU, any tiles and blocks and any number of threads; on a GPU, for one kind of device and
// one version of cuBLAS. Between engines they differ by rounding. In the tests' small models the GPU's rows of a
// layer are within 1e-5 of the CPU's, and the outputs of both engines within 2e-4 of the formulas in float64 where
// a node has thousands of neighbours: of the value, or of one where the value is smaller.
//
// In a typed graph the last layer is for nodes of the seed type, and layers before it are for the types that the next
// layer reads: states have rows of these types alone.
//
// After each tile of a layer with its output on disk, the rows are made durable and noted with a checksum. The
// scratch directory is removed at the end, also after an error. If the work was interrupted, killed or cut off by
// a loss of power, the states stay, and the same work goes on from the last tile, on the same engine. The last
// layer's rows are no state: that layer begins again.
package exact

import (
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"diskgnn/dataset"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/shard"
	"diskgnn/iostack/all"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/decide"
	"diskgnn/train/trained"
)

// Options choose the run, its weights, the graph, and the resources for inference.
type Options struct {
	Run     string // directory of a run
	Dataset string // directory of the dataset that it was trained on, or of another graph
	Weights string // trained.WeightsBest or WeightsFinal; "" means best
	Scratch string // where the directory of hidden states is made; "" means beside the run
	Memory  int64  // anonymous and locked bytes; 0 means budget.Default
	Engine  string // of Engines; "" means auto: the GPU if there is one
	// GPUMemory is the most bytes of the GPU's memory that are held; 0 means all that is free but a reserve.
	GPUMemory int64
	Threads   int    // 0 means GOMAXPROCS
	IO        string // a kind that iostack/all knows; "" means auto
	BLAS      string // a kind that blas.Open knows; "" means auto
	// MaxRead is the most bytes to read: bytes, a multiple of the feature table, or unlimited. Nil:
	// a hundred feature tables, or ten times all tables that are read, whichever is more.
	MaxRead *budget.Size
	// StateDType is the type of hidden states while they wait for the next layer: float32 or bf16, which takes
	// half of the memory or disk. "" means float32.
	StateDType string
	// Accept lists the permitted differences in preprocessing between this graph and the run's, by
	// dataset.PreprocessingNames; AcceptAll stands for all.
	Accept []string
}

// Engines returns the values of --engine.
func Engines() []string { return []string{decide.EngineAuto, decide.EngineCPU, decide.EngineGPU} }

// Types of hidden states, as --state-dtype names them.
const (
	StateFloat32 = "float32"
	StateBF16    = "bf16"
)

// StateDTypes returns the values of --state-dtype.
func StateDTypes() []string { return []string{StateFloat32, StateBF16} }

// stateType returns the type of hidden states.
func (o *Options) stateType() dtype.Type {
	if o.StateDType == StateBF16 {
		return dtype.BFloat16
	}
	return dtype.Float32
}

// AcceptAll permits any difference in preprocessing.
const AcceptAll = "all"

// EnsureDefaults replaces zero values by their defaults.
func (o *Options) EnsureDefaults() {
	if o.StateDType == "" {
		o.StateDType = StateFloat32
	}
	if o.Weights == "" {
		o.Weights = trained.WeightsBest
	}
	if o.Engine == "" {
		o.Engine = decide.EngineAuto
	}
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if o.IO == "" {
		o.IO = all.Auto
	}
	if o.BLAS == "" {
		o.BLAS = blas.Auto
	}
	if o.Memory == 0 {
		o.Memory, _ = budget.Default()
	}
}

// Validate returns an error that names the first invalid flag. Call EnsureDefaults before.
func (o *Options) Validate() error {
	if o.Dataset == "" {
		return fault.New(fault.ErrUsage, "--dataset is missing: name the directory that `diskgnn generate` or `diskgnn import` made")
	}
	if !slices.Contains(StateDTypes(), o.StateDType) {
		return fault.New(fault.ErrUsage, "--state-dtype %s is not one of %s", o.StateDType, strings.Join(StateDTypes(), ", "))
	}
	switch {
	case !slices.Contains(Engines(), o.Engine):
		return fault.New(fault.ErrUsage, "--engine %s is not one of %s", o.Engine, strings.Join(Engines(), ", "))
	case o.GPUMemory < 0:
		return fault.New(fault.ErrUsage, "--gpu-memory %d: give a positive size", o.GPUMemory)
	case o.GPUMemory > 0 && o.Engine == decide.EngineCPU:
		return fault.New(fault.ErrUsage, "--gpu-memory is for --engine %s", decide.EngineGPU)
	}
	for _, name := range o.Accept {
		if name != AcceptAll && !slices.Contains(dataset.PreprocessingNames, name) {
			return fault.New(fault.ErrUsage, "--accept %s is not one of %s, %s", name, strings.Join(dataset.PreprocessingNames, ", "), AcceptAll)
		}
	}
	if o.MaxRead != nil && o.MaxRead.Unit == budget.UnitPercent {
		return fault.New(fault.ErrUsage, "--max-read %s: give a size (2TiB), a multiple of the feature table (50x) or unlimited", o.MaxRead)
	}
	return trained.CheckEngineFlags(o.Run, o.Weights, o.BLAS, o.Memory, o.Threads)
}

// Contents of a prediction, as --output names them.
const (
	Logits     = "logits"     // float32, a column per class
	Classes    = "classes"    // int32, the class of the largest logit; multi-label: uint8 (in Parquet int32), a column per class
	Embeddings = "embeddings" // float32, the output of the last hidden layer
)

// Outputs returns the values of --output.
func Outputs() []string { return []string{Logits, Classes, Embeddings} }

// AllNodes selects every node as --nodes; a split's name selects its nodes.
const AllNodes = "all"

// PredictOptions choose the nodes, the values and the file of a prediction.
type PredictOptions struct {
	Options
	Out    string // file to make; its suffix chooses the format: .npy, .csv, .parquet
	Output string // "" means logits
	Nodes  string // all, a split, or a file of ids, original ones where nodes have some, one a line; "" means all
	Force  bool   // replace a file that is there
	// Shard, unless it is the whole, is the share of the nodes to predict, into the directory Shard.DirName(Out).
	// Merge makes the file of all shares.
	Shard shard.Shard
}

// EnsureDefaults replaces zero values by their defaults.
func (o *PredictOptions) EnsureDefaults() {
	o.Options.EnsureDefaults()
	if o.Output == "" {
		o.Output = Logits
	}
	if o.Nodes == "" {
		o.Nodes = AllNodes
	}
}

// Validate returns an error that names the first invalid flag. Call EnsureDefaults before.
func (o *PredictOptions) Validate() error {
	switch {
	case o.Out == "":
		return fault.New(fault.ErrUsage, "--out is missing: name the file to make")
	case !slices.Contains(Outputs(), o.Output):
		return fault.New(fault.ErrUsage, "--output %s is not one of %s", o.Output, strings.Join(Outputs(), ", "))
	}
	return errors.Join(checkSuffix(o.Out), o.Shard.Validate(), o.Options.Validate())
}

// Suffixes of the files of predictions.
const (
	suffixNPY     = ".npy"     // a NumPy array; the ids of its rows are in NAME.nodes.npy beside, or names in NAME.nodes.txt, but for all nodes that are called by their numbers
	suffixCSV     = ".csv"     // a header and a line a node, which begins with its id
	suffixParquet = ".parquet" // a column of ids, and one a value
)

// checkSuffix refuses a file name without a known suffix.
func checkSuffix(name string) error {
	switch filepath.Ext(name) {
	case suffixNPY, suffixCSV, suffixParquet:
		return nil
	}
	return fault.New(fault.ErrUsage, "--out %s: give a name that ends in .npy, .csv or .parquet: it chooses the format", name)
}
