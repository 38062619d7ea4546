package plain

func unpackSums(a *arguments) {
	sums, words, shape := a.words64(), a.words32(), a.words32()
	rows, most := a.rows()
	sampleTileSums(sums, rows, most, func(i int) uint64 { return uint64(array(words, shape, ofCounts, i)) })
}

func unpackIndptr(a *arguments) {
	indptr, means := a.words32(), a.floats()
	a.word() // the sums
	words, shape := a.words32(), a.words32()
	rows, _ := a.rows()
	UnpackIndptr(indptr, means, words, shape, rows)
}

func unpackSources(a *arguments) {
	indices, words, shape := a.words32(), a.words32(), a.words32()
	rows, _ := a.rows()
	UnpackSources(indices, words, shape, rows)
}

func unpackPlaces(a *arguments) {
	positions, places, words, shape := a.words32(), a.words32(), a.words32(), a.words32()
	rows, _ := a.rows()
	UnpackPlaces(positions, places, words, shape, rows)
}

func weighSources(a *arguments) {
	weights, degrees, positions := a.floats(), a.words32(), a.words32()
	rows, _ := a.rows()
	WeighSources(weights, degrees, positions, rows)
}

func weighDestinations(a *arguments) {
	sums, owns, indptr, degrees, positions := a.floats(), a.floats(), a.words32(), a.words32(), a.words32()
	rows, _ := a.rows()
	WeighDestinations(sums, owns, indptr, degrees, positions, rows)
}

func loopCounts(a *arguments) {
	counts, indptr, indices, positions := a.words32(), a.words32(), a.words32(), a.words32()
	rows, _ := a.rows()
	LoopCounts(counts, indptr, indices, positions, rows)
}

func loopFill(a *arguments) {
	looped, starts, indptr, indices, positions := a.words32(), a.words32(), a.words32(), a.words32(), a.words32()
	rows, _ := a.rows()
	Loop(looped, starts, indptr, indices, positions, rows)
}

func scanSums(a *arguments) {
	sums, values := a.words64(), a.words32()
	rows, most := a.rows()
	sampleTileSums(sums, rows, most, func(i int) uint64 { return uint64(values[i]) })
}

func scan(a *arguments) {
	out, total := a.words32(), a.words32()
	a.word() // the sums
	values := a.words32()
	rows, _ := a.rows()
	if sum := Scan(out, values, rows); total != nil {
		total[0] = sum
	}
}

func countSources(a *arguments) {
	counts, arrivals, indices := a.words32(), a.words32(), a.words32()
	rows, _ := a.rows()
	CountSources(counts, arrivals, indices, rows)
}

func fillSlots(a *arguments) {
	slots, tindptr, arrivals, indices := a.words32(), a.words32(), a.words32(), a.words32()
	rows, _ := a.rows()
	FillSlots(slots, tindptr, arrivals, indices, rows)
}

func rankSlots(a *arguments) {
	tindices, tedges, slots, tindptr, indices, indptr, destinations := a.words32(), a.words32(), a.words32(), a.words32(), a.words32(), a.words32(), a.words32()
	rows, _ := a.rows()
	RankSlots(tindices, tedges, slots, tindptr, indices, indptr, int(destinations[0]), rows)
}
