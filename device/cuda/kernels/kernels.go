// Package kernels holds the kernels of training and inference on a GPU, in the .cu files here, and launches them.
//
// A kernel's arguments are a struct. Its method Launch checks their sizes and enqueues the work on a
// stream; the function of the same name in package plain specifies its result. Sums run in a stated order
// and products are not fused with them, so a kernel gives its twin's bits, but for the exponentials of a
// softmax. Indices are not checked: callers pass validated ones. Launch allocates nothing, and returns the
// errors of cuda.Launch.
//
// Values that change from step to step lie in device memory, so that a captured graph can be
// launched again: how many rows there are (Count), constants of Adam and of the loss, the stream of
// a layer's dropout.
package kernels

import "diskgnn/device/cuda"

// Code is the code of these kernels. A device must load it before a launch, as Open does. The variables of
// the kernels add their functions.
var Code = cuda.Code{Image: image}

// Open is cuda.Open with Code as the device's code.
func Open(index int, o cuda.Options) (*cuda.Device, error) {
	o.Code = Code
	return cuda.Open(index, o)
}

// compiled is a kernel: the indices of its functions in Code.
type compiled struct {
	one  int // of which a thread takes one float at a time
	four int // of which it takes four; none: -1
}

// single is a kernel of a file that takes one float at a time.
func single(file, name string) compiled { return compiled{function(file, name), none} }

// both is a kernel of a file that also exists for four floats at a time, under the name with a 4 appended.
func both(file, name string) compiled {
	return compiled{function(file, name), function(file, name+"4")}
}

const none = -1

// function adds a function to Code.
func function(file, name string) int {
	Code.Functions = append(Code.Functions, cuda.Function{File: file, Name: name})
	return len(Code.Functions) - 1
}

var (
	gatherFloat32       = both("gather", "gather_float32_")
	gatherFloat16       = both("gather", "gather_float16_")
	gatherBFloat16      = both("gather", "gather_bfloat16_")
	gatherInt8          = both("gather", "gather_int8_")
	gatherInt4          = both("gather", "gather_int4_")
	aggregate           = both("aggregate", "aggregate")
	aggregateTransposed = both("aggregate", "aggregate_transposed")
	scatterReLU         = both("scatter", "scatter_relu")
	scatterELU          = both("scatter", "scatter_elu")
	biasNone            = both("tail", "bias_none")
	biasReLU            = both("tail", "bias_relu")
	biasELU             = both("tail", "bias_elu")
	backwardNone        = both("tail", "backward_none")
	backwardReLU        = both("tail", "backward_relu")
	backwardELU         = both("tail", "backward_elu")
	zeroPadding         = both("pad", "zero_padding")
	adam                = both("adam", "adam")
	aggregateHeads      = both("heads", "aggregate_heads")
	combineHeads        = both("heads", "combine_heads")
	maximum             = both("maximum", "maximum")
	maximumBackward     = both("maximum", "maximum_backward")
	standardize         = both("norm", "standardize")
	standardizeBackward = both("norm", "standardize_backward")
	sumEdges            = both("attention", "sum_edges")
	edgeDots            = both("heads", "edge_dots")
	place               = both("place", "place")
	extract             = both("place", "extract")
	pullSum             = both("pull", "pull_sum")
	pullMax             = both("pull", "pull_max")
	pullHeads           = both("pull", "pull_heads")
	settle              = both("pull", "settle")
	scaleRows           = both("pull", "scale_rows")

	sumColumns              = single("tail", "sum_columns")
	crossEntropy            = single("loss", "cross_entropy")
	binaryCrossEntropy      = single("binary", "binary_cross_entropy")
	sumLosses               = single("loss", "sum_losses")
	edgeSoftmax             = single("attention", "edge_softmax")
	edgeSoftmaxBackward     = single("attention", "edge_softmax_backward")
	relationSoftmax         = single("attention", "relation_softmax")
	relationSoftmaxBackward = single("attention", "relation_softmax_backward")
	sumRelationEdges        = single("attention", "sum_relation_edges")
	layerNorm               = single("norm", "layer_norm")
	layerNormBackward       = single("norm", "layer_norm_backward")
	sumProducts             = single("norm", "sum_products")
	sumSquares              = single("norm", "sum_squares")
	columnMeans             = single("norm", "column_means")
	columnVariances         = single("norm", "column_variances")
	checksum                = single("checksum", "checksum")
	sampleSeeds             = single("sample", "sample_seeds")
	sampleTakes             = single("sample", "sample_takes")
	sampleOffsets           = single("sample", "sample_offsets")
	sampleIndptr            = single("sample", "sample_indptr")
	sampleDraw              = single("sample", "sample_draw")
	sampleFirsts            = single("sample", "sample_firsts")
	sampleNumber            = single("sample", "sample_number")
	sampleSources           = single("sample", "sample_sources")
	unpackSums              = single("unpack", "unpack_sums")
	unpackIndptr            = single("unpack", "unpack_indptr")
	unpackSources           = single("unpack", "unpack_sources")
	unpackPlaces            = single("unpack", "unpack_places")
	weighSources            = single("unpack", "weigh_sources")
	weighDestinations       = single("unpack", "weigh_destinations")
	loopCounts              = single("unpack", "loop_counts")
	loopFill                = single("unpack", "loop_fill")
	scanSums                = single("unpack", "scan_sums")
	scan                    = single("unpack", "scan")
	countSources            = single("unpack", "count_sources")
	fillSlots               = single("unpack", "fill_slots")
	rankSlots               = single("unpack", "rank_slots")
	pullSeek                = single("pull", "pull_seek")
	pullWeights             = single("pull", "pull_weights")
	pullBegin               = single("pull", "pull_begin")
	pullUnfold              = single("pull", "pull_unfold")
	settleHeads             = single("pull", "settle_heads")
	fillFloats              = single("pull", "fill_floats")
)
