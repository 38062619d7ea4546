package device

import "testing"

// TestBuffer: a part of a buffer lies in it.
func TestBuffer(t *testing.T) {
	b := NewBuffer(4096, 100)
	if p := b.Slice(60, 40); p.Address() != 4156 || p.Bytes() != 40 || b.Slice(100, 0).Bytes() != 0 || p != NewBuffer(4156, 40) {
		t.Errorf("%+v", p)
	}
	for _, c := range [][2]int64{{-1, 1}, {0, -1}, {61, 40}, {101, 0}, {1, 1<<63 - 1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d bytes from %d on", c[1], c[0])
				}
			}()
			b.Slice(c[0], c[1])
		}()
	}
}
