package uring

import (
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	bufferSlots = 1024    // of each ring's table of registered memory
	mostPinned  = 1 << 30 // bytes that the kernel takes in one slot
)

// buffers is the memory registered with one ring. It belongs to the ring's
// thread.
type buffers struct {
	queues *queues
	ready  bool     // the kernel has a table
	pieces []pinned // by address, without overlap
	used   [bufferSlots]bool
}

// pinned is a piece of registered memory.
type pinned struct {
	begin, end uintptr
	slot       int
	mem        []byte // keeps memory of Go's heap from another use
}

// init makes an empty table, if the kernel supports it.
func (b *buffers) init(q *queues) {
	b.queues = q
	r := rsrcRegister{nr: bufferSlots, flags: registerSparse}
	b.ready = q.register(registerBuffers2, unsafe.Pointer(&r), unsafe.Sizeof(r)) == nil
}

// add pins memory, as far as the kernel permits, in pieces of the size that it accepts. Older pins that
// overlap are removed: their memory must have been freed.
func (b *buffers) add(mem []byte) {
	b.remove(mem)
	for len(mem) > 0 && b.ready {
		n := min(len(mem), mostPinned)
		slot := slices.Index(b.used[:], false)
		if slot < 0 || b.set(slot, mem[:n]) != nil {
			return
		}
		b.used[slot] = true
		begin := address(mem)
		p := pinned{begin: begin, end: begin + uintptr(n), slot: slot, mem: mem[:n:n]}
		b.pieces = slices.Insert(b.pieces, b.after(begin), p)
		mem = mem[n:]
	}
}

// remove unpins every piece that shares a byte with mem.
func (b *buffers) remove(mem []byte) {
	begin, end := address(mem), address(mem)+uintptr(len(mem))
	b.pieces = slices.DeleteFunc(b.pieces, func(p pinned) bool {
		if p.end <= begin || end <= p.begin {
			return false
		}
		// A slot that cannot be emptied stays occupied, and no read uses it.
		b.used[p.slot] = b.set(p.slot, nil) != nil
		return true
	})
}

// find returns the slot of the piece that contains all of mem.
func (b *buffers) find(mem []byte) (slot int, ok bool) {
	begin := address(mem)
	i := b.after(begin) - 1
	if i < 0 || begin+uintptr(len(mem)) > b.pieces[i].end {
		return 0, false
	}
	return b.pieces[i].slot, true
}

// after returns the number of pieces that begin at or before the address.
func (b *buffers) after(address uintptr) int {
	lo, hi := 0, len(b.pieces)
	for lo < hi {
		if mid := (lo + hi) / 2; b.pieces[mid].begin <= address {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// set puts memory into a slot; nil empties it.
func (b *buffers) set(slot int, mem []byte) error {
	q := b.queues
	q.iovecArg = unix.Iovec{}
	if len(mem) > 0 {
		q.iovecArg.Base = unsafe.SliceData(mem)
		q.iovecArg.SetLen(len(mem))
	}
	u := rsrcUpdate{offset: uint32(slot), data: uint64(uintptr(unsafe.Pointer(&q.iovecArg))), nr: 1}
	return q.register(registerBuffersUpdate, unsafe.Pointer(&u), unsafe.Sizeof(u))
}

func address(mem []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(mem))) }
