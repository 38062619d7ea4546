package phased

import (
	"sort"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
)

// own is what Open must know of a layout besides.
type own struct {
	units  int64
	single featurestore.Layout // of the store for batches of evaluation
}

// PlanEval returns the layout of the store that reads single rows.
func (c *candidate) PlanEval() (featurestore.Layout, error) { return c.single.PlanEval() }

// Plan takes as many units as are wanted, or as the memory allows.
func (c *candidate) Plan(o featurestore.PlanOptions) (featurestore.Layout, error) {
	none := featurestore.Layout{}
	if err := o.NoGPURows("the store " + c.Name() + " holds rows in RAM"); err != nil {
		return none, err
	}
	single, err := c.single.PlanEval()
	if err != nil {
		return none, err
	}
	rows, least, most := c.design.Units()
	need := func(units int64) int64 { l := c.layout(single, units); return l.Bytes(o.Slots, o.EvalSlots) }
	l := c.layout(single, least)
	if n := l.Bytes(o.Slots, o.EvalSlots); n > o.Memory {
		return l, fault.New(fault.ErrBudget, "the %d rows that are in RAM together at least and %d slots need %s of memory, %s is left for them; give more --memory",
			l.CacheRows, o.Slots, budget.FormatBytes(n), budget.FormatBytes(max(o.Memory, 0)))
	}
	switch {
	case o.Least:
		return l, nil
	case o.Cache == nil:
		more := sort.Search(int(most-least), func(i int) bool { return need(least+int64(i)+1) > o.Memory })
		return c.layout(single, least+int64(more)), nil
	}
	wanted, err := o.Cache.Rows(c.facts.Nodes, c.facts.RowBytes)
	if err != nil {
		return none, err
	}
	if wanted < l.CacheRows {
		return none, fault.New(fault.ErrUsage, "--ram-cache %s, %d rows: the store %s has %d in RAM together at least", o.Cache, wanted, c.Name(), l.CacheRows)
	}
	l = c.layout(single, min(max(least, wanted/rows), most))
	if n := l.Bytes(o.Slots, o.EvalSlots); n > o.Memory {
		return l, fault.New(fault.ErrBudget, "--ram-cache %s, %d rows, and %d slots need %s of memory, %s is left for them; give more --memory, or a smaller cache",
			o.Cache, l.CacheRows, o.Slots, budget.FormatBytes(n), budget.FormatBytes(o.Memory))
	}
	return l, nil
}

// layout counts what a store with so many units holds, beside that of single rows.
func (c *candidate) layout(single featurestore.Layout, units int64) featurestore.Layout {
	rows, _, _ := c.design.Units()
	l := featurestore.Layout{
		CacheRows:     min(units*rows, c.facts.Nodes),
		ByUse:         true,
		TableBytes:    single.TableBytes,
		RAMBytes:      single.RAMBytes,
		KeepBytes:     single.KeepBytes,
		SlotBytes:     c.slotBytes(),
		EvalSlotBytes: single.EvalSlotBytes,
		Own:           own{units, single},
	}
	c.design.Count(&l, units)
	return l
}

// slotBytes returns the memory of a slot for training batches; 0 where there are none.
func (c *candidate) slotBytes() int64 {
	n := int64(c.facts.Inputs(false))
	if n == 0 {
		return 0
	}
	return pages(4*n*int64(c.facts.Dim)) + pages(4*n) + c.source.LoaderBytes(false)
}

// pages rounds the bytes of a buffer up to whole pages.
func pages(bytes int64) int64 { return binio.AlignUp(bytes, device.PageSize) }
