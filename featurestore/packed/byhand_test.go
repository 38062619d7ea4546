package packed

import (
	"slices"
	"testing"

	"diskgnn/featurestore"
	"diskgnn/iostack"
)

// By hand: the memory of a GPU's reads, for all slots and for each; where all rows are in memory, slots need none.
func TestLateCounts(t *testing.T) {
	l := &queuedReads{terms: iostack.DeviceTerms{Host: 1, Device: 2, BatchHost: 4, BatchDevice: 8}}
	for chunk, want := range map[int64][4]int64{5: {1, 20 + 2, 300 + 4, 4000 + 8}, 0: {1, 20 + 2, 300, 4000}} {
		to := featurestore.Layout{GPUBytes: 20, SlotBytes: 300, GPUSlotBytes: 4000}
		l.count(&to, chunk)
		if got := [4]int64{to.QueueBytes, to.GPUBytes, to.SlotBytes, to.GPUSlotBytes}; got != want {
			t.Errorf("chunks of %d bytes: %v, want %v", chunk, got, want)
		}
	}
	var none *queuedReads
	to := featurestore.Layout{GPUBytes: 20, SlotBytes: 300, GPUSlotBytes: 4000}
	none.count(&to, 5)
	if to.QueueBytes != 0 || to.GPUBytes != 20 || to.SlotBytes != 300 || to.GPUSlotBytes != 4000 || none.deviceBytes() != 0 || l.deviceBytes() != 2 {
		t.Errorf("without reads: %+v", to)
	}
}

// By hand: rows that arrive are read batch after batch, and by ascending row within one.
func TestReadingOrder(t *testing.T) {
	list := []arrival{{2, 1, 0}, {0, 9, 1}, {1, 5, 2}, {1, 3, 3}, {0, 7, 4}}
	slices.SortFunc(list, inReadingOrder)
	if want := []arrival{{0, 7, 4}, {0, 9, 1}, {1, 3, 3}, {1, 5, 2}, {2, 1, 0}}; !slices.Equal(list, want) {
		t.Errorf("%v, want %v", list, want)
	}
	for _, c := range [][2]arrival{{{0, 9, 0}, {1, 2, 0}}, {{1, 2, 0}, {1, 3, 0}}} {
		if inReadingOrder(c[0], c[1]) >= 0 || inReadingOrder(c[1], c[0]) <= 0 || inReadingOrder(c[0], c[0]) != 0 {
			t.Errorf("%v", c)
		}
	}
}
