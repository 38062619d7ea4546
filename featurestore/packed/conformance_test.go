package packed_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/featurestore"
	"diskgnn/featurestore/packed"
	"diskgnn/featurestore/storetest"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/progress"
	"diskgnn/pack"
	"diskgnn/pack/cut"
	"diskgnn/pack/packfile"
	"diskgnn/presample"
)

// A pack of every policy, type, codec and level passes the suite of stores.
func TestConformance(t *testing.T) {
	half, bands := &budget.Size{Value: 20, Unit: budget.UnitPercent}, pack.DefaultBands() // without an edge of all rows
	for name, c := range map[string]struct {
		world storetest.Params
		pack  pack.Options
		hold  int64 // bytes of rows in memory for evaluation alone
	}{
		"static":                    {pack: pack.Options{Cache: half, Bands: bands, DType: "same"}},
		"no cache":                  {pack: pack.Options{Cache: &budget.Size{Unit: budget.UnitPercent}, Bands: []float64{}, DType: "same"}},
		"bf16, s2":                  {pack: pack.Options{Cache: half, Bands: []float64{50}, DType: "bf16", Compress: packfile.CodecS2}},
		"int8, zstd":                {pack: pack.Options{Cache: half, Bands: bands, DType: "int8", Compress: packfile.CodecZstd}},
		"disk budget":               {world: storetest.Params{Params: datasettest.Params{Nodes: 90, AvgDegree: 4, Dim: 1200, Seed: 3}, Batch: 6, Epochs: 1, Fanout: []int{3, 3}}, pack: pack.Options{Cache: half, Bands: []float64{40}, DType: "int8", Compress: packfile.CodecS2, MaxDisk: &budget.Size{Value: 1}}},
		"min":                       {pack: pack.Options{Cache: half, Policy: packfile.PolicyMin, DType: "same"}},
		"min, int8":                 {pack: pack.Options{Cache: half, Policy: packfile.PolicyMin, DType: "int8", Compress: packfile.CodecS2}},
		"int4":                      {pack: pack.Options{Cache: half, Bands: bands, DType: "int4"}},
		"int4 zstd":                 {world: storetest.Params{Params: datasettest.Params{Nodes: 120, AvgDegree: 4, Dim: 70}, Batch: 9, Epochs: 1}, pack: pack.Options{Cache: half, Bands: bands, DType: "int4", Compress: packfile.CodecZstd}},
		"min int4":                  {pack: pack.Options{Cache: half, Policy: packfile.PolicyMin, DType: "int4"}},
		"static all held":           {pack: pack.Options{Cache: half, Bands: bands, DType: "same"}, hold: 1 << 30},
		"int8 a part held":          {pack: pack.Options{Cache: half, Bands: bands, DType: "int8"}, hold: 16 << 10},
		"min bf16 all held":         {pack: pack.Options{Cache: half, Policy: packfile.PolicyMin, DType: "bf16"}, hold: 1 << 30},
		"chunks of validation":      {pack: pack.Options{Cache: half, Bands: bands, DType: "same", EvalChunks: true}, hold: 16 << 10},
		"int8 chunks of validation": {pack: pack.Options{Cache: half, Bands: bands, DType: "int8", EvalChunks: true}},
		"typed":                     {world: storetest.Params{Params: datasettest.Params{Nodes: 80, AvgDegree: 3, Dim: 9, Typed: true}, Batch: 5, Epochs: 2, Fanout: []int{2, 3}}, pack: pack.Options{Cache: half, Bands: bands, DType: "same"}},
		"typed min":                 {world: storetest.Params{Params: datasettest.Params{Nodes: 80, AvgDegree: 3, Dim: 9, Typed: true}, Batch: 5, Epochs: 2, Fanout: []int{2, 3}}, pack: pack.Options{Cache: half, Policy: packfile.PolicyMin, DType: "bf16"}, hold: 16 << 10},
		"typed multi-label chunks":  {world: storetest.Params{Params: datasettest.Params{Nodes: 120, AvgDegree: 4, Dim: 5, Classes: 11, MultiLabel: true, Typed: true}, Batch: 9, Epochs: 1}, pack: pack.Options{Cache: half, DType: "int8", EvalChunks: true, Compress: packfile.CodecS2}},
		"typed disk budget":         {world: storetest.Params{Params: datasettest.Params{Nodes: 90, AvgDegree: 2, Dim: 1200, Seed: 3, Typed: true}, Batch: 6, Epochs: 1, Fanout: []int{3, 3}}, pack: pack.Options{Cache: half, Bands: []float64{40}, DType: "int8", MaxDisk: &budget.Size{Value: 1}}},
		"multi-label":               {world: storetest.Params{Params: datasettest.Params{Nodes: 120, AvgDegree: 4, Dim: 5, Classes: 11, MultiLabel: true, DType: dtype.Float16}, Batch: 9, Epochs: 1}, pack: pack.Options{Cache: half, DType: "same"}},
	} {
		c.world.Drive = name == "static" || name == "disk budget"
		var traits []storetest.Trait
		if c.pack.Compress == "" {
			traits = append(traits, storetest.GPUReads)
		}
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, storetest.NewWorld(t, c.world, sample), func(t testing.TB, w *storetest.World) featurestore.Candidate {
				o := c.pack
				o.Dataset, o.Samples, o.Out, o.Memory, o.Workers = w.Dataset, w.Samples, filepath.Join(w.Dir, "P"), 1<<30, 2
				_, err := pack.Run(context.Background(), storetest.Disk, o, progress.Discard)
				if refusal := new(cut.DiskError); o.MaxDisk != nil && errors.As(err, &refusal) {
					o.MaxDisk = &budget.Size{Value: 1.1 * float64(refusal.Need)}
					_, err = pack.Run(context.Background(), storetest.Disk, o, progress.Discard)
				}
				if err != nil {
					t.Fatal(err)
				}
				found, err := packed.Find(storetest.Disk, o.Out)
				if err != nil {
					t.Fatal(err)
				}
				if found.Describe().Segment > 1 != (o.MaxDisk != nil) {
					t.Fatalf("segments of %d batches", found.Describe().Segment)
				}
				if c.hold > 0 {
					return holding{found, c.hold}
				}
				return found
			}, traits...)
		})
	}
}

// holding is a store that holds rows for evaluation in the given memory, if there is enough for all else.
type holding struct {
	featurestore.Candidate
	bytes int64
}

func (h holding) Plan(o featurestore.PlanOptions) (featurestore.Layout, error) {
	if o.Least || o.Memory < 1<<30 {
		return h.Candidate.Plan(o)
	}
	o.Hold = featurestore.Hold{Memory: h.bytes, Validations: 1 << 10}
	l, err := h.Candidate.Plan(o)
	if err == nil && (l.HeldBytes == 0 || l.HeldBytes > h.bytes) {
		return l, fmt.Errorf("%d bytes are held in %d", l.HeldBytes, h.bytes)
	}
	return l, err
}

func (h holding) PlanEval(int64) (featurestore.Layout, error) { return h.Candidate.PlanEval(h.bytes) }

// sample makes the samples of a world.
func sample(dataset, out string, p storetest.Params) error {
	_, err := presample.Run(context.Background(), storetest.Disk, presample.Options{Dataset: dataset, Out: out,
		BatchSize: p.Batch, Epochs: p.Epochs, Fanout: p.Fanout, Workers: 2}, progress.Discard)
	return err
}
