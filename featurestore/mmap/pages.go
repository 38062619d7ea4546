package mmap

import "diskgnn/internal/binio"

// pages predicts the pages of the mapped file in the page cache, from the rows that were touched: see the
// package comment. It belongs to one goroutine at a time.
type pages struct {
	size, page, row int64 // bytes of the file, of a page and of a row
	most            int64 // the bound of pages held
	count           int64 // pages held
	held            set   // pages held
	read            set   // pages that the present batch read
}

// newPages returns an empty set of at most `most` pages of a file. memory is for both sets: zeroed, with
// twice words(pages of the file) entries.
func newPages(size, page, row, most int64, memory []uint32) *pages {
	half := len(memory) / 2
	return &pages{size: size, page: page, row: row, most: most, held: memory[:half], read: memory[half:]}
}

// words returns the length of a set of some pages.
func words(pages int64) int64 { return (pages + 31) / 32 }

// A set has a bit for each page.
type set []uint32

func (s set) has(page int64) bool { return s[page/32]>>(page%32)&1 != 0 }
func (s set) add(page int64)      { s[page/32] |= 1 << (page % 32) }

// touched counts the effects of touching rows.
type touched struct {
	rows   int   // rows touched
	warm   int   // rows touched without a page that the batch read
	pages  int64 // pages read
	bytes  int64 // bytes of the pages read
	useful int64 // bytes of the rows on pages that the batch read
}

func (p *pages) begin() { clear(p.read) }

// take touches rows of nodes, from the first on, until the next row would exceed the bound. If it touches
// none, call drop first.
func (p *pages) take(nodes []uint32) (t touched) {
	for _, v := range nodes {
		begin := int64(v) * p.row
		end := begin + p.row
		first, last := begin/p.page, (end-1)/p.page
		missing := int64(0)
		for k := first; k <= last; k++ {
			if !p.held.has(k) {
				missing++
			}
		}
		if p.count+missing > p.most {
			return t
		}
		p.count += missing
		warm := true
		for k := first; k <= last; k++ {
			if !p.held.has(k) {
				p.held.add(k)
				p.read.add(k)
				t.pages++
				t.bytes += min(p.page, p.size-k*p.page)
			}
			if p.read.has(k) {
				warm = false
				t.useful += min(end, (k+1)*p.page) - max(begin, k*p.page)
			}
		}
		t.rows++
		if warm {
			t.warm++
		}
	}
	return t
}

// drop empties the set of held pages. It keeps the pages that the batch read.
func (p *pages) drop() {
	clear(p.held)
	p.count = 0
}

// mostPages returns the most pages of one row. Rows begin at multiples of the greatest common divisor of the
// sizes of rows and pages.
func mostPages(row, page int64) int64 {
	return (page - binio.GCD(row, page) + row + page - 1) / page
}
