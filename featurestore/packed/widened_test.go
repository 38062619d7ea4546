package packed_test

import (
	"fmt"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/internal/budget"
	"diskgnn/internal/kernel"
	"diskgnn/pack"
	"diskgnn/pack/packfile"
	"diskgnn/presample"
)

// TestWidenedPieces: narrow rows are widened piece by piece, also if pieces cut rows, or a row has several pieces; in matrices that
// are stored past the caches, and in smaller ones. A pack of the policy min keeps admitted rows in packed form.
func TestWidenedPieces(t *testing.T) {
	half := &budget.Size{Value: 50, Unit: budget.UnitPercent}
	stack := newStack(t)
	for _, c := range []struct {
		nodes, dim, batch int
		dtype             string
		past              bool
	}{{700, 4003, 100, "int8", false}, {1600, 4080, 500, "int8", true}, {1600, 4003, 500, "bf16", true}, {24, 140_003, 2, "bf16", false}, {24, 280_001, 2, "int8", true}} {
		raw := datasettest.Params{Nodes: c.nodes, AvgDegree: 6, Dim: c.dim, Seed: 3}.Raw()
		so := presample.Options{BatchSize: c.batch, Fanout: []int{4, 4}, Memory: 1 << 30, Workers: 1}
		for _, policy := range []string{packfile.PolicyStatic, packfile.PolicyMin} {
			t.Run(fmt.Sprint(c, policy), func(t *testing.T) {
				w := build(t, t.TempDir(), raw, so, pack.Options{Policy: policy, Cache: half, DType: c.dtype, Memory: 1 << 30, Workers: 1})
				defer w.close()
				cut, cold, rb, through := false, 0, int64(w.reader.Facts().RowBytes), w.reader.Index().Bands-1
				for i := range w.reader.Index().Train {
					b := &w.reader.Index().Train[i]
					cold = max(cold, b.ColdRows(through))
					_ = b.Pieces(w.reader.Form(), through, func(p packfile.Piece) error {
						cut = cut || (p.Row+int64(p.RowLen))%rb != 0
						return nil
					})
				}
				if !cut || (cold*c.dim >= kernel.Past) != c.past {
					t.Fatalf("pieces cut rows: %t; chunks have %d rows", cut, cold)
				}
				if policy == packfile.PolicyMin {
					w.checkMin(t, stack, nil, 0)
					return
				}
				for through := range w.reader.Index().Edges {
					w.check(t, stack, through, nil, 0)
				}
			})
		}
	}
}
