package device

// GPU is an open GPU. Its methods may be called from any goroutine.
type GPU interface {
	// Attached calls do with the calling goroutine attached to the GPU, and returns do's error.
	Attached(do func() error) error
	// Held returns the bytes that this process now holds in the GPU's memory and in pinned host memory.
	Held() (device, pinned int64)
}

// Memory hands out memory of a GPU. If it only counts, its buffers are zero.
type Memory interface {
	// Take returns a buffer of the given size in bytes. If too little is left, the error is of kind
	// fault.ErrBudget.
	Take(bytes int64) (Buffer, error)
}

// Stream is a queue of work on a GPU, which is done in order. It is for one goroutine at a time, attached to the
// GPU.
type Stream interface {
	// CopyIn enqueues a copy of from to the beginning of to. Pinned memory must not change until the copy is
	// done. Other memory may be changed as soon as CopyIn returns. A to that is too small is an error.
	CopyIn(to Buffer, from []byte) error
	// CopyOut enqueues a copy of len(to) bytes from the beginning of from. The bytes in to are valid once the
	// host has waited for the stream. A copy to memory that is not pinned may block.
	CopyOut(to []byte, from Buffer) error
	// Copy enqueues a copy of all bytes of from to the beginning of to.
	Copy(to, from Buffer) error
	// Synchronize waits until all enqueued work is done. It returns the error of the work, if any.
	Synchronize() error
}

// Span is some work of a stream, with its time.
type Span interface {
	// Synchronize waits until the work is done. It returns the error of the work, if any.
	Synchronize() error
}

// Buffer is a range of a GPU's memory, or of pinned host memory as the GPU sees it. It does not own the memory. The
// zero value is no memory: as an optional argument of a kernel it is the null pointer.
type Buffer struct {
	address uint64
	bytes   int64
}

// NewBuffer returns the buffer of the given size in bytes at an address of the GPU.
func NewBuffer(address uint64, bytes int64) Buffer { return Buffer{address, bytes} }

// Bytes returns the buffer's size in bytes.
func (b Buffer) Bytes() int64 { return b.bytes }

// Address returns the address of the buffer on the GPU, for libraries that work on its memory.
func (b Buffer) Address() uint64 { return b.address }

// Slice returns the given number of bytes of the buffer, from an offset on. It panics if the range is not
// in the buffer.
func (b Buffer) Slice(from, bytes int64) Buffer {
	if from < 0 || bytes < 0 || from > b.bytes-bytes {
		panic("device: slice out of a buffer's range")
	}
	return Buffer{b.address + uint64(from), bytes}
}
