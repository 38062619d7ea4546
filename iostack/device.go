package iostack

import (
	"fmt"

	"diskgnn/device"
)

// deviceRegistrar is implemented by stacks that pin device memory.
type deviceRegistrar interface {
	RegisterDevice(bufs ...device.Buffer) error
	UnregisterDevice(bufs ...device.Buffer) error
}

// RegisterDevice registers device memory as a destination of reads, as Stack.Register does with host
// memory. It is a hint, which some stacks ignore. UnregisterDevice must follow before the memory is freed
// or the stack closed.
func RegisterDevice(s Stack, bufs ...device.Buffer) error {
	if d, ok := s.(deviceRegistrar); ok {
		return d.RegisterDevice(bufs...)
	}
	return nil
}

// UnregisterDevice ends RegisterDevice for the same buffers. No read into them may be in flight.
func UnregisterDevice(s Stack, bufs ...device.Buffer) error {
	if d, ok := s.(deviceRegistrar); ok {
		return d.UnregisterDevice(bufs...)
	}
	return nil
}

// DeviceNeed describes the reads for which a DeviceReader is made.
type DeviceNeed struct {
	Request int   // limit of the bytes of one read: whole pages of iostack.Align
	Bytes   int64 // limit of the bytes of a batch
	Batches int   // limit of the batches that have not ended

	// Path is one of the files to read, to check that the files are on the drives; "": no check.
	Path string
}

// DeviceTerms is the memory that a DeviceReader needs, in bytes: of the host and of the device, and of both
// for each batch beside its destination.
type DeviceTerms struct {
	Host, Device           int64
	BatchHost, BatchDevice int64
}

// A DeviceStack is a storage stack with reads that a GPU submits and completes: kernels submit the reads of
// a batch on one stream and complete them later on another, and the host waits for neither. It is an
// optional interface of a Stack; package iostack/nvme/gpuread implements it.
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
// The bytes are not checked; see kernels.Checksum. The stack's Stats do not count these reads, since the
// host cannot measure their time.
type DeviceStack interface {
	Stack
	// DeviceTerms returns the memory that a reader needs. The error is the reason why no reader is
	// possible.
	DeviceTerms(n DeviceNeed) (DeviceTerms, error)
	// NewDeviceReader makes a reader. A stack has one reader in its life: a second one fails. The caller closes it before
	// the stack and the device.
	NewDeviceReader(d device.GPU, n DeviceNeed) (DeviceReader, error)
}

// DeviceStackOf returns s as a DeviceStack, or an error if it is none.
func DeviceStackOf(s Stack) (DeviceStack, error) {
	if d, ok := s.(DeviceStack); ok {
		return d, nil
	}
	return nil, fmt.Errorf("--io %s leaves no queue to a GPU", s.Name())
}

// DeviceReader reads from drives with queues that a GPU drives. Its methods may be called from any
// goroutine, except Close, which comes last.
type DeviceReader interface {
	// Check returns nil if the GPU can read f, a file of the stack, else the reason.
	Check(f File) error
	// NewBatch returns a batch of reads into the given device memory, which must outlive it. The caller
	// frees the batch.
	NewBatch(to device.Buffer) (DeviceBatch, error)
	// Abort ends all waits of kernels, now and later. The reader can then only be closed.
	Abort()
	// Close ends the reader. Its queues are not used again until the stack is closed. All batches must have
	// been freed.
	Close() error
}

// DeviceBatch is a set of reads that are completed together. It can be reused after End. Its methods are
// for one goroutine at a time, in the order of their declaration.
type DeviceBatch interface {
	// Add adds a read of n bytes of a file from off on, to the destination's byte at; off and at are
	// multiples of iostack.Align. Whole pages are read: the destination also gets the bytes after the end
	// of the file in its last page.
	Add(f File, off, n, at int64) error
	// Submit enqueues the reads on the reader's stream, and returns at once. End must follow an error.
	Submit() error
	// Complete enqueues the completion on a stream: later work on the stream finds the bytes. The calling
	// goroutine must be attached.
	Complete(s device.Stream) error
	// End waits on the host until no read of the batch is under way, with or without Complete, and returns
	// an *iostack.ReadError if a read failed. The batch is then empty and can be reused. For an empty batch
	// it does nothing.
	End() error
	// Free frees the batch's memory. It comes after End.
	Free()
}
