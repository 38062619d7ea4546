package packed

import (
	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/iostack"
	"diskgnn/pack/packfile"
)

// counts are the counts of the batch loaded last.
type counts = featurestore.Counts

// batch is the batch in a slot, for the levels.
type batch struct {
	counts
	decoded graph.Batch // reused by the next batch

	src     *source
	ref     featurestore.Ref
	plan    packfile.Plan // of a training batch
	matrix  matrix
	claimed []stretch // rows of the matrix from levels on disk, in order
	sent    int       // number of claimed rows
	free    []stretch // the other rows
	req     []iostack.Request
}

// stretch is a range of `rows` adjacent rows: from row `to` of a matrix on, and from row or entry `from` of
// their origin on.
type stretch struct{ to, from, rows int }

// matrix assembles the feature matrix of a slot's batch.
type matrix interface {
	// open prepares the memory, after it was allocated.
	open() error
	// begin begins the matrix of another batch.
	begin()
	// land returns the places of claimed rows, for the CPU or for reads.
	land(s stretch) places
	// put puts a row in packed form into the k-th place.
	put(to places, k int, row []byte)
	// chunk returns the part of the cold level for chunks that land on the device, nil if they land in host
	// memory.
	chunk(m *memory) chunkRows
	// take takes rows of the matrix from entries of the sink's table. s.from is the number of entries taken
	// before, for the same batch.
	take(s stretch, entries []uint32)
	// admit puts rows of the matrix, from row `from` on, into entries of the cache, after all rows were taken
	// from it. packed has these rows in packed form, if host memory has them.
	admit(from int, packed []byte, entries []uint32)
	// fill is Slot.Fill.
	fill(copies device.Stream, x device.Buffer) (device.Span, error)
	// landed is Slot.Landed.
	landed() error
	// memory returns the whole memory of matrices, and x its first rows, if the host computes; otherwise
	// nil.
	memory() []byte
	x(rows int) []float32
	// free releases the memory of open.
	free()
}

// places are the destinations of adjacent rows.
type places struct {
	rows []byte    // in packed form; its capacity reaches to the end of a page
	x    []float32 // widened; nil if the host does not compute
	dim  int       // float32s of a row in x
}

// from returns the places from the k-th on, for matrix.put.
func (p places) from(k int, f *packfile.Facts) places {
	if p.x != nil { // the host computes, and put widens
		return places{x: p.x[k*p.dim:], dim: p.dim}
	}
	return places{rows: p.rows[k*f.RowBytes:]}
}

func (b *batch) begin(ref featurestore.Ref) {
	b.counts, b.ref = counts{}, ref
	b.claimed, b.sent = b.claimed[:0], 0
}

// String returns the name of the batch for errors.
func (b *batch) String() string { return b.ref.String() }

func (b *batch) train() *packfile.Train { return &b.src.pack.Index().Train[b.ref.Index] }

// claim claims rows rows of the matrix, from row `to` on, for a level on disk. Levels claim rows in the
// order of the matrix. The result's from is the number of rows claimed before.
func (b *batch) claim(to, rows int) stretch {
	s := stretch{to, b.sent, rows}
	b.claimed = append(b.claimed, s)
	b.sent += rows
	return s
}

// rest returns the rows that no level has claimed: up to two stretches, with from the number of such rows
// before. It counts them as RAMRows.
func (b *batch) rest() []stretch {
	b.free, b.RAMRows = b.free[:0], 0
	to := 0
	for i := 0; i <= len(b.claimed); i++ {
		end, next := len(b.decoded.Input), 0
		if i < len(b.claimed) {
			end, next = b.claimed[i].to, b.claimed[i].to+b.claimed[i].rows
		}
		if n := end - to; n > 0 {
			b.free = append(b.free, stretch{to, b.RAMRows, n})
			b.RAMRows += n
		}
		to = next
	}
	return b.free
}

// submit submits the read of one range, and counts its bytes.
func (b *batch) submit(g *iostack.Group, r iostack.Request) error {
	b.req = append(b.req[:0], r)
	if err := b.src.stack.Submit(g, b.req); err != nil {
		return err
	}
	b.BytesRead += iostack.Extent(r.File, r.Offset, int64(r.Len()))
	b.Requests++
	return nil
}
