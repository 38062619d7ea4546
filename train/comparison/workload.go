package comparison

import (
	"math"

	"diskgnn/featurestore"
	"diskgnn/internal/binio"
	"diskgnn/presample"
	"diskgnn/presample/mbfile"
)

// page is the size of the drive's random reads, and of row-wise stores' reads, in bytes.
const page = 4096

// workload is the batches that all stores of a variant serve.
type workload struct {
	rowBytes   int64
	tableBytes int64
	inputs     []int64 // input nodes of the training batches, by sample epoch
	seeds      int64   // seed nodes of an epoch of training, mean
	batches    int     // of an epoch
}

// mostInputs returns the most input nodes that the batches of an epoch can have.
func mostInputs(seeds, nodes int64, o *presample.Options) (sum int64) {
	size := int64(o.BatchSize)
	for ; seeds > 0; seeds -= size {
		n := min(seeds, size)
		for _, f := range o.Fanout {
			if f == mbfile.AllNeighbours || n > nodes/int64(1+f) {
				n = nodes
				break
			}
			n *= int64(1 + f)
		}
		sum += n
	}
	return sum
}

// reading returns the seconds of a store's reads at the drive's rates, in epochs epochs and in
// packing, without caches and evaluation:
//
//	memory   table ÷ sequential rate, once
//	packed   Σ rows·R ÷ sequential rate, and to pack them the table read and the rows of all
//	         sample epochs written
//	others   a read a row: Σ rows ÷ request rate, or the pages' bytes ÷ sequential rate
//
// A row of R bytes covers (R + 4096 − gcd(R, 4096)) ÷ 4096 pages on average.
func (w *workload) reading(d *Drive, store featurestore.Design, epochs int) (training, packing float64) {
	rows, packed := 0.0, 0.0
	for e := range epochs {
		rows += float64(w.inputs[e%len(w.inputs)])
	}
	for _, n := range w.inputs {
		packed += float64(n)
	}
	row, table := float64(w.rowBytes), float64(w.tableBytes)
	switch {
	case store.HoldsAll:
		return table / d.Sequential, 0
	case store.Find != nil:
		return rows * row / d.Sequential, (table + packed*row) / d.Sequential
	}
	pages := (row + page - float64(binio.GCD(w.rowBytes, page))) / page
	training = rows * pages * page / d.Sequential
	if d.Random > 0 {
		training = math.Max(training, rows/d.Random)
	}
	return training, 0
}
