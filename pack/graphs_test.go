package pack

import (
	"errors"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/pack/packfile"
	"diskgnn/presample/mbfile"
)

// TestTooLargeBatches refuses samples with a batch that the index of a pack cannot hold,
// before anything is packed.
func TestTooLargeBatches(t *testing.T) {
	for _, c := range []struct {
		b    mbfile.BatchInfo
		says string
	}{
		{mbfile.BatchInfo{Edges: []uint32{1 << 31, 1<<31 - 1}, Size: 1<<32 - 1}, ""},
		{mbfile.BatchInfo{Edges: []uint32{1 << 31, 1 << 31}, Size: 9}, "S: edges of batch 2: 4294967296 is above"},
		{mbfile.BatchInfo{Edges: []uint32{3}, Size: 1 << 32}, "S: bytes of the graph of batch 2: 4294967296 is above"},
	} {
		err := checkBatches("S", 4, func(i int) mbfile.BatchInfo {
			if i == 2 {
				return c.b
			}
			return mbfile.BatchInfo{Edges: []uint32{1}, Size: 1}
		})
		if (c.says == "") != (err == nil) || err != nil && (!errors.Is(err, fault.ErrInput) || !strings.HasPrefix(err.Error(), c.says) || !strings.Contains(err.Error(), "--fanout")) {
			t.Errorf("%+v: %v", c.b, err)
		}
	}
	if err := checkBatches("S", packfile.MaxBatches+1, nil); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "fewer epochs") {
		t.Errorf("too many batches: %v", err)
	}
}
