package soft

import (
	"cmp"
	"slices"
	"sync"

	"diskgnn/iostack/nvme"
)

// bus assigns bus addresses to host memory.
type bus struct {
	mu   sync.RWMutex
	next uint64 // page number
	runs []run  // ascending
}

// run is a range of memory that is contiguous for the controller.
type run struct {
	first uint64 // page number
	b     []byte
}

// add gives host memory bus addresses. Up to nvme.Contiguous bytes are contiguous; between such runs there
// is a gap.
func (b *bus) add(m []byte) *nvme.Memory {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := &nvme.Memory{Bytes: m, Pages: make([]uint64, 0, len(m)/nvme.Page)}
	for at := 0; at < len(m); at += nvme.Contiguous {
		b.next += 7 // a gap, which is no multiple of anything
		r := run{b.next, m[at:min(at+nvme.Contiguous, len(m))]}
		b.runs = append(b.runs, r)
		for range len(r.b) / nvme.Page {
			out.Pages = append(out.Pages, b.next*nvme.Page)
			b.next++
		}
	}
	return out
}

func (b *bus) remove(m *nvme.Memory) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := 0; i < len(m.Pages); i += nvme.Contiguous / nvme.Page {
		if at, known := b.find(m.Pages[i] / nvme.Page); known {
			b.runs = slices.Delete(b.runs, at, at+1)
		}
	}
}

// find returns the index of the run that contains a page. The lock is held.
func (b *bus) find(page uint64) (at int, known bool) {
	behind, begins := slices.BinarySearchFunc(b.runs, page, func(r run, page uint64) int { return cmp.Compare(r.first, page) })
	if begins {
		return behind, true
	}
	at = behind - 1
	return at, at >= 0 && page-b.runs[at].first < uint64(len(b.runs[at].b)/nvme.Page)
}

// at returns the bytes from an address to the end of its page; nil if no memory has the address.
func (b *bus) at(address uint64) []byte {
	b.mu.RLock()
	defer b.mu.RUnlock()
	i, known := b.find(address / nvme.Page)
	if !known {
		return nil
	}
	r := &b.runs[i]
	from := (address/nvme.Page - r.first) * nvme.Page
	return r.b[from : from+nvme.Page][address%nvme.Page:]
}

// span returns n contiguous bytes from an address on, page by page; nil if the address is not the start of
// a page, or they are not contiguous.
func (b *bus) span(address uint64, n int) (parts [][]byte) {
	for ; n > 0; n -= nvme.Page {
		page := b.at(address)
		if page == nil {
			return nil
		}
		parts = append(parts, page[:min(n, nvme.Page)])
		address += nvme.Page
	}
	return parts
}
