package plain

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/dtype"
	"diskgnn/internal/kernel"
)

// Emulate is a cuda.Emulation: it computes the launch of a kernel by the function of this package. A kernel
// that takes four floats at a time has the function of the kernel that takes one. An unknown name panics.
func Emulate(name string, args []uint64, at func(uint64) []byte) {
	a := &arguments{args, at}
	name = strings.TrimSuffix(name, "4")
	if run, ok := emulations[name]; ok {
		run(a)
		return
	}
	kind, activation, _ := strings.Cut(name, "_")
	switch kind {
	case "gather":
		gather(a, map[string]dtype.Type{"float32_": dtype.Float32, "float16_": dtype.Float16, "bfloat16_": dtype.BFloat16, "int8_": dtype.Int8, "int4_": dtype.Int4}[activation])
	case "bias":
		tail(a, activations[activation])
	case "scatter":
		scatter(a, activations[activation])
	case "backward":
		tailBackward(a, activations[activation])
	default:
		panic("plain: no kernel " + name)
	}
}

var activations = map[string]kernels.Activation{"none": kernels.Identity, "relu": kernels.ReLU, "elu": kernels.ELU}

var emulations = map[string]func(a *arguments){
	"aggregate":                 func(a *arguments) { aggregate(a, false) },
	"aggregate_transposed":      func(a *arguments) { aggregate(a, true) },
	"zero_padding":              zeroPadding,
	"adam":                      adam,
	"aggregate_heads":           aggregateHeads,
	"combine_heads":             combineHeads,
	"maximum":                   maximum,
	"maximum_backward":          maximumBackward,
	"standardize":               standardize,
	"standardize_backward":      standardizeBackward,
	"sum_columns":               sumColumns,
	"cross_entropy":             crossEntropy,
	"binary_cross_entropy":      binaryCrossEntropy,
	"sum_losses":                sumLosses,
	"edge_softmax":              edgeSoftmax,
	"edge_softmax_backward":     edgeSoftmaxBackward,
	"relation_softmax":          relationSoftmax,
	"relation_softmax_backward": relationSoftmaxBackward,
	"sum_relation_edges":        sumRelationEdges,
	"sum_edges":                 sumEdges,
	"edge_dots":                 edgeDots,
	"layer_norm":                layerNorm,
	"layer_norm_backward":       layerNormBackward,
	"sum_products":              sumProducts,
	"sum_squares":               sumSquares,
	"column_means":              columnMeans,
	"column_variances":          columnVariances,
	"checksum":                  checksum,
	"place":                     place,
	"extract":                   extract,
	"sample_seeds":              sampleSeeds,
	"sample_takes":              sampleTakes,
	"sample_offsets":            sampleOffsets,
	"sample_indptr":             sampleIndptr,
	"sample_draw":               sampleDraw,
	"sample_firsts":             sampleFirsts,
	"sample_number":             sampleNumber,
	"sample_sources":            sampleSources,
	"unpack_sums":               unpackSums,
	"unpack_indptr":             unpackIndptr,
	"unpack_sources":            unpackSources,
	"unpack_places":             unpackPlaces,
	"weigh_sources":             weighSources,
	"weigh_destinations":        weighDestinations,
	"loop_counts":               loopCounts,
	"loop_fill":                 loopFill,
	"scan_sums":                 scanSums,
	"scan":                      scan,
	"count_sources":             countSources,
	"fill_slots":                fillSlots,
	"rank_slots":                rankSlots,
	"pull_seek":                 pullSeek,
	"pull_sum":                  func(a *arguments) { pull(a, false) },
	"pull_max":                  func(a *arguments) { pull(a, true) },
	"pull_heads":                pullHeads,
	"pull_weights":              pullWeights,
	"pull_begin":                pullBegin,
	"pull_unfold":               pullUnfold,
	"settle":                    settle,
	"settle_heads":              settleHeads,
	"scale_rows":                scaleRows,
	"fill_floats":               fillFloats,
}

func gather(a *arguments, t dtype.Type) {
	out, stride, table, far, near := a.floats(), a.int(), a.bytes(), a.bytes(), a.int()
	a.word() // a row's bytes follow from the type
	addresses, devices := a.bytes(), a.int()
	index, width := a.words32(), a.int()
	rows, _ := a.rows()
	if addresses != nil {
		parts := make([][]byte, devices)
		for i := range parts {
			parts[i] = a.at(binary.LittleEndian.Uint64(addresses[8*i:]))
		}
		GatherParts(out, stride, parts, far, near, t, width, index, rows)
		return
	}
	Gather(out, stride, table, far, near, t, width, index, rows)
}

func place(a *arguments) {
	table, far, near, source, rowBytes, index := a.bytes(), a.bytes(), a.int(), a.bytes(), a.int(), a.words32()
	rows, _ := a.rows()
	Place(table, far, near, source, rowBytes, index, rows)
}

func extract(a *arguments) {
	out, to, source, rowBytes, from := a.bytes(), a.words32(), a.bytes(), a.int(), a.words64()
	rows, _ := a.rows()
	Extract(out, to, source, rowBytes, from, rows)
}

func aggregate(a *arguments, transposed bool) {
	out, stride := a.floats(), a.int()
	x, width, b := block(a)
	b.Transposed, b.Add, b.Beside = transposed, a.bool(), a.bool()
	pad := a.bool()
	rows, most := a.rows()
	Aggregate(out, stride, x, width, b, rows)
	if b.Beside {
		width *= 2
	}
	if pad {
		ZeroPadding(out, stride, width, rows, most)
	}
}

// block takes the arguments of a sum over edges.
func block(a *arguments) (x []float32, width int, b *Block) {
	b = new(Block)
	x, b.Gap, width = a.floats(), a.int(), a.int()
	b.Indptr, b.Indices, b.Outer, b.Inner, b.Own, b.OwnX, b.Place = a.words32(), a.words32(), a.floats(), a.floats(), a.floats(), a.floats(), a.words32()
	b.Places, _ = a.rows()
	return x, width, b
}

func scatter(a *arguments, activation kernels.Activation) {
	g := a.floats()
	x, width, b := block(a)
	b.Transposed = true
	y, sums, group := a.floats(), a.floats(), a.int()
	d := dropout(a)
	rows, most := a.rows()
	total := Scatter(g, x, width, b, y, activation, d, rows, most)
	clear(sums[:(most+group-1)/group*width])
	copy(sums, total)
}

func tail(a *arguments, activation kernels.Activation) {
	z, width, bias := a.floats(), a.int(), a.floats()
	d := dropout(a)
	rows, _ := a.rows()
	Tail(z, width, bias, activation, d, rows)
}

// dropout takes the arguments of a dropout.
func dropout(a *arguments) *Dropout {
	d := new(Dropout)
	if stream := a.words64(); stream != nil {
		d.Stream = kernel.Stream(stream[0])
	}
	d.IDs = a.words32()
	rate := float64(uint32(a.word())) / (1 << 32)
	if scale := float64(a.float()); math.Abs(scale*(1-rate)-1) > 1e-6 {
		panic(fmt.Sprintf("plain: a dropout of rate %v with the scale %v", rate, scale))
	}
	d.Rate = kernel.NewDropout(rate)
	return d
}

func tailBackward(a *arguments, activation kernels.Activation) {
	g, y, width, sums, group := a.floats(), a.floats(), a.int(), a.floats(), a.int()
	d := dropout(a)
	rows, most := a.rows()
	ids := d.IDs
	d.IDs = make([]uint32, group)
	groups(rows, most, group, func(i, from, to int) {
		for k := from; k < to; k++ {
			d.IDs[k-from] = uint32(k)
			if ids != nil {
				d.IDs[k-from] = ids[k]
			}
		}
		copy(sums[i*width:], TailBackward(part(g, from, to, width), part(y, from, to, width), width, activation, d, to-from, group))
	})
	ZeroPadding(g, width, width, rows, most)
}

func groups(rows, most, group int, do func(i, from, to int)) {
	for i := range (most + group - 1) / group {
		from := min(i*group, rows)
		do(i, from, min(from+group, rows))
	}
}

// part returns the rows from ≤ i < to of x, nil if x is nil.
func part(x []float32, from, to, width int) []float32 {
	if x == nil {
		return nil
	}
	return x[from*width : to*width]
}

func sumColumns(a *arguments) {
	out, x, width, rows := a.floats(), a.floats(), a.int(), a.int()
	for c := range width {
		var sums [32]float32
		for i := range rows {
			sums[i%32] += x[i*width+c]
		}
		out[c] = sums[0]
		for _, s := range sums[1:] {
			out[c] += s
		}
	}
}

func zeroPadding(a *arguments) {
	x, stride, width := a.floats(), a.int(), a.int()
	rows, most := a.rows()
	ZeroPadding(x, stride, width, rows, most)
}

func adam(a *arguments) {
	w, g, m, v, s := a.floats(), a.floats(), a.floats(), a.floats(), a.floats()
	n := a.int()
	step := kernels.AdamStep{AdamStep: kernel.AdamStep{Beta1: s[0], Beta2: s[1], Alpha1: s[2], Alpha2: s[3], Rate: s[4], InvRoot: s[5], Epsilon: s[6]},
		Shrink: s[7], Decay: s[8]}
	Adam(w[:n], g[:n], m[:n], v[:n], &step)
}

func maximum(a *arguments) {
	out, stride, chosen, x, width, indptr, indices := a.floats(), a.int(), a.words32(), a.floats(), a.int(), a.words32(), a.words32()
	rows, _ := a.rows()
	Maximum(out, stride, chosen, x, width, indptr, indices, rows)
}

func maximumBackward(a *arguments) {
	out, g, chosen, width, indptr, indices, add := a.floats(), a.floats(), a.words32(), a.int(), a.words32(), a.words32(), a.int()
	rows, _ := a.rows()
	MaximumBackward(out, g, chosen, width, indptr, indices, add != 0, rows)
}

func crossEntropy(a *arguments) {
	g, losses, right, z, classes, labels, inverse, smoothing := a.floats(), a.words64(), a.words32(), a.floats(), a.int(), a.labels(), a.floats(), a.double()
	rows, _ := a.rows()
	for i := range rows {
		loss, hit := CrossEntropy(g[i*classes:], z[i*classes:], classes, labels[i:], inverse[0], smoothing, 1)
		losses[i], right[i] = math.Float64bits(loss), uint32(hit)
	}
}

func binaryCrossEntropy(a *arguments) {
	g, losses, right, z, classes, labels, targets, inverse := a.floats(), a.words64(), a.words32(), a.floats(), a.int(), a.labels(), a.bytes(), a.floats()
	rows, _ := a.rows()
	for i := range rows {
		loss, hit := Binary(g[i*classes:], z[i*classes:], classes, labels[i:], targets[i*((classes+7)/8):], inverse[0], 1)
		losses[i], right[i] = math.Float64bits(loss), uint32(hit)
	}
}

func sumLosses(a *arguments) {
	score, losses, right := a.bytes(), a.words64(), a.words32()
	rows, _ := a.rows()
	loss, hits := 0.0, uint64(0)
	for i := range rows {
		loss += math.Float64frombits(losses[i])
		hits += uint64(right[i])
	}
	binary.LittleEndian.PutUint64(score, math.Float64bits(loss))
	binary.LittleEndian.PutUint64(score[8:], hits)
}

func checksum(a *arguments) {
	sums, data, ranges := a.words32(), a.bytes(), a.words64()
	rows, _ := a.rows()
	Checksum(sums, data, ranges, rows)
}
