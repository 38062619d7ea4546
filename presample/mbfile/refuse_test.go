package mbfile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"diskgnn/internal/fault"
)

// TestIndexRefusals gives an index one fault at a time, under a right checksum.
func TestIndexRefusals(t *testing.T) {
	type record struct {
		offset, size int64
		nodes        []uint32
	}
	right := []uint32{9, 2}
	for _, c := range []struct {
		name    string
		records []record
		ok      bool
	}{
		{"two batches, one after the other", []record{{0, 300, right}, {300, 1, right}}, true},
		{"the largest that is believed", []record{{0, 1 << 62, right}}, true},
		{"a gap before the first", []record{{1, 300, right}}, false},
		{"a gap between", []record{{0, 300, right}, {301, 1, right}}, false},
		{"an overlap", []record{{0, 300, right}, {299, 1, right}}, false},
		{"no bytes", []record{{0, 0, right}}, false},
		{"fewer than none", []record{{0, -1, right}}, false},
		{"more than are believed", []record{{0, 1<<62 + 1, right}}, false},
		{"more than are believed, together", []record{{0, 1 << 62, right}, {1 << 62, 1, right}}, false},
		{"more destinations than sources", []record{{0, 300, []uint32{2, 9}}}, false},
	} {
		ix := &index{layers: 1, perFile: 256}
		for _, r := range c.records {
			ix.add(r.offset, r.size, 0, r.nodes, []uint32{8}, nil)
		}
		got, err := decodeIndex(ix.encode())
		if c.ok && (err != nil || got.batches() != len(c.records)) || !c.ok && !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	ix := &index{layers: 1, perFile: 256}
	ix.add(0, 300, 0, right, []uint32{8}, nil)
	b := ix.encode()
	b[len(b)-1] ^= 1
	if _, err := decodeIndex(b); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("bytes 0 to %d do not match", len(b))) {
		t.Errorf("a wrong checksum: %v", err)
	}
}

// TestJoinCounts gives the shards of one directory counts that each would pass by itself.
func TestJoinCounts(t *testing.T) {
	for _, c := range []struct {
		name                    string
		train, epochs, perEpoch int
		ok                      bool
	}{
		{"two epochs of two", 4, 2, 2, true},
		{"as many as can be listed", MaxBatches, 1, MaxBatches, true},
		{"one more", MaxBatches + 1, 1, MaxBatches + 1, false},
		{"an epoch and a part", 5, 2, 2, false},
		{"another number in each", 4, 2, 1, false},
	} {
		r := &Reader{dir: "S", index: &index{layers: 1, perFile: 1 << 30}, facts: Facts{
			Nodes: 6, Layers: 1, TrainBatches: c.train, Epochs: c.epochs, BatchesPerEpoch: c.perEpoch,
		}}
		l, _, err := join([]*Reader{r})
		if c.ok && (err != nil || l.Train != c.train) || !c.ok && !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
