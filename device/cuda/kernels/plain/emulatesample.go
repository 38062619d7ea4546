package plain

func frontier(a *arguments) *Frontier {
	return &Frontier{Graph: a.words32(), Nodes: a.words32(), Degree: a.words32(), Start: a.words64(), Table: a.words64(), Bits: a.int(), Wrong: a.words32()}
}

func sampleSeeds(a *arguments) {
	f, count := frontier(a), a.words32()
	rows, _ := a.rows()
	count[0] = uint32(rows)
	SampleSeeds(f, rows)
}

func sampleTakes(a *arguments) {
	sums, degree, fanout := a.words64(), a.words32(), uint32(a.word())
	rows, most := a.rows()
	SampleTakes(sums, degree, fanout, rows, most)
}

func sampleOffsets(a *arguments) {
	sums, total, base, limit, wrong := a.words64(), a.words32(), a.words32(), a.int(), a.words32()
	rows, _ := a.rows()
	first := uint32(0)
	if base != nil {
		first = base[0]
	}
	total[0] = SampleOffsets(sums, rows, first, limit, wrong)
}

func sampleIndptr(a *arguments) {
	indptr, sums, degree, fanout := a.words32(), a.words64(), a.words32(), uint32(a.word())
	rows, _ := a.rows()
	SampleIndptr(indptr, sums, degree, fanout, rows)
}

func sampleDraw(a *arguments) {
	f, places, indptr, far, near, key, edges := frontier(a), a.words32(), a.words32(), a.words32(), a.words32(), a.word(), a.words32()
	rows, _ := a.rows()
	SampleDraw(f, places, indptr, far, near, key, edges[0], rows)
}

func sampleFirsts(a *arguments) {
	sums, table, places, known := a.words64(), a.words64(), a.words32(), a.words32()
	rows, most := a.rows()
	SampleFirsts(sums, table, places, known[0], rows, most)
}

func sampleNumber(a *arguments) {
	f, places, sums, known, found := frontier(a), a.words32(), a.words64(), a.words32(), a.words32()
	rows, _ := a.rows()
	SampleNumber(f, places, sums, known[0], found[0], rows)
}

func sampleSources(a *arguments) {
	indices, table := a.words32(), a.words64()
	rows, _ := a.rows()
	SampleSources(indices, table, rows)
}
