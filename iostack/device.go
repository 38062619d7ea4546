package iostack

import (
	"fmt"

	"diskgnn/device/cuda"
)

// deviceRegistrar is implemented by stacks that pin device memory.
type deviceRegistrar interface {
	RegisterDevice(bufs ...cuda.Buffer) error
	UnregisterDevice(bufs ...cuda.Buffer) error
}

// RegisterDevice announces device memory that reads will land in, as
// Stack.Register does host memory: it is a hint, and must be taken back before the
// memory is freed or the stack closed. With a stack that has no use for it, it
// does nothing.
func RegisterDevice(s Stack, bufs ...cuda.Buffer) error {
	if d, ok := s.(deviceRegistrar); ok {
		return d.RegisterDevice(bufs...)
	}
	return nil
}

// UnregisterDevice takes RegisterDevice back for the same buffers. No read into
// them may be in flight.
func UnregisterDevice(s Stack, bufs ...cuda.Buffer) error {
	if d, ok := s.(deviceRegistrar); ok {
		return d.UnregisterDevice(bufs...)
	}
	return nil
}

// DeviceNeed describes the reads of a reader.
type DeviceNeed struct {
	Request int   // bytes that are read at once, at most: whole pages of iostack.Align
	Bytes   int64 // of a batch, at most
	Batches int   // that have not ended, at most

	// Path is one of the files that are read, by which it is seen whether the drives have
	// them; "" for none.
	Path string
}

// DeviceTerms are the memory needs of a reader, in bytes of the host and of the device, and those
// for each batch beside the destination.
type DeviceTerms struct {
	Host, Device           int64
	BatchHost, BatchDevice int64
}

// A DeviceStack is a storage stack that a GPU can read from by itself: kernels submit the reads of
// a batch on a stream and complete them on another, later, and the host waits for neither. It is an
// optional interface beside Stack, and knows no kernel: package iostack/nvme/gpuread implements it.
//
//	terms, err := stack.DeviceTerms(need)      err says why the host must read
//	r, err := stack.NewDeviceReader(device, need)
//	b, err := r.NewBatch(to)                   one for each batch under way
//
//	b.Add(file, off, n, at)                    of the next batch but one: on the host
//	b.Submit()                                 its reads are under way
//	b.Complete(stream)                         work after it on the stream finds the bytes
//	b.End()                                    on the host: the error of its reads
//
// A completion ends the reads of its own batch alone; other batches' reads stay under way. If the
// queues lack room for a Submit, the oldest reads under way are completed early: their bytes are
// then in their destinations, and Complete finds them there.
//
// Nothing checks the bytes on the way: see kernels.Checksum. The reads are not in the stack's
// Stats, as nobody on the host knows for how long they are under way.
type DeviceStack interface {
	Stack
	// DeviceTerms returns the memory that a reader needs. The error says why there is none.
	DeviceTerms(n DeviceNeed) (DeviceTerms, error)
	// NewDeviceReader makes a reader, of which a stack has one at a time. It is closed before
	// the stack and the device.
	NewDeviceReader(d *cuda.Device, n DeviceNeed) (DeviceReader, error)
}

// DeviceStackOf returns a stack as one that a GPU can read from, or why it is none.
func DeviceStackOf(s Stack) (DeviceStack, error) {
	if d, ok := s.(DeviceStack); ok {
		return d, nil
	}
	return nil, fmt.Errorf("--io %s leaves no queue to a GPU", s.Name())
}

// DeviceReader is a GPU's queues to drives. Its methods may be called from any goroutine, but for
// Close.
type DeviceReader interface {
	// Check returns why the bytes of a file of the stack's cannot be read.
	Check(f File) error
	// NewBatch returns a batch that reads into the given memory of the device, which must outlive
	// it.
	NewBatch(to cuda.Buffer) (DeviceBatch, error)
	// Abort ends all waiting of kernels, now and later: for a reader that is given up.
	Abort()
	// Close gives the queues back. All batches were freed.
	Close() error
}

// DeviceBatch is reads that are completed together, again and again. Its methods are for one
// goroutine at a time, in the order of their declaration.
type DeviceBatch interface {
	// Add adds a read of n bytes of a file from off on, to the destination's byte at; off and at are
	// multiples of iostack.Align. The destination gets the whole last page of the file, also the
	// bytes behind the file's end.
	Add(f File, off, n, at int64) error
	// Submit gives the reader's stream the reads. It returns at once. After an error End
	// must follow.
	Submit() error
	// Complete gives a stream the completion. The calling goroutine is attached.
	Complete(s *cuda.Stream) error
	// End waits on the host until nothing of the batch is under way any more, also of one
	// that was not completed, and returns an *iostack.ReadError if a read failed. The batch is
	// empty then, as a new one. Of an empty batch it does nothing.
	End() error
	// Free gives the batch's memory back, after End.
	Free()
}
