package cufile

import (
	"cmp"
	"slices"
	"sync"

	"diskgnn/device"
)

// pins are the ranges of device memory that the library has pinned, by address. They
// don't overlap.
type pins struct {
	mu     sync.RWMutex
	ranges []device.Buffer
}

// add pins a range with the given call, unless it lies in a pinned range.
func (p *pins) add(b device.Buffer, pin func(address uint64, bytes int64) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	i, found := p.find(b)
	if found || b.Bytes() == 0 {
		return nil
	}
	if err := pin(b.Address(), b.Bytes()); err != nil {
		return err
	}
	p.ranges = slices.Insert(p.ranges, i, b)
	return nil
}

// remove unpins a range of add with the given call. It ignores memory that was not pinned.
func (p *pins) remove(b device.Buffer, unpin func(address uint64) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.ranges, b)
	if i < 0 || b.Bytes() == 0 {
		return nil
	}
	p.ranges = slices.Delete(p.ranges, i, i+1)
	return unpin(b.Address())
}

func (p *pins) all() []device.Buffer {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return slices.Clone(p.ranges)
}

// base returns the base address of b for the library: the start of the pinned range that holds b, or of b
// itself if there is none.
func (p *pins) base(b device.Buffer) uint64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if i, found := p.find(b); found {
		return p.ranges[i-1].Address()
	}
	return b.Address()
}

// find returns the index after the last range that begins at or before b, and whether that range holds b.
func (p *pins) find(b device.Buffer) (i int, found bool) {
	i, _ = slices.BinarySearchFunc(p.ranges, b.Address()+1, func(r device.Buffer, address uint64) int { return cmp.Compare(r.Address(), address) })
	if i == 0 {
		return 0, false
	}
	before := p.ranges[i-1]
	return i, b.Address()-before.Address()+uint64(b.Bytes()) <= uint64(before.Bytes())
}
