package soft

import (
	"sync"

	"diskgnn/iostack/nvme"
)

// bus gives memory addresses that a controller uses.
type bus struct {
	mu    sync.RWMutex
	next  uint64
	pages map[uint64][]byte // by page number
}

func newBus() *bus { return &bus{next: 1 << 20, pages: map[uint64][]byte{}} }

// add makes host memory visible. Runs of pages up to nvme.Contiguous bytes are contiguous;
// between runs there is a gap.
func (b *bus) add(m []byte) *nvme.Memory {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := &nvme.Memory{Bytes: m}
	for at := 0; at < len(m); at += nvme.Page {
		if at%nvme.Contiguous == 0 {
			b.next += 7 // a gap, which is no multiple of anything
		}
		b.pages[b.next] = m[at : at+nvme.Page]
		out.Pages = append(out.Pages, b.next*nvme.Page)
		b.next++
	}
	return out
}

func (b *bus) remove(m *nvme.Memory) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, page := range m.Pages {
		delete(b.pages, page/nvme.Page)
	}
}

// at returns the bytes from an address to the end of its page; nil where there is none.
func (b *bus) at(address uint64) []byte {
	b.mu.RLock()
	defer b.mu.RUnlock()
	page := b.pages[address/nvme.Page]
	if page == nil {
		return nil
	}
	return page[address%nvme.Page:]
}

// span returns n contiguous bytes from an address on, which begin a page; nil where they are
// not.
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
