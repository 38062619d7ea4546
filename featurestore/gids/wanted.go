package gids

import (
	"slices"

	"diskgnn/featurestore/internal/machine"
	"diskgnn/internal/binio"
)

// wanted has the rows of a batch that are not in the buffer, and their pages.
type wanted struct {
	rows  []uint64 // ascending: the node in the upper half, its place among the input nodes in the lower
	pages []uint32 // ascending, distinct
	from  []uint32 // by page: the place in rows of the first row on it
	held  []int32  // by page: the line that holds it, or absent
	into  []int32  // by page: the line that takes it, or absent
}

// lay takes the lists for batches of the given number of input nodes.
func (w *wanted) lay(mem *machine.Memory, d *design, inputs int) {
	n := d.mostPages(inputs)
	w.rows = machine.Numbers[uint64](mem, inputs)[:0]
	w.pages, w.from = machine.Numbers[uint32](mem, n)[:0], machine.Numbers[uint32](mem, n)[:0]
	w.held, w.into = machine.Numbers[int32](mem, n), machine.Numbers[int32](mem, n)
}

// find lists the rows that are not in the buffer, and their pages.
func (w *wanted) find(nodes []uint32, b *buffer, rowBytes int) {
	w.rows = w.rows[:0]
	for i, v := range nodes {
		if !b.has(v) {
			w.rows = append(w.rows, uint64(v)<<32|uint64(i))
		}
	}
	slices.Sort(w.rows)
	w.pages, w.from = w.pages[:0], w.from[:0]
	next := int64(0) // the first page that is not listed
	for i, r := range w.rows {
		first, last := span(uint32(r>>32), rowBytes)
		for p := max(first, next); p <= last; p++ {
			w.pages, w.from = append(w.pages, uint32(p)), append(w.from, uint32(i))
		}
		next = max(next, last+1)
	}
}

// span returns the first and the last page of a node's row.
func span(v uint32, rowBytes int) (first, last int64) {
	at := int64(v) * int64(rowBytes)
	return at / binio.Page, (at + int64(rowBytes) - 1) / binio.Page
}

// counts returns the number of rows with all of their pages in lines, the number of these with all pages in
// lines below near, and the number of accesses of all rows.
func (w *wanted) counts(rowBytes, near int) (hits, onGPU int, accesses int64) {
	j := 0 // place of the row's first page
	for _, r := range w.rows {
		first, last := span(uint32(r>>32), rowBytes)
		for int64(w.pages[j]) < first {
			j++
		}
		n := int(last-first) + 1
		if lines := w.held[j : j+n]; !slices.Contains(lines, absent) {
			hits++
			if int(slices.Max(lines)) < near {
				onGPU++
			}
		}
		accesses += int64(n)
	}
	return hits, onGPU, accesses
}

// bytes returns the bytes of rows on page j.
func (w *wanted) bytes(j, rowBytes int) (n int64) {
	lo, hi := int64(w.pages[j])*binio.Page, (int64(w.pages[j])+1)*binio.Page
	for _, r := range w.rows[w.from[j]:] {
		begin := int64(r>>32) * int64(rowBytes)
		if begin >= hi {
			break
		}
		n += min(begin+int64(rowBytes), hi) - max(begin, lo)
	}
	return n
}

// copy copies the parts of rows on page j, from its content to their places in rows. Different pages have
// different bytes of a row, so calls for them may be concurrent.
func (w *wanted) copy(j int, content, rows []byte, rowBytes int) {
	size := int64(rowBytes)
	lo, hi := int64(w.pages[j])*binio.Page, (int64(w.pages[j])+1)*binio.Page
	for _, r := range w.rows[w.from[j]:] {
		begin := int64(r>>32) * size
		if begin >= hi {
			break
		}
		from, to := max(begin, lo), min(begin+size, hi)
		place := int64(uint32(r)) * size
		copy(rows[place+from-begin:place+to-begin], content[from-lo:to-lo])
	}
}
