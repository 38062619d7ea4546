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
