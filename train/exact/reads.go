package exact

import (
	"context"
	"fmt"
	"math"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/idset"
	"diskgnn/internal/units"
)

// Reading a table once costs its bytes; a range that needs a row reads the row's piece. Short
// ranges of a random graph need nearly all pieces each, so that less memory reads more.

// strata is the number of parts of a layer's targets that are sampled by one range each, if there
// are more ranges.
const strata = 16

// rowPieces are the pieces of a table of rows.
type rowPieces struct {
	rowBytes, granule int64
	count             int64
	size              func(i int) int64 // in the file, of piece i
}

// all returns the bytes of all pieces.
func (r *rowPieces) all() (n int64) {
	for i := range int(r.count) {
		n += r.size(i)
	}
	return n
}

// rowPieces returns the pieces of layer l's input table: the features, or states.
func (j *job) rowPieces(l int) rowPieces {
	f := j.data.Facts()
	r := rowPieces{rowBytes: int64(f.RowBytes()), granule: features(&f).granule}
	r.size = func(i int) int64 { _, n := j.features.Piece(i); return n }
	if l > 0 {
		r.rowBytes, r.granule = stateBytes(1, j.layers[l].in), stateGranule
		r.size = func(i int) int64 { return min(r.granule, f.Nodes*r.rowBytes-int64(i)*r.granule) }
	}
	r.count = (f.Nodes*r.rowBytes + r.granule - 1) / r.granule
	return r
}

// readsOf returns the reads of layer l in ranges of at most most. They are exact for few ranges.
// For many they are an estimate, from the first range of each of the strata.
func (j *job) readsOf(ctx context.Context, l int, most capacity) (layerReads, error) {
	p := &j.layers[l]
	table := j.rowPieces(l)
	n := p.targets.len()
	if p.targets.ids == nil && most.dst >= n && int64(most.src) >= p.targets.nodes && int64(most.edges) >= p.edges {
		return layerReads{1, table.all()}, nil // every node is a source of its own
	}
	s := surveyor{cutter: cutter{graph: &j.topology.CSC, targets: p.targets, most: most, sources: j.sources},
		table: table, pieces: idset.New(table.count), found: make([]uint32, 0, p.least.src)}
	var sum layerReads
	err := j.topology.Guard(func() error {
		hi, _, err := s.rangeAt(ctx, 0)
		if err != nil || n == 0 {
			return err
		}
		if n/hi >= strata {
			sum, err = s.sampled(ctx, n)
		} else {
			sum, err = s.counted(ctx, n)
		}
		return err
	})
	return sum, err
}

// surveyor finds the pieces that ranges need. It holds neither their sources nor their edges, so
// that it can examine ranges of any memory: between calls the set is empty.
type surveyor struct {
	cutter
	table  rowPieces
	pieces *idset.Set
	found  []uint32 // new sources of one target
}

// rangeAt returns the end of the range of the targets from lo on, and its bytes of reads.
func (s *surveyor) rangeAt(ctx context.Context, lo int) (hi int, bytes int64, err error) {
	s.pieces.Clear()
	left := s.most.src
	hi, err = s.walk(ctx, lo, func(v uint32, from []uint32) bool {
		found, fits := s.reach(v, from, left, s.found[:0])
		left -= len(found)
		for _, id := range found {
			at := int64(id) * s.table.rowBytes
			for i := at / s.table.granule; i <= (at+s.table.rowBytes-1)/s.table.granule; i++ {
				s.pieces.Add(uint32(i))
			}
		}
		return fits
	})
	if err != nil {
		return 0, 0, err
	}
	for i := lo; i < hi; i++ {
		v := s.targets.at(i)
		s.sources.Remove(v)
		s.sources.RemoveAll(s.graph.Neighbors(v))
	}
	for i := range s.pieces.All() {
		bytes += s.table.size(int(i))
	}
	return hi, bytes, err
}

// counted adds up all ranges of n targets.
func (s *surveyor) counted(ctx context.Context, n int) (sum layerReads, err error) {
	for lo := 0; lo < n; sum.ranges++ {
		hi, bytes, err := s.rangeAt(ctx, lo)
		if err != nil {
			return sum, err
		}
		sum.bytes += bytes
		lo = hi
	}
	return sum, nil
}

// sampled scales the first range of each of the strata to its whole stratum.
func (s *surveyor) sampled(ctx context.Context, n int) (layerReads, error) {
	var ranges, bytes float64
	for i := range strata {
		lo, end := i*n/strata, (i+1)*n/strata
		hi, read, err := s.rangeAt(ctx, lo)
		if err != nil {
			return layerReads{}, err
		}
		share := float64(end-lo) / float64(hi-lo)
		ranges += share
		bytes += share * float64(read)
	}
	return layerReads{int64(math.Round(ranges)), int64(bytes)}, nil
}

// survey returns the reads of all layers, in ranges of at most most[l].
func (j *job) survey(ctx context.Context, most []capacity) (r reads, err error) {
	f := j.data.Facts()
	r.features = f.Nodes * int64(f.RowBytes())
	for l := range j.layers {
		table := j.rowPieces(l)
		r.once += table.all()
		n, err := j.readsOf(ctx, l, most[l])
		if err != nil {
			return r, err
		}
		r.layers = append(r.layers, n)
		r.bytes += n.bytes
	}
	return r, nil
}

const (
	// maxReadTables is the default bound, in feature tables; hidden states may be much wider than
	// features: for all tables together it is a tenth.
	maxReadTables = 100
	// warnShare is the fraction of the bound, as a divisor, from which a note reports the reads.
	warnShare = 10
)

// limit returns the default bound in bytes.
func (r *reads) limit() int64 { return max(maxReadTables*r.features, maxReadTables/10*r.once) }

// AgainstFeatures writes a number of bytes, and its multiple of the feature table.
func AgainstFeatures(bytes, features int64) string {
	times := float64(bytes) / float64(features)
	text := fmt.Sprintf("%.1f", times)
	if times >= 10 {
		text = units.Count(int64(math.Round(times)))
	}
	return fmt.Sprintf("%s, %s times the features", budget.FormatBytes(bytes), text)
}

// maxRead returns the bound in bytes.
func (o *Options) maxRead(r *reads) int64 {
	switch m := o.MaxRead; {
	case m == nil:
		return r.limit()
	case m.Unit == budget.UnitUnlimited:
		return math.MaxInt64
	case m.Unit == budget.UnitTimes:
		return int64(min(m.Value*float64(r.features), 1<<62))
	default:
		return int64(m.Value)
	}
}

// checkReads refuses reads beyond the bound, and names the memory that avoids them.
func (j *job) checkReads(ctx context.Context, r *reads) error {
	limit := j.options.maxRead(r)
	if r.bytes <= limit {
		if r.bytes > r.limit()/warnShare {
			j.report.Logf("warning: about %s, will be read; with more --memory it is less", AgainstFeatures(r.bytes, r.features))
		}
		return nil
	}
	enough, read, err := j.enough(ctx, j.options.Memory, limit)
	if err != nil {
		return err
	}
	way := fmt.Sprintf("no --memory reads less than %s", budget.FormatBytes(read))
	if read <= limit {
		way = fmt.Sprintf("with --memory %dMiB it is %s", enough>>20, budget.FormatBytes(read))
	}
	return fault.New(fault.ErrBudget, "with --memory %s about %s, would be read, but --max-read allows %s: %s",
		budget.FormatBytes(j.options.Memory), AgainstFeatures(r.bytes, r.features), budget.FormatBytes(limit), way)
}

// leastMemory returns the memory in bytes, in whole MiB, that suffices for ranges of need bytes, with
// reads within the bound if any memory keeps within it.
func (j *job) leastMemory(ctx context.Context, need int64) (int64, error) {
	least := (j.fixed + need + 1<<20 - 1) >> 20 << 20
	most, err := j.capacities(least - j.fixed)
	if err != nil {
		return 0, err
	}
	j.sources = idset.New(j.data.Facts().Nodes)
	r, err := j.survey(ctx, most)
	if err != nil {
		return 0, j.ofDataset(err)
	}
	limit := j.options.maxRead(&r)
	if r.bytes <= limit {
		return least, nil
	}
	enough, read, err := j.enough(ctx, least, limit)
	if err != nil || read > limit {
		return least, j.ofDataset(err)
	}
	return enough, nil
}

// enough returns the memory from lo up, in whole MiB, with which at most limit bytes are read, at most a
// sixteenth more than the least, and the bytes read then. If no memory is enough, it returns the
// memory that reads least.
func (j *job) enough(ctx context.Context, lo, limit int64) (memory, read int64, err error) {
	const mib = 1 << 20
	whole := func(n int64) int64 { return (n + mib - 1) / mib * mib }
	hi := int64(0)
	for l := range j.layers {
		hi = max(hi, whole(j.fixed+j.layers[l].bytes(j.layers[l].all)))
	}
	if read, err = j.readsWith(ctx, hi); err != nil || read > limit {
		return hi, read, err
	}
	for hi-lo > max(lo/16, mib) {
		middle := whole(lo + (hi-lo)/2)
		if lo < hi/2 { // far apart: in proportion
			middle = whole(int64(math.Sqrt(float64(lo) * float64(hi))))
		}
		n, err := j.readsWith(ctx, middle)
		switch {
		case err != nil:
			return 0, 0, err
		case n <= limit:
			hi, read = middle, n
		default:
			lo = middle
		}
	}
	return hi, read, nil
}

// readsWith returns the bytes read with this memory, which is at least the given memory.
func (j *job) readsWith(ctx context.Context, memory int64) (int64, error) {
	most, err := j.capacities(memory - j.fixed)
	if err != nil {
		return 0, err
	}
	r, err := j.survey(ctx, most)
	return r.bytes, err
}
