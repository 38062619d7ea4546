package mmap

import (
	"cmp"
	"fmt"

	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/gpureads"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/internal/budget"
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
func (v *levels) Plan(r machine.Room, _ *gpureads.Plan) (featurestore.Layout, error) {
	return r.Divide(machine.Division{Most: v.filePages(), Parts: "the smallest page cache",
		Units: func(rows int64) int64 { return (rows*int64(v.Facts.RowBytes) + v.page - 1) / v.page },
		Of:    func(pages int64) featurestore.Layout { return v.layout(pages, r.FaultThreads) }})
}

// PlanEval returns the layout with the smallest page cache.
func (v *levels) PlanEval(int64) (featurestore.Layout, error) { return v.layout(0, 0), nil }

// layout counts the memory of a store with a bound of pages in the page cache: at least the pages of
// leastRows rows, at most the pages of the features.
func (v *levels) layout(pages int64, threads int) featurestore.Layout {
	f := &v.Facts
	pages = min(max(pages, leastRows*mostPages(int64(f.RowBytes), v.page)), v.filePages())
	threads = cmp.Or(threads, DefaultFaultThreads)
	l := featurestore.Layout{
		CacheRows:    min(f.Nodes, pages*v.page/int64(f.RowBytes)),
		TableBytes:   v.Source.TableBytes(),
		RAMBytes:     pages*v.page + v.RanksBytes() + machine.Pages(2*4*words(v.filePages())),
		KeepBytes:    v.Source.RanksBytes(),
		ByUse:        true,
		FaultThreads: threads,
		Unchecked:    true,
		Note:         v.note(pages),
		Own:          own{pages: pages, threads: threads},
	}
	l.SlotBytes, l.EvalSlotBytes = featurestore.HostSlotBytes(v.Source, false), featurestore.HostSlotBytes(v.Source, true)
	return l
}

const unchecked = "rows are unchecked: the kernel reads the pages of the mapped features"

// confinedLeast is the smallest page cache for Confine. A cgroup also counts the kernel's page tables, 8
// bytes for each touched page, and memory that the program takes beyond its plan for a moment. The kernel
// kills a program that has no page to evict, so the page cache must have room for both.
const confinedLeast = 32 << 20

// Confine implements featurestore.Confinable. It returns false if the page cache has room for all pages,
// or is too small for a cgroup.
func (v *levels) Confine(l featurestore.Layout) (featurestore.Layout, bool) {
	o := l.Own.(own)
	if !canDrop || o.pages >= v.filePages() || o.pages*v.page < confinedLeast+8*v.filePages() {
		return l, false
	}
	o.confined = true
	l.Own = o
	l.Note = fmt.Sprintf("%s; a memory cgroup limits the page cache, to %s for these pages", unchecked, budget.FormatBytes(o.pages*v.page))
	return l, true
}

// note says that rows are unchecked, and how the page cache is limited.
func (v *levels) note(pages int64) string {
	held := "the page cache has room for all of them"
	switch {
	case pages < v.filePages() && canDrop:
		held = fmt.Sprintf("pages are dropped before the page cache has more than %s of them", budget.FormatBytes(pages*v.page))
	case pages < v.filePages():
		held = "the page cache may exceed --memory on this system"
	}
	return unchecked + "; " + held
}

func (v *levels) filePages() int64 { return (v.Size() + v.page - 1) / v.page }
