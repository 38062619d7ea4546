package gpurows

import "testing"

// Entries below Near are in the device's memory.
func TestNearOf(t *testing.T) {
	entries := []uint32{4, 0, 7, 3, 9}
	for near, want := range map[int64]int{0: 0, 1: 1, 4: 2, 5: 3, 10: 5} {
		if n := (&Table{Near: near}).NearOf(entries); n != want {
			t.Errorf("of %d rows: %d, want %d", near, n, want)
		}
	}
}
