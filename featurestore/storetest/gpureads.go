package storetest

import (
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/iostack/nvme/gpuread/gpureadtest"
)

// rowsDir is the directory that a store reads rows from.
func (s *suite) rowsDir() string {
	if s.c.Lineage().Store != "" {
		return s.c.Dir()
	}
	return s.w.Dataset
}

// readByGPU: batches that a GPU reads from drives by itself are the same, in whatever order
// its streams work.
func (s *suite) readByGPU(t *testing.T) {
	if !s.has(GPUReads) {
		t.Skip("the host reads")
	}
	kind := gpureadtest.Load(t, s.rowsDir(), 2)
	run := func(t *testing.T, d *cuda.Device) {
		in := gpureadtest.Stack(t, kind, d)
		defer in.Close()
		o := s.gpuShare(t, d, 10)
		o.Reads = in
		l, err := s.c.Plan(many(o))
		must(t)(err)
		if l.QueueBytes == 0 {
			t.Fatalf("the host reads: %s", l.Note)
		}
		s.trained(t, d, in, o)
	}
	t.Run("emulated", func(t *testing.T) { run(t, gpureadtest.Open(t)) })
	for seed := range uint64(8) {
		t.Run("late", func(t *testing.T) { run(t, gpureadtest.OpenLate(t, seed)) })
	}
}

// many are options with memory for whatever a store may take.
func many(o featurestore.PlanOptions) featurestore.PlanOptions {
	o.Memory, o.Slots, o.EvalSlots, o.MostSlots = 1<<40, 1, 1, 1
	return o
}
