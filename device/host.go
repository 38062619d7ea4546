// Package device has the memory for I/O and devices, and the interface of a GPU.
//
// It allocates host memory: buffers outside Go's heap (Host), and arenas in it (Arena). A host buffer is
// page-aligned anonymous memory: direct reads need no bounce buffer, the garbage collector neither scans nor
// counts it, and Free returns it to the kernel at once.
//
// GPU, Memory, Stream, Span and Buffer are a GPU for packages without kernels, which hand it on or copy to it.
// Package cuda implements the interfaces, and returns its types behind them: see cuda.DeviceOf.
package device

import (
	"sync/atomic"
	"unsafe"

	"diskgnn/internal/fault"
)

// PageSize is the alignment of every host buffer, in bytes. It is at least the
// alignment that direct I/O needs on common drives, and a constant: layouts
// computed from it are the same on every machine.
const PageSize = 4096

// HugePage is the size of a huge page, in bytes: a smaller buffer has none.
const HugePage = 2 << 20

// leastHuge is the least size of a buffer for which NewHost requests huge pages: random accesses then have far
// fewer misses in the TLB, and the first fill takes a page fault for every 2 MiB instead of every 4 KiB.
const leastHuge = 32 << 20

// hostBytes is the memory held by live host buffers, whole pages.
var hostBytes atomic.Int64

// HostBytes returns the bytes held by all host buffers of this process that have not been freed, rounded up
// to whole pages each. Memory budgets count this number. It may be called from any goroutine.
func HostBytes() int64 { return hostBytes.Load() }

// Host is a page-aligned buffer of host memory. It has one owner, who must Free it. Its methods may be
// called from several goroutines, except Free, which must come after every use.
type Host struct {
	mem    []byte // the whole mapping; nil once freed, or when empty
	length int    // bytes requested
}

// NewHost returns a zeroed buffer of the given number of bytes, which may be 0.
// Memory that the machine refuses is an error of kind fault.ErrBudget.
func NewHost(bytes int) (*Host, error) {
	if bytes < 0 || bytes > maxInt-PageSize {
		return nil, fault.New(fault.ErrBudget, "host buffer of %d bytes: the size is negative or too large", bytes)
	}
	if bytes == 0 {
		return &Host{}, nil
	}
	mem, err := mapPages(wholePages(bytes))
	if err != nil {
		return nil, fault.New(fault.ErrBudget, "host buffer of %d bytes: %w", bytes, err)
	}
	hostBytes.Add(int64(len(mem)))
	return &Host{mem: mem, length: bytes}, nil
}

// Huge requests huge pages for a buffer of any size that is read and written at random, before its first use. NewHost
// requests them for large buffers alone. It is a hint.
func (h *Host) Huge() { wantHuge(h.mem, HugePage) }

// wholePages rounds bytes up to whole pages.
func wholePages(bytes int) int { return (bytes + PageSize - 1) &^ (PageSize - 1) }

const maxInt = int(^uint(0) >> 1)

// Len returns the buffer's size in bytes; 0 once freed.
func (h *Host) Len() int { return h.length }

// Bytes returns the buffer. The slice aliases the buffer, as the typed views do, and must not be used after
// Free: the address may be unmapped, or belong to other memory.
func (h *Host) Bytes() []byte { return h.mem[:h.length:h.length] }

// Float32s returns the buffer as float32 values in the machine's byte order;
// up to three bytes at the end that make no whole value are left out.
func (h *Host) Float32s() []float32 { return view[float32](h) }

// Uint32s returns the buffer as uint32 values in the machine's byte order; up
// to three bytes at the end that make no whole value are left out.
func (h *Host) Uint32s() []uint32 { return view[uint32](h) }

// view reinterprets h as values of T. Every bit pattern of T must be valid, and its alignment must
// divide PageSize.
func view[T float32 | uint32](h *Host) []T {
	var v T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(h.mem))), h.length/int(unsafe.Sizeof(v)))
}

// Free frees the memory. Freeing again does nothing; no other use is allowed after Free. No read into the
// buffer may be in flight.
func (h *Host) Free() {
	mem := h.mem
	h.mem, h.length = nil, 0
	if mem == nil {
		return
	}
	hostBytes.Add(-int64(len(mem)))
	if err := unmapPages(mem); err != nil {
		panic("device: unmap: " + err.Error()) // only a mapping that is not ours can fail
	}
}
