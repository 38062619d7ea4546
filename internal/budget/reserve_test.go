package budget

import (
	"runtime/debug"
	"testing"
)

// The collector has what buffers leave of the budget, but for the half of the reserve that
// it does not count; the other half it has in any case.
func TestLimitHeap(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct{ memory, outside, want int64 }{
		{1000 * mib, 100 * mib, 884 * mib},
		{1000 * mib, 0, 984 * mib},
		{132 * mib, 100 * mib, 16 * mib},
		{100 * mib, 100 * mib, 16 * mib},
		{1 * mib, 100 * mib, 16 * mib},
	} {
		before := debug.SetMemoryLimit(-1)
		undo := LimitHeap(c.memory, c.outside)
		got := debug.SetMemoryLimit(-1)
		undo()
		if after := debug.SetMemoryLimit(-1); got != c.want || after != before {
			t.Errorf("%d MiB of which buffers take %d: the heap has %d, want %d; %d before and %d after", c.memory/mib, c.outside/mib, got, c.want, before, after)
		}
	}
}

// Garbage is limited to a share of the memory in use, unless less is allowed already.
func TestLimitGarbage(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	get := func() int {
		n := debug.SetGCPercent(100)
		debug.SetGCPercent(n)
		return n
	}
	for _, c := range []struct{ before, want int }{{100, 20}, {400, 20}, {10, 10}, {-1, 20}} {
		debug.SetGCPercent(c.before)
		undo := LimitGarbage(20)
		got := get()
		undo()
		if after := get(); got != c.want || after != c.before {
			t.Errorf("%d: %d meanwhile, want %d, and %d after", c.before, got, c.want, after)
		}
	}
}
