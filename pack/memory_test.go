package pack

import (
	"errors"
	"strings"
	"testing"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/pack/packfile"
	"diskgnn/presample/mbfile"
)

// TestLeastMemory refuses every budget below the one it names, and takes that.
func TestLeastMemory(t *testing.T) {
	for _, c := range []struct {
		nodes, hot int64
		row        int
		workers    int
		lane       int64
	}{
		{40, 0, 36, 1, 0},
		{40, 40, 36, 200, 0},
		{1_000_000, 0, 256, 200, 0},
		{1_000_000, 50_000, 256, 2, 0},
		{1_000_000, 1_000_000, 256, 2, 0},
		{100_000_000, 20_000_000, 512, 64, 0},
		{5, 1, 8 << 20, 3, 0},
		{40, 0, 36, 1, 500 << 20},
		{100_000_000, 20_000_000, 512, 64, 1 << 30},
	} {
		o := Options{Workers: c.workers}
		f := packfile.Facts{Nodes: c.nodes, HotRows: c.hot, RowBytes: c.row, Segment: 2}
		least := leastMemory(&o, &f, mbfile.Facts{}, c.lane)
		o.Memory = least
		p, err := planMemory(&o, &f, mbfile.Facts{}, c.lane)
		if err != nil || p.rangeRows < 1 || p.slots < 1 || p.hotWindow < 0 {
			t.Errorf("%+v: %s does not suffice: %+v, %v", c, budget.FormatBytes(least), p, err)
		}
		says := ""
		for o.Memory = 1 << 20; o.Memory < least; o.Memory += max(least/37&^(1<<20-1), 1<<20) {
			_, err := planMemory(&o, &f, mbfile.Facts{}, c.lane)
			if !errors.Is(err, fault.ErrBudget) {
				t.Errorf("%+v: %s suffices, less than %s: %v", c, budget.FormatBytes(o.Memory), budget.FormatBytes(least), err)
				continue
			}
			says = err.Error()
		}
		if !strings.HasSuffix(says, "at least "+budget.FormatBytes(least)) {
			t.Errorf("%+v: %s; want %s", c, says, budget.FormatBytes(least))
		}
	}
}
