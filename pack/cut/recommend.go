package cut

import (
	"fmt"

	"diskgnn/internal/budget"
)

// None is the value of Plan.Recommended when no choice is recommended.
const None = -1

// slack bounds the epoch of the recommended choice, as a multiple of the fastest one: a slower choice may
// need less disk.
const slack = 1.1

// Recommend sets Recommended and Why. It considers the choices that pay, fit in the given bytes of memory
// and of free disk, and have the element type of the decision. Among the choices within 10 % of the fastest
// epoch it picks the smallest pack. If none of that type fits, it considers narrower types.
func (p *Plan) Recommend(memory, free int64) {
	disk, of := free, "free disk"
	if limit := p.Params.MaxDisk; limit > 0 && limit < disk {
		disk, of = limit, "--max-disk"
	}
	within := fmt.Sprintf("%s of memory and %s of %s", budget.FormatBytes(memory), budget.FormatBytes(disk), of)
	fits := func(c *Choice) bool { return c.RAMBytes <= memory && c.DiskBytes <= disk }
	var types []string
	any := false
	for i := range p.Choices {
		c := &p.Choices[i]
		if len(types) == 0 || types[len(types)-1] != c.DType {
			types = append(types, c.DType)
		}
		any = any || fits(c)
	}
	p.Recommended = None
	for k, dtype := range types {
		best := p.best(func(c *Choice) bool { return c.DType == dtype && fits(c) && c.BreakEven > 0 })
		if best == None {
			continue
		}
		p.Recommended = best
		p.Why = fmt.Sprintf("it is the smallest of the fastest packs that pay and fit in %s", within)
		if k > 0 {
			p.Why = fmt.Sprintf("no pack of %s pays and fits in %s; it is the smallest of the fastest packs of %s that do", types[0], within, dtype)
		}
		return
	}
	p.Why = "no pack pays: with a cache of the same size, an epoch is about as fast with rows read one by one (train --store rows)"
	if !any {
		p.Why = fmt.Sprintf("no pack fits in %s: sample fewer epochs, or make room", within)
	}
}

// best returns the smallest choice within slack of the fastest epoch; of equally small ones the choice with
// the least cache.
func (p *Plan) best(among func(*Choice) bool) int {
	least := 0.0
	for i := range p.Choices {
		if c := &p.Choices[i]; among(c) && (least == 0 || c.EpochSeconds < least) {
			least = c.EpochSeconds
		}
	}
	best := None
	for i := range p.Choices {
		c := &p.Choices[i]
		if !among(c) || c.EpochSeconds > slack*least {
			continue
		}
		if b := best; b == None || c.DiskBytes < p.Choices[b].DiskBytes || c.DiskBytes == p.Choices[b].DiskBytes && c.CacheRows < p.Choices[b].CacheRows {
			best = i
		}
	}
	return best
}
