package marius

import (
	"context"
	"slices"

	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/presample/sampler"
)

// phase is a group of successive batches of the circle that were drawn from the same partitions.
type phase struct {
	first, batches int
	held           []uint16 // the partitions, ascending
}

// course has the phases of the circle of sample epochs.
type course struct {
	train  int // batches of the circle
	phases []phase
}

// newCourse computes the phases, and sets places, by node, to the place of its row in the file of rows by
// partition.
func (d *design) newCourse(ctx context.Context, places []uint32) (*course, error) {
	seeds, err := sampler.Load(ctx, d.data, d.params, progress.Discard)
	if err != nil {
		return nil, err
	}
	if err := d.place(seeds.Partitions(), places); err != nil {
		return nil, err
	}
	if per := seeds.Batches(sampler.Train); per != d.facts.BatchesPerEpoch {
		return nil, fault.New(fault.ErrCorrupt, "%s has %d batches in an epoch, but its parameters give %d", d.source.Dir(), d.facts.BatchesPerEpoch, per)
	}
	c := &course{train: d.facts.Train}
	held, before := make([]bool, d.params.Partitions), make([]bool, d.params.Partitions)
	for i := range c.train {
		id := seeds.Nth(i)
		if id.Index == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			seeds.Forget(id.Epoch)
		}
		seeds.State(id, held)
		if i == 0 || !slices.Equal(held, before) {
			c.phases = append(c.phases, phase{first: i, held: list(held)})
			copy(before, held)
		}
	}
	c.close()
	return c, nil
}

// place sets the place of every node; of has the partition of every node.
func (d *design) place(of []uint16, places []uint32) error {
	next := slices.Clone(d.table.begin)
	for v, p := range of {
		places[v] = uint32(next[p])
		next[p]++
	}
	if !slices.Equal(next[:len(next)-1], d.table.begin[1:]) {
		return fault.New(fault.ErrCorrupt, "%s: the partitions of its samples are not equal parts of the nodes", d.source.Dir())
	}
	return nil
}

func list(held []bool) (numbers []uint16) {
	for p, in := range held {
		if in {
			numbers = append(numbers, uint16(p))
		}
	}
	return slices.Clip(numbers)
}

// close closes the circle: it joins the last phase and the first one if both have the same partitions.
func (c *course) close() {
	if last := len(c.phases) - 1; last > 0 && slices.Equal(c.phases[last].held, c.phases[0].held) {
		c.phases = c.phases[1:]
	}
	for i := range c.phases {
		end := c.phases[(i+1)%len(c.phases)].first
		c.phases[i].batches = (end-c.phases[i].first+c.train-1)%c.train + 1
	}
}

// at returns the number of a batch's phase, and the number of earlier batches in this phase.
func (c *course) at(batch int) (number, before int) {
	number = len(c.phases) - 1 // may continue at the beginning of the circle
	for i := range c.phases {
		if c.phases[i].first > batch {
			break
		}
		number = i
	}
	return number, (batch - c.phases[number].first + c.train) % c.train
}

// comes returns the partitions of a phase that are not in the previous phase, ascending.
func (c *course) comes(number int) (in []uint16) {
	if len(c.phases) == 1 {
		return nil
	}
	before := c.phases[(number+len(c.phases)-1)%len(c.phases)].held
	for _, p := range c.phases[number].held {
		if _, there := slices.BinarySearch(before, p); !there {
			in = append(in, p)
		}
	}
	return in
}
