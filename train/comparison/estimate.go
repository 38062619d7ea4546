package comparison

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"

	"diskgnn/featurestore/memory"
	"diskgnn/internal/driverate"
	"diskgnn/internal/units"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/presample"
	"diskgnn/presample/mbfile"
)

// page is what the drive's random reads are measured by, and what row-wise stores read in.
const page = 4096

// Drive is what was measured of the drive that the dataset lies on.
type Drive struct {
	Path       string  `json:"path"` // the file that was read
	Backend    string  `json:"backend"`
	Direct     bool    `json:"direct"` // reads went around the page cache
	Sequential float64 `json:"sequential_bytes_per_second"`
	Random     float64 `json:"random_requests_per_second"` // of 4 KiB; 0 of a file that is shorter
}

// depth is how many random reads are in flight.
const depth = 128

// measureDrive measures reading the dataset's features, in sequence and page by page.
func (c *comparison) measureDrive(ctx context.Context) (d Drive, err error) {
	f := c.data.Facts()
	d = Drive{Path: filepath.Join(c.o.Dataset, f.FeaturesFile())}
	scale := c.o.DriveSeconds / driverate.Limited.For.Seconds()
	times := func(d time.Duration) time.Duration { return time.Duration(scale * float64(d)) }
	effort := driverate.Effort{Drain: times(driverate.Limited.Drain), For: times(driverate.Limited.For)}
	c.rep.Logf("measuring the drive of %s for %s", d.Path, units.Seconds((all.SweepTime(effort) + effort.Total()).Seconds()))
	sequence := all.Drive{Kind: c.o.Train.IO, Paths: []string{d.Path}}
	sweep, err := sequence.Best(ctx, effort)
	if err != nil {
		return d, err
	}
	rate, err := sequence.At(ctx, sweep.Best, effort)
	if err != nil {
		return d, err
	}
	d.Sequential = rate.PerSecond
	stack, _, err := all.Open(c.o.Train.IO, iostack.Options{Workers: depth})
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, stack.Close()) }()
	file, err := stack.Open(d.Path)
	if err != nil {
		return d, err
	}
	d.Backend = stack.Name()
	d.Direct, _ = file.Direct()
	size := file.Size()
	if err := file.Close(); err != nil || size < page {
		return d, err
	}
	random, err := iostack.Random(ctx, stack, d.Path, page, c.o.Train.Seed, effort)
	d.Random = random.PerSecond
	return d, err
}

// workload is what all stores of a variant serve.
type workload struct {
	rowBytes   int64
	tableBytes int64
	inputs     []int64 // input nodes of the training batches, by sample epoch
}

// rows returns how many rows the batches of a training epoch take.
func (w *workload) rows(epoch int) int64 { return w.inputs[epoch%len(w.inputs)] }

// workload counts the samples. Of batches that are drawn while training it knows the most
// rows that they can take: S seed nodes, of which each draws f₁, f₂ … neighbours in turn, have
// S·Π(1 + fₗ) input nodes, or all N.
func (c *comparison) workload(v *variant) (w workload, err error) {
	data := c.data.Facts()
	w = workload{rowBytes: int64(data.RowBytes()), tableBytes: data.Nodes * int64(data.RowBytes())}
	if v.samples == "" {
		w.inputs = []int64{mostInputs(data.Train, data.Nodes, &v.o.Sampling)}
		return w, nil
	}
	r := c.samples
	if r == nil {
		if r, err = mbfile.Open(c.fs, v.samples); err != nil {
			return w, err
		}
		defer func() { err = errors.Join(err, r.Close()) }()
	}
	f := r.Facts()
	w.inputs = make([]int64, f.Epochs)
	for i := range f.TrainBatches {
		info := r.Info(i)
		w.inputs[i/f.BatchesPerEpoch] += int64(info.InputNodes())
	}
	return w, nil
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

// reading returns the seconds that a store's reads take at the drive's rates in so many
// epochs, and in packing. No cache is reckoned with, and no evaluation:
//
//	memory   table ÷ sequential rate, once
//	packed   Σ rows·R ÷ sequential rate, and to pack them the table read and the rows of all
//	         sample epochs written
//	others   a read a row: Σ rows ÷ request rate, or the pages' bytes ÷ sequential rate
//
// A row of R bytes covers (R + 4096 − gcd(R, 4096)) ÷ 4096 pages on average.
func (w *workload) reading(d *Drive, store string, epochs int) (training, packing float64) {
	rows, packed := 0.0, 0.0
	for e := range epochs {
		rows += float64(w.rows(e))
	}
	for _, n := range w.inputs {
		packed += float64(n)
	}
	row, table := float64(w.rowBytes), float64(w.tableBytes)
	switch {
	case store == memory.Name:
		return table / d.Sequential, 0
	case needsPack(store):
		return rows * row / d.Sequential, (table + packed*row) / d.Sequential
	}
	pages := (row + page - float64(gcd(w.rowBytes, page))) / page
	training = rows * pages * page / d.Sequential
	if d.Random > 0 {
		training = math.Max(training, rows/d.Random)
	}
	return training, 0
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// estimate says how long the reads of all rounds take at most.
func (c *comparison) estimate() {
	r := &c.result
	r.estimates = map[string]float64{}
	var parts []string
	for _, row := range c.rows {
		training, packing := row.of.w.reading(&r.Drive, row.store, c.o.Train.Epochs)
		s := packing + training*float64(c.o.Rounds)
		r.estimates[row.name()] = s
		r.EstimatedSeconds += s
		parts = append(parts, fmt.Sprintf("%s %s", row.name(), units.Seconds(s)))
	}
	c.rep.Logf("estimate: without caches, reads take %s: %s; computing comes on top where it is slower, and evaluation", units.Seconds(r.EstimatedSeconds), strings.Join(parts, ", "))
}
