package collective

import (
	"encoding/binary"
	"io"
	"math"

	"diskgnn/internal/binio"
	"diskgnn/train/engine"
)

// Signals are a rank's requests to all ranks at the end of a step. All ranks get the union.
type Signals uint32

// The signals.
const (
	Stop Signals = 1 << iota // end the run after this step
	Save                     // write a checkpoint after this step
)

// step is a group's memory for steps.
type step struct {
	elements, trained int // of a contribution; those with gradients
	batches           int // of a step, at most
	sum               *engine.Sum
}

// add adds a contribution to the sum.
func (s *step) add(c []float32, labelled int) { s.sum.Add(c[:s.trained], c[s.trained:], labelled) }

// takeSum reads rank 0's sum of a step into the memory of the sum before. The step before is over:
// rank 0 sends another sum only after its end.
func (s *step) takeSum(r io.Reader, h *header, head []byte) error {
	if h.length < sumHead {
		return bad("a sum of %d bytes", h.length)
	}
	each := int64(s.elements - s.trained)
	statistics := h.length - sumHead - 4*int64(s.trained)
	if statistics < 0 || each == 0 && statistics > 0 || each > 0 && (statistics%(4*each) != 0 || statistics/(4*each) > int64(s.batches)) {
		return bad("a sum has %d bytes, which does not fit %d parameters and at most %d batches", h.length, s.elements, s.batches)
	}
	to := s.sum
	to.Statistics = to.Statistics[:statistics/4]
	if err := h.readParts(r, head, binio.Bytes(to.Gradients), binio.Bytes(to.Statistics)); err != nil {
		return err
	}
	batches, labelled := binary.LittleEndian.Uint32(head[12:]), binary.LittleEndian.Uint64(head[16:])
	if int64(batches) > int64(s.batches) || each > 0 && int64(batches)*each*4 != statistics || labelled > math.MaxInt64 {
		return bad("a sum has %d batches and %d labelled seed nodes, which do not fit its step", batches, labelled)
	}
	to.Batches, to.Labelled = int(batches), int64(labelled)
	return nil
}

// agreement is the combined numbers and signals of the ranks for a step.
type agreement struct {
	Signals  Signals // the union of the ranks' signals
	Labelled int64   // seed nodes of all
	Batches  int     // of all
}

func (a *agreement) encode(number uint64) []byte {
	b := make([]byte, sumHead)
	binary.LittleEndian.PutUint64(b, number)
	binary.LittleEndian.PutUint32(b[8:], uint32(a.Signals))
	binary.LittleEndian.PutUint32(b[12:], uint32(a.Batches))
	binary.LittleEndian.PutUint64(b[16:], uint64(a.Labelled))
	return b
}
