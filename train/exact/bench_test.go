package exact

import (
	"fmt"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/internal/progress"
	"diskgnn/iostack/all"
	"diskgnn/train/exact/grid"
)

// BenchmarkEvaluate scores 200,000 nodes of 64 floats with two layers, in memory and in tiles: the features take
// 49 MiB. It prints the bytes that are read, beside the bytes that the plan says.
func BenchmarkEvaluate(b *testing.B) {
	before := grid.Group
	grid.Group = 512
	b.Cleanup(func() { grid.Group = before })
	w := newWorld(b, b.TempDir(), datasettest.Params{Nodes: 200_000, Dim: 64, AvgDegree: 15, Classes: 16, Seed: 1}.Raw(), 32)
	for _, mib := range []int64{2, 8, 32, 256} {
		b.Run(fmt.Sprintf("room=%dMiB", mib), func(b *testing.B) {
			o := w.options()
			o.BLAS, o.IO = "auto", "auto"
			for range b.N {
				e, err := evaluate(b.Context(), disk, o, progress.Discard, parts{stack: all.Open, room: mib << 20})
				check(b, err)
				b.ReportMetric(float64(e.BytesRead)/1e6, "MB-read")
				b.ReportMetric(float64(e.Layers[0].Ranges), "tiles")
			}
		})
	}
}
