package packed_test

import (
	"errors"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/featurestore/packed"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
)

// What a plan takes of the GPU's memory is all that the store and its slots take, however
// little there is.
func TestPlanKeepsToGPUMemory(t *testing.T) {
	for _, w := range []*world{small(t, "same"), small(t, "int8"), sharing(t), buildMin(t, "same", "none"), buildMin(t, "int8", "s2")} {
		for _, direct := range []bool{false, true} {
			const slots = 2
			plan := func(d *cuda.Device, bytes int64) (packed.Layout, error) {
				return packed.Plan(w.reader, packed.PlanOptions{Memory: 1 << 30, Slots: slots, GPU: d, GPUMemory: bytes, Direct: direct, MostSlots: slots})
			}
			of := func(l *packed.Layout) int64 { return l.GPUBytes + slots*l.GPUSlotBytes }
			whole, err := plan(cudatest.Open(t), 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			for bytes, opened := of(&whole)/4, 0; opened < 30; bytes += 1 + of(&whole)/101 {
				d := cudatest.OpenFaulty(t, cuda.Options{DeviceBytes: bytes}, func(string) *cuda.Fault { return nil })
				l, err := plan(d, bytes)
				if errors.Is(err, fault.ErrBudget) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if of(&l) > bytes {
					t.Fatalf("%d bytes of GPU memory: %d are planned", bytes, of(&l))
				}
				opened++
				openAll(t, w, d, &l, slots)
			}
		}
	}
}

// openAll takes what a layout is for, and gives it back.
func openAll(t *testing.T, w *world, d *cuda.Device, l *packed.Layout, slots int) {
	t.Helper()
	stack := &toDevice{Stack: newStack(t), gpu: d, landed: make(map[*iostack.Group][]landing)}
	s := w.open(t, stack, *l)
	defer s.Close()
	for range slots {
		sl := newSlot(t, s)
		defer sl.Free()
	}
	if held, _ := d.Held(); held != l.GPUBytes+int64(slots)*l.GPUSlotBytes {
		t.Errorf("%d bytes are held, %d and %d times %d planned", held, l.GPUBytes, slots, l.GPUSlotBytes)
	}
}
