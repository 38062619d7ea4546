package iostack

import "diskgnn/device/cuda"

// deviceRegistrar is what a stack implements that pins device memory.
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
