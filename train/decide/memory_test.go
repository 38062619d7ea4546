package decide

import (
	"testing"

	"diskgnn/featurestore"
)

// The plan is the sum of what a layout names, the window of coming batches included.
func TestPlanSumsTheLayout(t *testing.T) {
	p := Memory{Slots: 3, EvalSlots: 2, Fixed: 7,
		Layout: featurestore.Layout{TableBytes: 10, RAMBytes: 100, HeldBytes: 300_000_000_000, KeepBytes: 1000, WindowBytes: 10_000, DecodeBytes: 100_000, QueueBytes: 20_000_000_000, SlotBytes: 1_000_000, EvalSlotBytes: 10_000_000}}
	needs := Needs{Work: 100_000_000, EvalWork: 1_000_000_000, Stack: 5} // which fixed has
	if n, want := p.Sum(&needs), int64(322_323_111_117); n != want {
		t.Errorf("%d bytes, want %d", n, want)
	}
	if n, want := p.outside(&needs), int64(320_023_010_105); n != want {
		t.Errorf("%d bytes outside of the heap, want %d", n, want)
	}
	needs.Shared = true // works are mapped
	if n, want := p.outside(&needs), int64(322_323_010_105); n != want {
		t.Errorf("%d bytes outside of the heap with shared works, want %d", n, want)
	}
}

// A checkpoint has what the store holds, or what it held in an earlier process, and the
// memory for it is planned: beside the store's levels, if that takes it over.
func TestPlanOfAStoresState(t *testing.T) {
	layout := featurestore.Layout{TableBytes: 1, RAMBytes: 20, KeepBytes: 300, SlotBytes: 4000}
	needs := Needs{Resume: 50000}
	for _, c := range []struct{ state, was, checkpoint, sum int64 }{
		{0, 0, 50000, 50001},
		{0, 600000, 650000, 650001},
		{700, 0, 50700, 51021},
		{700, 800, 50800, 51121},
	} {
		layout.StateBytes, needs.State = c.state, c.was
		p := Memory{Layout: layout, Slots: 2}
		if got, sum := p.checkpoint(&needs), p.Sum(&needs); got != c.checkpoint || sum != c.sum {
			t.Errorf("%+v: a checkpoint of %d bytes, %d in all", c, got, sum)
		}
	}
}
