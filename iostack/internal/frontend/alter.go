package frontend

import (
	"sync/atomic"

	"diskgnn/device"
)

// Alter changes the result of a device read: p are the bytes that were read, from an offset of a file on. It
// may change them, and returns the number of them that the backend sees, from 1 to len(p), or the read's
// error. It is called concurrently.
type Alter func(file string, offset int64, p []byte) (n int, err error)

// alter is applied to the device reads into host memory of all stacks; nil: none is.
var alter atomic.Pointer[Alter]

// AlterReads passes the results of all device reads into host memory through a, until restore is called: see
// faultio.Below. No two may be in force at once.
func AlterReads(a Alter) (restore func()) {
	alter.Store(&a)
	return func() { alter.Store(nil) }
}

// altered returns the result of a device read of n bytes as AlterReads changes it.
func (r *Read) altered(n int) (int, error) {
	a := alter.Load()
	if a == nil || n == 0 || r.device != (device.Buffer{}) {
		return n, nil
	}
	return (*a)(r.file.path, r.from+int64(r.got), r.buf[r.got:][:n])
}
