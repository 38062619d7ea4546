package volume

import (
	"cmp"
	"slices"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
)

// space is the free pages of a volume: runs that ascend and are not adjacent.
type space []Extent

// freeOf returns the free space of a volume of the given number of pages with the given used extents, which
// may overlap.
func freeOf(pages int64, used []Extent) (s space) {
	used = slices.Clone(used)
	slices.SortFunc(used, func(a, b Extent) int { return cmp.Compare(a.First, b.First) })
	at := int64(0)
	for _, e := range append(used, Extent{pages, 0}) {
		if e.First > at {
			s = append(s, Extent{at, e.First - at})
		}
		at = max(at, e.First+e.Pages)
	}
	return s
}

func (s space) pages() (n int64) {
	for _, e := range s {
		n += e.Pages
	}
	return n
}

// last takes the last n contiguous free pages, so that tables are away from data.
func (s *space) last(n int64) (Extent, bool) {
	for i, e := range slices.Backward(*s) {
		if e.Pages >= n {
			(*s)[i].Pages -= n
			return Extent{e.First + e.Pages - n, n}, true
		}
	}
	return Extent{}, false
}

// take takes n pages: from the first run with room for all or, if there is none, from the longest runs
// first, so that there are few extents. There must be n free pages.
func (s *space) take(n int64) (got []Extent) {
	for n > 0 {
		best := -1
		for i, e := range *s {
			if e.Pages >= n {
				best = i
				break
			}
			if best < 0 || e.Pages > (*s)[best].Pages {
				best = i
			}
		}
		e := &(*s)[best]
		part := Extent{e.First, min(n, e.Pages)}
		e.First, e.Pages, n = e.First+part.Pages, e.Pages-part.Pages, n-part.Pages
		got = append(got, part)
	}
	return got
}

// extents returns the extents of a table and of its files.
func (c *Contents) extents(r ref) (all []Extent) {
	if c == nil {
		return nil
	}
	all = append(all, Extent{r.first, r.pages()})
	for i := range c.Files {
		all = append(all, c.Files[i].Extents...)
	}
	return all
}

// place assigns pages of the free space to all files of a table, and leaves room for two copies of the
// table, which are written by turns while it is under way. on names the drives, for the error.
func (c *Contents) place(on string, free space) error {
	need := int64(0)
	for i := range c.Files {
		need += pagesOf(c.Files[i].Size)
		c.Files[i].Extents = nil
	}
	// A file has one extent, and one more for each run that it uses up.
	table := c.encodedBytes() + 16*int64(len(c.Files)+len(free)+2)
	if table > maxTable {
		return fault.New(fault.ErrBudget, "the volume's table would have %s, more than the limit of %s", budget.FormatBytes(table), budget.FormatBytes(maxTable))
	}
	free = slices.Clone(free)
	have := free.pages()
	for range 2 {
		if _, ok := free.last(pagesOf(table)); !ok {
			return noRoom(on, need+2*pagesOf(table), have)
		}
	}
	if free.pages() < need {
		return noRoom(on, need+2*pagesOf(table), have)
	}
	for i := range c.Files {
		c.Files[i].Extents = free.take(pagesOf(c.Files[i].Size))
	}
	return nil
}

func noRoom(on string, need, have int64) error {
	return fault.New(fault.ErrBudget, "no room on %s: %s are needed, but %s are free", on, budget.FormatBytes(need*Page), budget.FormatBytes(have*Page))
}
