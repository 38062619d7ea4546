package gpurows

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/dtype"
)

// TestStripeByHand: rows of two bytes, of two devices. Bytes 3 to 8 are the end of row 1, rows 2
// and 3, and the beginning of row 4.
func TestStripeByHand(t *testing.T) {
	b := []byte{3, 4, 5, 6, 7, 8}
	for part, want := range []struct {
		bytes []byte
		to    int64
	}{{[]byte{4, 5, 8}, 2}, {[]byte{3, 6, 7}, 1}} {
		table := Table{Near: 5, Devices: 2, Part: part, DType: dtype.Float16, Dim: 1}
		dst := make([]byte, 6)
		n, to := table.Stripe(dst, b, 3)
		if !bytes.Equal(dst[:n], want.bytes) || to != want.to {
			t.Errorf("part %d: %v at %d, want %v at %d", part, dst[:n], to, want.bytes, want.to)
		}
	}
}

// TestStripes: whatever pieces the rows come in, each device ends with its rows one after the
// other, in as much memory as it takes.
func TestStripes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		devices, dim, near := rapid.IntRange(1, 5).Draw(t, "devices"), rapid.IntRange(1, 9).Draw(t, "dim"), rapid.IntRange(1, 40).Draw(t, "rows")
		rowBytes := 2 * dim
		all := make([]byte, near*rowBytes)
		for i := range all {
			all[i] = byte(i*7 + i/256)
		}
		piece := rapid.IntRange(1, 3*rowBytes).Draw(t, "piece")
		for part := range devices {
			table := Table{Near: int64(near), Devices: devices, Part: part, DType: dtype.Float16, Dim: dim}
			got, want := make([]byte, table.Bytes()), make([]byte, 0, table.Bytes())
			for r := part; r < near; r += devices {
				want = append(want, all[r*rowBytes:(r+1)*rowBytes]...)
			}
			for lo := 0; lo < len(all); lo += piece {
				dst := make([]byte, piece)
				n, to := table.Stripe(dst, all[lo:min(lo+piece, len(all))], int64(lo))
				copy(got[to:], dst[:n])
			}
			if !bytes.Equal(got[:len(want)], want) {
				t.Fatalf("part %d of %d: %v, want %v", part, devices, got, want)
			}
		}
	})
}
