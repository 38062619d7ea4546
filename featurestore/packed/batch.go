package packed

import (
	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/iostack"
	"diskgnn/pack/packfile"
)

// counts are of the batch loaded last.
type counts = featurestore.Counts

// batch is the batch that a slot holds, as the levels know it.
type batch struct {
	counts
	decoded graph.Batch // its memory is reused

	src     *source
	ref     featurestore.Ref
	plan    packfile.Plan // of training batches
	matrix  matrix
	claimed []stretch // rows of the matrix that levels on disk have, in order
	sent    int       // how many rows these are
	free    []stretch // the others
	req     []iostack.Request
}

// stretch is a number of adjacent rows of a matrix: which they are there, and where they
// come from, as rows or entries of something else.
type stretch struct{ to, from, rows int }

// matrix is the feature matrix of a slot's batch on its way to be complete.
type matrix interface {
	// open prepares memory that was taken.
	open() error
	// begin begins the matrix of another batch.
	begin()
	// land returns where the CPU, or reads, put rows from disk that were claimed.
	land(s stretch) places
	// put puts a row, as it is packed, in the k-th of these places.
	put(to places, k int, row []byte)
	// take makes rows of the matrix those entries of the sink's table, of which s.from
	// were taken for the batch before.
	take(s stretch, entries []uint32)
	// fill is Slot.Fill.
	fill(copies *cuda.Stream, x cuda.Buffer) (*cuda.Span, error)
	// landed is Slot.Landed.
	landed() error
	// memory returns the whole memory of matrices that the host computes on, and x its
	// first rows; else there are none.
	memory() []byte
	x(rows int) []float32
	// free gives back what open took.
	free()
}

// places are where rows go, next to each other.
type places struct {
	rows []byte    // as they are packed
	x    []float32 // widened; none where the host does not compute
}

func (b *batch) begin(ref featurestore.Ref) {
	b.counts, b.ref = counts{}, ref
	b.claimed, b.sent = b.claimed[:0], 0
}

// String names the batch.
func (b *batch) String() string { return b.ref.String() }

func (b *batch) train() *packfile.Train { return &b.src.pack.Index().Train[b.ref.Index] }

// claim says that the matrix's rows from the given one on come from disk. Levels claim rows
// in the order of the matrix. The result counts all rows from disk.
func (b *batch) claim(to, rows int) stretch {
	s := stretch{to, b.sent, rows}
	b.claimed = append(b.claimed, s)
	b.sent += rows
	return s
}

// rest returns the rows that no level has claimed, up to two stretches, which count them.
// It notes them as rows that no read was for.
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

// submit submits the read of one range and counts the bytes that it moves.
func (b *batch) submit(g *iostack.Group, r iostack.Request) error {
	b.req = append(b.req[:0], r)
	if err := b.src.stack.Submit(g, b.req); err != nil {
		return err
	}
	b.BytesRead += iostack.Extent(r.File, r.Offset, int64(r.Len()))
	b.Requests++
	return nil
}
