package mmap

import (
	"cmp"
	"fmt"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
)

// leastRows is the number of rows that the smallest page cache has room for. With fewer, threads would be
// without work before each drop.
const leastRows = 64

// own has the further parameters of a layout for Open.
type own struct {
	pages    int64 // bound of the page cache
	threads  int
	confined bool // a cgroup limits the page cache
}

// Plan gives the page cache the size that the options ask for, or the memory left, at most the size of the
// features.
func (c *candidate) Plan(o featurestore.PlanOptions) (featurestore.Layout, error) {
	none := featurestore.Layout{}
	if err := o.NoGPURows("the store " + Name + " leaves rows to the page cache, which is in RAM"); err != nil {
		return none, err
	}
	least := c.layout(0, o.FaultThreads)
	left := o.Memory - least.Bytes(o.Slots, o.EvalSlots)
	if left < 0 {
		return least, fault.New(fault.ErrBudget, "%d slots and the smallest page cache need %s of memory, but only %s is left; give more --memory",
			o.Slots, budget.FormatBytes(least.Bytes(o.Slots, o.EvalSlots)), budget.FormatBytes(max(o.Memory, 0)))
	}
	switch {
	case o.Least:
		return least, nil
	case o.Cache == nil:
		return c.layout(least.Own.(own).pages+left/c.page, o.FaultThreads), nil
	}
	rows, err := o.Cache.Rows(c.facts.Nodes, c.facts.RowBytes)
	if err != nil {
		return none, err
	}
	l := c.layout((rows*int64(c.facts.RowBytes)+c.page-1)/c.page, o.FaultThreads)
	if n := l.Bytes(o.Slots, o.EvalSlots); n > o.Memory {
		return l, fault.New(fault.ErrBudget, "--ram-cache %s and %d slots need %s of memory, but only %s is left; give more --memory, or a smaller cache",
			o.Cache, o.Slots, budget.FormatBytes(n), budget.FormatBytes(o.Memory))
	}
	return l, nil
}

// PlanEval returns the layout with the smallest page cache.
func (c *candidate) PlanEval(int64) (featurestore.Layout, error) { return c.layout(0, 0), nil }

// layout counts the memory of a store with a bound of pages in the page cache: at least the pages of
// leastRows rows, at most the pages of the features.
func (c *candidate) layout(pages int64, threads int) featurestore.Layout {
	f := &c.facts
	pages = min(max(pages, leastRows*mostPages(int64(f.RowBytes), c.page)), c.filePages())
	threads = cmp.Or(threads, DefaultFaultThreads)
	l := featurestore.Layout{
		CacheRows:    min(f.Nodes, pages*c.page/int64(f.RowBytes)),
		TableBytes:   c.source.TableBytes(),
		RAMBytes:     pages*c.page + c.ranksBytes() + alignUp(2*4*words(c.filePages())),
		KeepBytes:    c.source.RanksBytes(),
		ByUse:        true,
		FaultThreads: threads,
		Unchecked:    true,
		Note:         c.note(pages),
		Own:          own{pages: pages, threads: threads},
	}
	l.SlotBytes, l.EvalSlotBytes = c.slotBytes(false), c.slotBytes(true)
	return l
}

const unchecked = "rows are unchecked: the kernel reads the pages of the mapped features"

// confinedLeast is the smallest page cache for Confine. A cgroup also counts the kernel's page tables, 8
// bytes for each touched page, and memory that the program takes beyond its plan for a moment. The kernel
// kills a program that has no page to evict, so the page cache must have room for both.
const confinedLeast = 32 << 20

// Confine implements featurestore.Confinable. It returns false if the page cache has room for all pages,
// or is too small for a cgroup.
func (c *candidate) Confine(l featurestore.Layout) (featurestore.Layout, bool) {
	o := l.Own.(own)
	if !canDrop || o.pages >= c.filePages() || o.pages*c.page < confinedLeast+8*c.filePages() {
		return l, false
	}
	o.confined = true
	l.Own = o
	l.Note = fmt.Sprintf("%s; a memory cgroup limits the page cache, to %s for these pages", unchecked, budget.FormatBytes(o.pages*c.page))
	return l, true
}

// note says that rows are unchecked, and how the page cache is limited.
func (c *candidate) note(pages int64) string {
	held := "the page cache has room for all of them"
	switch {
	case pages < c.filePages() && canDrop:
		held = fmt.Sprintf("pages are dropped before the page cache has more than %s of them", budget.FormatBytes(pages*c.page))
	case pages < c.filePages():
		held = "the page cache may exceed --memory on this system"
	}
	return unchecked + "; " + held
}

func (c *candidate) filePages() int64 { return (c.size() + c.page - 1) / c.page }

func (c *candidate) ranksBytes() int64 { return alignUp(4 * c.facts.Nodes) }

// slotBytes returns the memory of a slot, in bytes; 0 if no batches need it.
func (c *candidate) slotBytes(eval bool) int64 {
	n := int64(c.facts.Inputs(eval))
	if n == 0 {
		return 0
	}
	return alignUp(4*n*int64(c.facts.Dim)) + alignUp(4*n) + c.source.LoaderBytes(eval)
}

// alignUp rounds the bytes of a buffer up to whole pages.
func alignUp(bytes int64) int64 { return binio.AlignUp(bytes, device.PageSize) }
