package gpurows

import (
	"fmt"

	"diskgnn/device"
)

// Frames are a table with its turns, and RAM of its own for the rows that are not on the device.
type Frames struct {
	Table
	Turns Turns
	RAM   *device.Host
}

// OpenFrames takes ram bytes of RAM, and the device's memory: an arena of the given bytes, out of which lay
// takes the memory of batches. Call CloseFrames also after an error.
func (f *Frames) OpenFrames(ram, bytes int64, lay func(device.Memory) error) (err error) {
	if f.RAM, err = device.NewHost(int(ram)); err != nil {
		return fmt.Errorf("rows in RAM: %w", err)
	}
	return f.Turns.Open(&f.Table, bytes, lay, func(a device.Memory) error { return f.Table.Open(a, f.RAM, 0) })
}

// CloseFrames waits for submitted work, and releases the memory.
func (f *Frames) CloseFrames() {
	_ = f.Turns.Close(&f.Table) // fails only after a fault, which was reported
	if f.RAM != nil {
		f.RAM.Free()
	}
}

// Matrix is the part of a slot's matrix on a GPU that is the same for all stores.
type Matrix struct{ Turn func() *Turn }

// NewMatrix returns a matrix that takes turns for training batches, or if eval is set, for evaluation batches.
func (t *Turns) NewMatrix(eval bool) Matrix {
	if eval {
		return Matrix{t.Evaluation}
	}
	return Matrix{t.Training}
}

// Memory returns nil: the matrix is on the device.
func (Matrix) Memory() []byte { return nil }

// X returns nil.
func (Matrix) X(int) []float32 { return nil }
