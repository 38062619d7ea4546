package pack

import (
	"testing"

	"diskgnn/internal/driverate"
)

// TestPlanEffort: a drive is loaded before it is measured, unless the table is small.
func TestPlanEffort(t *testing.T) {
	if e := planEffort(256<<20 - 1); !e.Once() {
		t.Errorf("a small table: %+v", e)
	}
	if e := planEffort(256 << 20); e != driverate.Limited || e.Drain <= 0 {
		t.Errorf("a large table: %+v", e)
	}
}
