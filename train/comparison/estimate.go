package comparison

import (
	"errors"
	"fmt"
	"strings"

	"diskgnn/internal/units"
	"diskgnn/presample/mbfile"
)

// workload counts the samples. For batches drawn while training it uses the upper bound of rows: S
// seed nodes, each with f₁, f₂ … neighbours drawn in turn, have S·Π(1 + fₗ) input nodes, or all N.
func (c *comparison) workload(v *variant) (w workload, err error) {
	data := c.data.Facts()
	w = workload{rowBytes: int64(data.RowBytes()), tableBytes: data.Nodes * int64(data.RowBytes())}
	if v.samples == "" {
		w.inputs = []int64{mostInputs(data.Train, data.Nodes, &v.o.Sampling)}
		size := int64(v.o.Sampling.BatchSize)
		w.seeds, w.batches = data.Train, int((data.Train+size-1)/size)
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
	w.inputs, w.batches = make([]int64, f.Epochs), f.BatchesPerEpoch
	for i := range f.TrainBatches {
		info := r.Info(i)
		w.inputs[i/f.BatchesPerEpoch] += int64(info.InputNodes())
		w.seeds += int64(info.Seeds())
	}
	w.seeds /= int64(f.Epochs)
	return w, nil
}

// estimate reports an upper bound of the time of all rounds' reads.
func (c *comparison) estimate() {
	r := &c.result
	r.estimates = map[string]float64{}
	var parts []string
	for _, row := range c.rows {
		training, packing := row.of.w.reading(&r.Drive, c.o.Train.Stores.Design(row.store), c.o.Train.Epochs)
		s := packing + training*float64(c.o.Rounds)
		r.estimates[row.name()] = s
		r.EstimatedSeconds += s
		parts = append(parts, fmt.Sprintf("%s %s", row.name(), units.Seconds(s)))
	}
	c.rep.Logf("estimate: without caches, reads take %s: %s; evaluation, and computing where it is slower than reading, come on top", units.Seconds(r.EstimatedSeconds), strings.Join(parts, ", "))
}
