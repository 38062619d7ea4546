package marius

import (
	"context"
	"slices"

	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/presample/sampler"
)

// phase is successive batches of the circle that were drawn from the same partitions.
type phase struct {
	first, batches int
	held           []uint16 // these, ascending
}

// course is the phases of the circle of sample epochs.
type course struct {
	train  int // batches of the circle
	phases []phase
}

// newCourse finds out the phases, and writes into places where each node's row lies among
// those by partition.
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

// place writes the place of every node, whose partitions are given.
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

// close closes the circle: the last phase goes on with the first if both hold the same.
func (c *course) close() {
	if last := len(c.phases) - 1; last > 0 && slices.Equal(c.phases[last].held, c.phases[0].held) {
		c.phases = c.phases[1:]
	}
	for i := range c.phases {
		end := c.phases[(i+1)%len(c.phases)].first
		c.phases[i].batches = (end-c.phases[i].first+c.train-1)%c.train + 1
	}
}

// at returns the number of the phase that a batch is in, and how many of its batches are before.
func (c *course) at(batch int) (number, before int) {
	number = len(c.phases) - 1 // which may go on at the beginning of the circle
	for i := range c.phases {
		if c.phases[i].first > batch {
			break
		}
		number = i
	}
	return number, (batch - c.phases[number].first + c.train) % c.train
}

// comes returns the partitions that a phase has and the one before it has not, ascending.
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
