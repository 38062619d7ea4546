package cut

import (
	"math/bits"
	"slices"

	"diskgnn/graph/batchcodec"
	"diskgnn/internal/binio"
	"diskgnn/internal/idset"
	"diskgnn/pack/packfile"
	"diskgnn/presample/mbfile"
)

// costs are the counts from which the size of a pack follows, for any bands and segments.
type costs struct {
	facts  packfile.Facts // the counts of batches, and a row's bytes
	form   packfile.Form
	edges  []int64 // all wanted edges, descending
	eval   []int64 // rows of eval.bin, by the coldest edge
	graphs int64   // most bytes of the graphs without plans, whole pages
	blocks int64   // most bytes of the training batches' blocks, which every model reads
	// evalCold are the rows in chunks of validation batches, by the lowest edge; nil: these have no chunks.
	evalCold []int64
}

// level counts the training batches' rows outside hot.bin.
type level struct {
	cold, ssd int64 // rows stored
	uses      int64 // of the rows in ssd, by batches
	segment   int   // batches that share them
}

// unshared is the level of segments of one batch.
func unshared(accesses int64) level { return level{cold: accesses, segment: 1} }

// level returns the census' counts for its e-th edge and segments of its i-th length.
func (c *Census) level(e, i int) level {
	stored, shared := c.Stored[e][i], c.Shared[e][i]
	return level{cold: stored - shared, ssd: shared, uses: c.Accesses[e] - (stored - shared), segment: c.Segments[i]}
}

// lowest returns the level for the lowest edge and segments of the i-th length.
func (c *Census) lowest(i int) level { return c.level(len(c.Edges)-1, i) }

// lowest returns the lowest edge: the least cache of every trainer.
func (d *costs) lowest() int64 { return d.edges[len(d.edges)-1] }

// evalChunks returns a function that counts, by the first edge that their rank reaches, the uses of nodes by
// validation batches, if those have chunks. Under policy min every use counts.
func (d *costs) evalChunks(wanted bool) func(batch int, rank uint32) {
	if !wanted {
		return func(int, uint32) {}
	}
	d.evalCold = make([]int64, len(d.edges))
	end, last := d.facts.Train+d.facts.Valid, len(d.edges)-1
	return func(batch int, rank uint32) {
		if batch < end {
			d.evalCold[min(BandOf(d.edges, rank), last)]++
		}
	}
}

// evalChunkRows returns the rows in chunks of validation batches.
func (d *costs) evalChunkRows() int64 {
	if d.evalCold == nil {
		return 0
	}
	return d.evalCold[len(d.edges)-1]
}

// bytes returns an upper bound of the size of a pack with the given coldest edge. It exceeds the size by
// less than a page for every chunk, plan and segment, and a little for meta.json.
func (d *costs) bytes(edge int, l level) int64 {
	f, rb := &d.facts, int64(d.facts.RowBytes)
	const page = binio.Page
	padded := func(rows, parts int64) int64 { return rows*rb + parts*(page-1) }
	sums := func(size int64) int64 { return 32 + size/page*4 }
	train, segments := int64(f.Train), int64(0)
	n := d.graphs
	files := int64(8)
	for _, rows := range []int64{d.edges[edge], d.eval[edge]} {
		n += rows*rb + sums(rows*rb)
	}
	n += padded(l.cold, train)
	if d.evalCold != nil {
		size := padded(d.evalChunkRows(), int64(f.Valid))
		n += size + sums(size) + 12*int64(f.Valid+f.Test)
		files += 2
	}
	groups := (train + int64(packfile.GroupBatches(l.segment)) - 1) / int64(packfile.GroupBatches(l.segment))
	files += 2 * groups
	if l.segment > 1 {
		segments = int64(SegmentsOf(f.Train, l.segment))
		n += padded(l.ssd, segments) + sums(padded(l.ssd, segments)) + 36*groups
		n += listBytes(l.uses, train) + train*(page-1)
		files += 2 * groups
	}
	bands := int64(len(d.edges) - edge)
	pieces := l.cold*rb/d.form.PieceBytes() + train*bands
	entry, evalEntry := packfile.EntryBytes(int(bands))
	n += 64 + 8*bands + train*int64(entry) + 12*segments + int64(evalEntry)*int64(f.Valid+f.Test) + 4*pieces
	if d.form.Compressed() {
		n += pieces * (page - 1 + 4)
	}
	return n + 4096 + 256*files
}

// graphBytesOf returns an upper bound of the bytes of the batches' graphs without plans, each from a page on, for the given
// number of bands, and one of the blocks of training batches. It counts a rank in the bits of a node id and a degree
// in its bytes in the samples. Their lists take fewer.
func graphBytesOf(samples *mbfile.Reader, bands int) (graphs, blocks int64) {
	f, p := samples.Facts(), samples.Params()
	most := 0 // edges of a destination; 0: any number
	if all := slices.Concat(p.Fanout, p.EvalFanout); !slices.Contains(all, mbfile.AllNeighbours) {
		most = slices.Max(all)
	}
	rank := bits.Len64(uint64(f.Nodes - 1))
	for i := range f.Batches() {
		info := samples.Info(i)
		inputs := info.InputNodes()
		counts := batchcodec.Counts{Nodes: info.Nodes, Edges: info.Edges, Rows: info.Rows, Row: f.TargetBytes}
		if f.Types != nil {
			counts.Types = len(f.Types.Nodes)
		}
		size := counts.MostBlocks(most)
		if i < f.TrainBatches {
			blocks += size
		}
		size += batchcodec.MostList(inputs, rank) + int64(2*bands+1)*batchcodec.MostList(1, 1) // each list has a head
		size += batchcodec.MostList(inputs, 0) + info.Size - counts.LeastBytes()
		graphs += binio.AlignUp(size, binio.Page)
	}
	return graphs, blocks
}

// evalCounts returns the rows of eval.bin by the coldest edge, from the evaluation
// batches' nodes ranked at the lowest edge or above.
func evalCounts(set *idset.Set, rank []uint32, edges []int64) []int64 {
	counts := make([]int64, len(edges)+1)
	for v, r := range rank {
		if set.Has(uint32(v)) {
			counts[BandOf(edges, r)]++
		}
	}
	for i := 1; i < len(edges); i++ {
		counts[i] += counts[i-1]
	}
	return counts[:len(edges)]
}

// minBytes returns an upper bound of the size of a pack of policy min for the given misses.
func (d *costs) minBytes(accesses, misses int64) int64 {
	train, rows := int64(d.facts.Train), d.edges[0]
	plans := listBytes(accesses-misses+min(misses, accesses), 2*train) + train*(binio.Page-1)
	refill := Refills(d.facts.Train) * 8 * rows
	return d.bytes(0, unshared(misses)) + 24*train + plans + refill + refill/binio.Page*4 + 1024
}

// listBytes returns the most bytes of lists of n values of 32 bits in all.
func listBytes(n, lists int64) int64 { return 4*n + n/128 + 6*lists }

// Refills returns the number of records of refill.bin.
func Refills(batches int) int64 {
	return int64(batches+packfile.RefillBatches-1) / packfile.RefillBatches
}

// retain removes the nodes that rank below hot.
func retain(set *idset.Set, rank []uint32, hot int64) {
	for v, r := range rank {
		if int64(r) < hot {
			set.Remove(uint32(v))
		}
	}
}
