package packed_test

import (
	"fmt"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/featurestore/packed"
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
	}{{700, 4003, 100, "int8", false}, {1600, 4080, 500, "int8", true}, {1600, 4003, 500, "bf16", true}, {24, 140_003, 2, "bf16", false}, {24, 280_001, 2, "int8", true}, {1600, 4080, 500, "int4", true}} {
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

// TestStored: matrices of rows in the type of the pack have the rows of float32 matrices, for every cache. They take the
// memory of these rows.
func TestStored(t *testing.T) {
	stack := newStack(t)
	for name, w := range map[string]*world{
		"bf16": small(t, "bf16"), "float16": small(t, "fp16"), "segments": sharingPlain(t, "bf16"), "chunks of evaluation": chunkedWorld(t, 1024, 30, "bf16"),
		"compressed": buildMin(t, "bf16", packfile.CodecZstd), "min": buildMin(t, "bf16", packfile.CodecNone),
	} {
		t.Run(name, func(t *testing.T) {
			w.stored = true
			if w.reader.Params().Policy == packfile.PolicyMin {
				w.checkMin(t, stack, nil, 0)
			} else {
				for through := range w.reader.Index().Edges {
					w.check(t, stack, through, nil, 0)
				}
			}
		})
	}
}

// TestNotStored: rows that are no whole float32s, and rows for a consumer that holds others, are widened.
func TestNotStored(t *testing.T) {
	odd := datasettest.Params{Nodes: 90, AvgDegree: 4, Dim: 41, Seed: 3}.Raw()
	w := build(t, t.TempDir(), odd, presample.Options{BatchSize: 6, Fanout: []int{3, 3}, Memory: 1 << 30, Workers: 1},
		pack.Options{Cache: &budget.Size{Value: 10, Unit: budget.UnitPercent}, DType: "bf16", Memory: 1 << 30, Workers: 1})
	t.Cleanup(w.close)
	even := small(t, "bf16")
	o := packed.PlanOptions{Memory: 1 << 30, Slots: 1, EvalSlots: 1}
	plan := func(w *world, o packed.PlanOptions) packed.Layout {
		l, err := packed.Plan(w.reader, o)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	wide := plan(even, o)
	o.Stored = true
	inputs := even.reader.Facts().TrainSizes.Src[0]
	if l := plan(even, o); !l.Stored || wide.Stored || wide.SlotBytes-l.SlotBytes < int64(inputs*(160-80))-4096 {
		t.Errorf("stored: %t, slots of %d bytes, of float32 %d", l.Stored, l.SlotBytes, wide.SlotBytes)
	}
	if l := plan(w, o); l.Stored {
		t.Error("rows of 82 bytes are stored")
	}
	o.GPUCache = &budget.Size{Value: 50, Unit: budget.UnitPercent}
	if l := plan(even, o); l.Stored || l.GPURows == 0 {
		t.Errorf("with rows at the consumer: %t, %d rows", l.Stored, l.GPURows)
	}
}
