package uring

import (
	"math/bits"
	"sync"
	"unsafe"
)

// fileSlots is the size of each ring's table of registered files. Further files are read by their
// descriptors.
const fileSlots = 256

// noSlot is the Slot of a file that is not registered.
const noSlot = -1

// slots numbers files. The zero value has all slots free.
type slots struct {
	mu   sync.Mutex
	used [fileSlots / 64]uint64
}

// take returns a free slot, or noSlot.
func (s *slots) take() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, word := range s.used {
		if free := bits.TrailingZeros64(^word); free < 64 {
			s.used[i] |= 1 << free
			return 64*i + free
		}
	}
	return noSlot
}

func (s *slots) give(slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used[slot/64] &^= 1 << (slot % 64)
}

// registerFiles makes an empty table of files.
func (q *queues) registerFiles() error {
	none := make([]int32, fileSlots)
	for i := range none {
		none[i] = -1
	}
	return q.register(registerFiles, unsafe.Pointer(unsafe.SliceData(none)), fileSlots)
}

// setFile puts a descriptor into a slot; -1 empties the slot. The kernel keeps a file in a slot open.
func (q *queues) setFile(slot, fd int) error {
	q.fdArg = int32(fd)
	u := filesUpdate{offset: uint32(slot), fds: uint64(uintptr(unsafe.Pointer(&q.fdArg)))}
	return q.register(registerFilesUpdate, unsafe.Pointer(&u), 1)
}
