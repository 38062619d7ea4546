package raw

import (
	"math"

	"diskgnn/dataset/importer"
	"diskgnn/internal/rng"
)

// Words of the keys of random numbers. They change whenever the same seed gives other numbers.
const (
	drawsFeatures = 0x66656174_01
	drawsLabels   = 0x6c61626c_01
)

// drawLabels gives every node a class, each as likely as the others.
func drawLabels(seed uint64, nodes int64, classes int, l *importer.Labelling) error {
	for v := range nodes {
		src := rng.New(rng.Key(drawsLabels, seed, uint64(v)))
		if err := l.Label(v, int64(src.Uint64n(uint64(classes)))); err != nil {
			return err
		}
	}
	return nil
}

// drawnRows yields rows of independent numbers of the standard normal distribution. A row is a
// function of the seed and the node.
type drawnRows struct {
	seed uint64
	dim  int
	at   int64
}

func (r *drawnRows) Close() error { return nil }

func (r *drawnRows) Next(values []float32) error {
	for ; len(values) > 0; values = values[r.dim:] {
		src := rng.New(rng.Key(drawsFeatures, r.seed, uint64(r.at)))
		r.at++
		row := values[:r.dim]
		// Two numbers at a time (Box and Muller, 1958).
		for i := 0; i < len(row); i += 2 {
			radius := math.Sqrt(-2 * math.Log(1-src.Float64()))
			sin, cos := math.Sincos(2 * math.Pi * src.Float64())
			row[i] = float32(radius * cos)
			if i+1 < len(row) {
				row[i+1] = float32(radius * sin)
			}
		}
	}
	return nil
}
