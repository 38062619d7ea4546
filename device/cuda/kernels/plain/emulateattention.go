package plain

func aggregateHeads(a *arguments) {
	out, x, width, heads, weights, indptr, indices := a.floats(), a.floats(), a.int(), a.int(), a.floats(), a.words32(), a.words32()
	rows, _ := a.rows()
	AggregateHeads(out, x, width, heads, weights, indptr, indices, rows)
}

func combineHeads(a *arguments) {
	out, y, width, heads, weights, indptr, indices, edges := a.floats(), a.floats(), a.int(), a.int(), a.floats(), a.words32(), a.words32(), a.words32()
	rows, _ := a.rows()
	CombineHeads(out, y, width, heads, weights, indptr, indices, edges, rows)
}

func edgeDots(a *arguments) {
	out, x, y, width, heads, indptr, indices := a.floats(), a.floats(), a.floats(), a.int(), a.int(), a.words32(), a.words32()
	rows, _ := a.rows()
	EdgeDots(out, x, y, width, heads, indptr, indices, rows)
}

func edgeSoftmax(a *arguments) {
	weights, scores, place, heads, slope, indptr, indices := a.floats(), a.floats(), a.words32(), a.int(), a.float(), a.words32(), a.words32()
	rows, _ := a.rows()
	EdgeSoftmax(weights, scores, place, heads, slope, indptr, indices, rows)
}

func edgeSoftmaxBackward(a *arguments) {
	grads, ownGrads, weights, scores, place, heads, slope := a.floats(), a.floats(), a.floats(), a.floats(), a.words32(), a.int(), a.float()
	indptr, indices := a.words32(), a.words32()
	rows, _ := a.rows()
	EdgeSoftmaxBackward(grads, ownGrads, weights, scores, place, heads, slope, indptr, indices, rows)
}

func relationSoftmax(a *arguments) {
	weights, scores, columns, base, own, heads, slope := a.floats(), a.floats(), a.int(), a.words32(), a.floats(), a.int(), a.float()
	indptr, indices := a.words32(), a.words32()
	rows, _ := a.rows()
	RelationSoftmax(weights, scores, columns, base, own, heads, slope, indptr, indices, rows)
}

func relationSoftmaxBackward(a *arguments) {
	grads, ownGrads, weights, scores, columns, base, own, heads, slope := a.floats(), a.floats(), a.floats(), a.floats(), a.int(), a.words32(), a.floats(), a.int(), a.float()
	indptr, indices := a.words32(), a.words32()
	rows, _ := a.rows()
	RelationSoftmaxBackward(grads, ownGrads, weights, scores, columns, base, own, heads, slope, indptr, indices, rows)
}

func sumRelationEdges(a *arguments) {
	out, columns, values, heads, indptr, edges, owners, base := a.floats(), a.int(), a.floats(), a.int(), a.words32(), a.words32(), a.words32(), a.words32()
	rows, _ := a.rows()
	SumRelationEdges(out, columns, values, heads, indptr, edges, owners, base, rows)
}

func sumEdges(a *arguments) {
	out, values, own, heads := a.floats(), a.floats(), a.floats(), a.int()
	b := Block{Transposed: true, Indptr: a.words32(), Indices: a.words32(), Place: a.words32()}
	b.Places, _ = a.rows()
	rows, most := a.rows()
	SumEdges(out, values, own, heads, &b, rows, most)
}
