package device

import "testing"

// TestArena: what only counts counts what the other hands out.
func TestArena(t *testing.T) {
	take := func(a *Arena) (floats []float32, words []uint64) {
		floats, words = Take[float32](a, 3), Take[uint64](a, 5)
		Take[struct{}](a, 7)
		return floats, words
	}
	var counts Arena
	if f, w := take(&counts); f != nil || w != nil {
		t.Error("an Arena without memory gave some")
	}
	a := NewArena()
	if f, w := take(a); len(f) != 3 || len(w) != 5 || a.Used() != 3*4+5*8 || counts.Used() != a.Used() {
		t.Errorf("%d and %d elements; %d bytes, %d counted", len(f), len(w), a.Used(), counts.Used())
	}
	for range 3 { // 2⁶² bytes each
		Take[float32](&counts, 1<<60)
	}
	if counts.Used() != 1<<60 {
		t.Errorf("%d bytes counted", counts.Used())
	}
}
