package presample

import (
	"sync/atomic"

	"diskgnn/device"
	"diskgnn/internal/budget"
)

// garbagePercent is the garbage that may gather on the heap, as a share of the memory in use. A run allocates while its
// buffers grow to the size of its batches, and nothing afterwards: so it is cheap to collect often, and without it
// that garbage takes as much memory as the buffers.
const garbagePercent = 20

// limitHeap limits Go's heap by the memory budget, and its garbage, until undo.
func (s *sampling) limitHeap() (undo func()) {
	limit, garbage := budget.LimitHeap(s.o.Memory, device.HostBytes()), budget.LimitGarbage(garbagePercent)
	return func() {
		garbage()
		limit()
	}
}

// heapLimit is the limit of Go's heap. It follows the memory of host buffers: tables, which grow to the batches.
type heapLimit struct{ outside atomic.Int64 }

// follow sets the limit anew if the memory outside the heap has changed. It is safe for concurrent use.
func (h *heapLimit) follow(memory int64) {
	if now := device.HostBytes(); h.outside.Swap(now) != now {
		budget.LimitHeap(memory, now)
	}
}
