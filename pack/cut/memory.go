package cut

import (
	"diskgnn/internal/budget"
	"diskgnn/internal/idset"
	"diskgnn/presample/mbfile"
)

// HeldMemory returns what every part of a packing holds: the program, ranks, and the
// evaluation set with its counts.
func HeldMemory(nodes int64) int64 { return budget.Reserve + 4*nodes + idset.Bytes(nodes) }

// RecordMemory returns the bytes of the samples' index, which is held all the time.
func RecordMemory(s mbfile.Facts) int64 { return s.IndexBytes() }

// rankingMemory returns the bytes that ranking takes: of every node its hotness and its
// rank, and how many nodes have each hotness.
func rankingMemory(nodes int64, batches int) int64 { return 8*nodes + 8*int64(batches+2) }

// SlotBytes estimates what one batch takes on its way through the first pass:
// its graph decoded, encoded twice, and the sort's arrays.
func SlotBytes(s mbfile.Facts) int64 {
	most := int64(0)
	for _, m := range []mbfile.Summary{s.Train, s.Eval} {
		n := int64(0)
		for l := range m.Max.Src {
			n += 4*int64(m.Max.Edges[l]) + 8*int64(m.Max.Dst[l])
		}
		if last := len(m.Max.Src) - 1; last >= 0 {
			n += 48*int64(m.Max.Src[0]) + int64(s.TargetBytes)*int64(m.Max.Dst[last])
		}
		most = max(most, 3*n)
	}
	return most + 1<<20
}
