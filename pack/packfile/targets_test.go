package packfile

import (
	"errors"
	"testing"

	"diskgnn/graph"
	"diskgnn/internal/fault"
)

// A batch has as many bytes of classes as the facts say.
func TestTargetsAgreeWithTheFacts(t *testing.T) {
	for _, c := range []struct {
		row, bytes int
		ok         bool
	}{{0, 0, true}, {0, 3, false}, {2, 6, true}, {2, 3, false}, {2, 0, false}} {
		r := &Reader{facts: Facts{TargetBytes: c.row}}
		err := r.checkTargets("graph", &graph.Batch{Labels: make([]int32, 3), Targets: make([]byte, c.bytes)})
		if c.ok != (err == nil) || err != nil && !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
