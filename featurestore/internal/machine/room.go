package machine

import (
	"sort"

	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/gpureads"
	"diskgnn/featurestore/internal/gpurows"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
)

// Room is the memory that the options of a plan allow for a table.
type Room struct {
	*featurestore.PlanOptions
	table *Table
}

// Need returns the host memory of a layout with all slots, in bytes.
func (r Room) Need(l featurestore.Layout) int64 { return l.Bytes(r.Slots, r.EvalSlots) }

// Fits reports whether the host memory suffices for a layout.
func (r Room) Fits(l featurestore.Layout) bool { return r.Need(l) <= r.Memory }

// Smallest returns an error of kind fault.ErrBudget if the smallest layout does not fit. parts names its
// memory besides slots.
func (r Room) Smallest(l featurestore.Layout, parts string) error {
	if r.Fits(l) {
		return nil
	}
	return fault.New(fault.ErrBudget, "%d slots and %s need %s of memory, but only %s is left; give more --memory",
		r.Slots, parts, budget.FormatBytes(r.Need(l)), budget.FormatBytes(max(r.Memory, 0)))
}

// Cached returns an error of kind fault.ErrBudget if the layout with the given rows, which Cache asks for,
// does not fit.
func (r Room) Cached(l featurestore.Layout, rows int64) error {
	if r.Fits(l) {
		return nil
	}
	return fault.New(fault.ErrBudget, "--ram-cache %s (%d rows) and %d slots need %s of memory, but only %s is left; give more --memory, or a smaller cache",
		r.Cache, rows, r.Slots, budget.FormatBytes(r.Need(l)), budget.FormatBytes(r.Memory))
}

// Wanted returns the number of rows that Cache asks for, which must not be nil.
func (r Room) Wanted() (int64, error) {
	return r.Cache.Rows(r.table.Facts.Nodes, r.table.Facts.RowBytes)
}

// OnGPU returns the number of rows for the GPU: the rows that GPUCache asks for, or all that fit beside a
// layout without rows; never more than most, and 0 without a GPU.
func (r Room) OnGPU(without featurestore.Layout, most int64) (int64, error) {
	if r.GPU == nil {
		return 0, nil
	}
	left, err := gpureads.Fit(&without, r.PlanOptions)
	if err != nil {
		return 0, err
	}
	return gpurows.Fit(r.PlanOptions, left, most, r.table.Facts.Nodes, r.table.Facts.RowBytes)
}

// Division divides a room between slots and one cache of units in RAM.
type Division struct {
	Least, Most int64  // units
	Parts       string // of the smallest layout, besides slots
	// Units returns the number of units for rows that Cache asks for.
	Units func(rows int64) int64
	// Of counts the memory of a layout. More units never need less memory.
	Of func(units int64) featurestore.Layout
	// Floor is the store, as the subject of the sentence that refuses fewer rows than the least units have;
	// "": they become the least units.
	Floor string
}

// Divide returns the layout with the units that Cache asks for or, if it is nil, with all that fit.
func (r Room) Divide(d Division) (featurestore.Layout, error) {
	least := d.Of(d.Least)
	if err := r.Smallest(least, d.Parts); err != nil || r.Least {
		return least, err
	}
	if r.Cache == nil {
		return d.Of(d.Least + Most(d.Most-d.Least, func(n int64) bool { return r.Fits(d.Of(d.Least + n)) })), nil
	}
	rows, err := r.Wanted()
	if err != nil {
		return featurestore.Layout{}, err
	}
	if floor := least.CacheRows - least.GPURows; d.Floor != "" && rows < floor {
		return featurestore.Layout{}, fault.New(fault.ErrUsage, "--ram-cache %s (%d rows) is too small: %s needs at least %d rows in RAM", r.Cache, rows, d.Floor, floor)
	}
	l := d.Of(min(max(d.Units(rows), d.Least), d.Most))
	return l, r.Cached(l, rows)
}

// Most returns the largest number up to hi that fits. fits must be true for 0, and for all numbers below one
// for which it is true.
func Most(hi int64, fits func(int64) bool) int64 {
	return int64(sort.Search(int(hi), func(n int) bool { return !fits(int64(n) + 1) }))
}
