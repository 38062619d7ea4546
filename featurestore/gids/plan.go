package gids

import (
	"fmt"
	"math"
	"slices"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/devrows"
	"diskgnn/featurestore/residency"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
)

// own has the further parameters of a layout for Open.
type own struct {
	mode  string
	rows  int // of the constant buffer
	lines int // of the cache of pages

	gpu   *cuda.Device  // that submits the reads of training batches
	reads *devrows.Plan // of gpu; nil: the host submits the reads
}

// PlanEval returns a layout without levels: batches of evaluation do not use the cache.
func (c *candidate) PlanEval(int64) (featurestore.Layout, error) { return c.layout(modes()[0], 0), nil }

// Plan makes the levels as large as the options ask for, or as the memory allows.
func (c *candidate) Plan(o featurestore.PlanOptions) (featurestore.Layout, error) {
	n := c.facts.Inputs(false)
	shape := devrows.Shape{Rows: n, RowBytes: c.facts.RowBytes, Most: binio.Page, Path: c.data.FeaturesPath(), Bytes: int64(c.mostPages(n)) * binio.Page}
	return devrows.Planned(o, shape, func(reads *devrows.Plan) (featurestore.Layout, error) {
		c := *c
		c.reads, c.gpu = reads, o.GPU
		return c.plan(o)
	})
}

func (c *candidate) plan(o featurestore.PlanOptions) (featurestore.Layout, error) {
	none := featurestore.Layout{}
	if err := o.NoGPURows("the levels of the store " + Name + " are in RAM"); err != nil {
		return none, err
	}
	mode := o.Policy
	if mode == "" {
		mode = modes()[0]
	}
	if !slices.Contains(modes(), mode) {
		return none, fault.New(fault.ErrUsage, "--cache-policy %s: the store %s has %v", mode, Name, modes())
	}
	least := c.layout(mode, 0)
	if c.reads != nil {
		if _, err := devrows.Fit(&least, &o); err != nil {
			return least, err
		}
	}
	if n := least.Bytes(o.Slots, o.EvalSlots); n > o.Memory {
		return least, fault.New(fault.ErrBudget, "%d slots and the tables of nodes and checksums need %s of memory, but only %s is left; give more --memory",
			o.Slots, budget.FormatBytes(n), budget.FormatBytes(max(o.Memory, 0)))
	}
	switch {
	case o.Least:
		return least, nil
	case o.Cache == nil:
		lo, hi := int64(0), c.whole() // lo fits
		for lo < hi {
			mid := lo + (hi-lo+1)/2
			if l := c.layout(mode, mid); l.Bytes(o.Slots, o.EvalSlots) <= o.Memory {
				lo = mid
			} else {
				hi = mid - 1
			}
		}
		return c.layout(mode, lo), nil
	}
	rows, err := o.Cache.Rows(c.facts.Nodes, c.facts.RowBytes)
	if err != nil {
		return none, err
	}
	l := c.layout(mode, rows*int64(c.facts.RowBytes))
	if n := l.Bytes(o.Slots, o.EvalSlots); n > o.Memory {
		return l, fault.New(fault.ErrBudget, "--ram-cache %s (%d rows) and %d slots need %s of memory, but only %s is left; give more --memory, or a smaller cache",
			o.Cache, rows, o.Slots, budget.FormatBytes(n), budget.FormatBytes(o.Memory))
	}
	return l, nil
}

// divide divides bytes between the levels: half for the constant buffer, at most bufferShare of the
// nodes' rows, and the rest for lines.
func (c *candidate) divide(bytes int64) (rows, lines int) {
	row := int64(c.facts.RowBytes)
	n := min(c.mostBuffered(), bytes/2/row)
	return int(n), int(min((bytes-n*row)/binio.Page, c.pages(), math.MaxInt32))
}

func (c *candidate) mostBuffered() int64 { return int64(bufferShare * float64(c.facts.Nodes)) }

// whole returns the bytes with which both levels have their largest size.
func (c *candidate) whole() int64 {
	most := c.mostBuffered() * int64(c.facts.RowBytes)
	return max(2*most, most+c.pages()*binio.Page)
}

// layout counts the memory of a store with levels of bytes bytes.
func (c *candidate) layout(mode string, bytes int64) featurestore.Layout {
	rows, lines := c.divide(bytes)
	o := own{mode: mode, rows: rows, lines: lines, gpu: c.gpu, reads: c.reads}
	l := featurestore.Layout{
		CacheRows:  min(c.facts.Nodes, int64(rows)+int64(lines)*binio.Page/int64(c.facts.RowBytes)),
		TableBytes: c.source.TableBytes() + c.data.PageSumsBytes(),
		RAMBytes:   c.levelsBytes(o),
		StateBytes: stateBytes(int64(lines)),
		Policy:     mode,
		ByUse:      true,
		Note: fmt.Sprintf("a constant buffer of %d rows and %d lines of %d bytes; batches are read together until they have more than %d accesses",
			rows, lines, binio.Page, Defaults().Accesses()),
		Own: o,
	}
	repeating := carved(func(mem *carver) { new(wanted).lay(mem, c, c.facts.Inputs(false)) })
	l.KeepBytes = max(c.source.RanksBytes(), c.data.PageSumsWork(), c.chooseBytes(rows), 4*int64(rows)+readerBytes()+c.fillBytes(rows), readerBytes(), repeating)
	l.KeepBytes += residency.MostStates * l.StateBytes
	if lines > 0 {
		l.Ahead, l.WindowBytes = window, c.source.WindowBytes(window)
	}
	l.SlotBytes, l.EvalSlotBytes = c.slotBytes(false), c.slotBytes(true)
	if c.reads != nil {
		newGPU(c, c.gpu, c.reads).count(&l)
	}
	return l
}

// levels is the memory of the store outside its slots.
type levels struct {
	host   *device.Host
	ranks  []uint32 // by node
	buffer buffer
	cache  *cache
	lines  []byte // a page each
}

func (v *levels) lay(mem *carver, c *candidate, o own) {
	v.ranks = list[uint32](mem, int(c.facts.Nodes))
	v.buffer.lay(mem, c, o.rows)
	pages := 0
	if o.lines > 0 {
		pages = int(c.pages())
	}
	v.cache = newCache(pages, o.lines, mem)
	v.lines = list[byte](mem, o.lines*binio.Page)
}

// levelsBytes returns the memory of the levels, in bytes. It counts BaM's record for each page of the file,
// which is larger than the cache's own entry.
func (c *candidate) levelsBytes(o own) int64 {
	n := carved(func(mem *carver) { new(levels).lay(mem, c, o) })
	if o.lines > 0 {
		n += (recordBytes - pageBytes) * c.pages()
	}
	return n
}
