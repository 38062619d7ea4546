package array

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"diskgnn/iostack/nvme"
)

// mappings has the host memory that is mapped for a drive. Workers read it without a lock.
type mappings struct {
	t    nvme.Transport
	mu   sync.Mutex                 // held to change it
	list atomic.Pointer[[]*mapping] // by address, without overlap
}

// mapping is a mapped range of whole pages. It is freed when it was removed and no command uses it.
type mapping struct {
	begin, end uintptr
	memory     *nvme.Memory
	uses       atomic.Int64 // commands, and removed once it is
}

const removed = math.MinInt64 / 2

// use keeps a mapping from being freed until unuse. It fails once the mapping was removed.
func (m *mapping) use() bool {
	for {
		n := m.uses.Load()
		if n < 0 {
			return false
		}
		if m.uses.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (m *mappings) unuse(u *mapping) {
	if u.uses.Add(-1) == removed {
		m.mu.Lock()
		defer m.mu.Unlock()
		_ = m.t.Free(u.memory)
	}
}

// add maps the whole pages of a range of memory, as far as the transport can. Older mappings that overlap
// are removed: their memory must have been freed.
func (m *mappings) add(b []byte) error {
	m.remove(b)
	begin := (address(b) + nvme.Page - 1) &^ (nvme.Page - 1)
	end := (address(b) + uintptr(len(b))) &^ (nvme.Page - 1)
	if begin >= end {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	skip := int(begin - address(b))
	memory, err := m.t.Map(b[skip : skip+int(end-begin)])
	if err != nil {
		return err
	}
	list := append(slices.Clone(m.all()), &mapping{begin: begin, end: end, memory: memory})
	slices.SortFunc(list, func(a, b *mapping) int {
		if a.begin < b.begin {
			return -1
		}
		return 1
	})
	m.list.Store(&list)
	return nil
}

// remove removes every mapping that shares a byte with b.
func (m *mappings) remove(b []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	begin, end := address(b), address(b)+uintptr(len(b))
	var kept []*mapping
	for _, x := range m.all() {
		switch {
		case x.end <= begin || end <= x.begin:
			kept = append(kept, x)
		case x.uses.Add(removed) == removed:
			_ = m.t.Free(x.memory)
		}
	}
	m.list.Store(&kept)
}

func (m *mappings) all() []*mapping {
	if l := m.list.Load(); l != nil {
		return *l
	}
	return nil
}

// find returns the mapping that contains all of b, and the offset of b in it; nil if there is none. The
// mapping is in use until unuse.
func (m *mappings) find(b []byte) (x *mapping, at int) {
	list := m.all()
	lo, hi := 0, len(list)
	for begin := address(b); lo < hi; {
		if mid := (lo + hi) / 2; list[mid].begin <= begin {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return nil, 0
	}
	x = list[lo-1]
	if address(b)+uintptr(len(b)) > x.end || !x.use() {
		return nil, 0
	}
	return x, int(address(b) - x.begin)
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
