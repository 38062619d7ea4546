package binio

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/fault"
)

// check gives a checker some bytes in pieces.
func check(t *rapid.T, c Checker, b []byte) error {
	var err error
	for len(b) > 0 && err == nil {
		n := rapid.IntRange(1, len(b)).Draw(t, "piece")
		_, err = c.Write(b[:n])
		b = b[n:]
	}
	return errors.Join(err, c.End())
}

// TestCheckers checks files of random parts with gaps between them: as they are, with any
// byte changed, cut, and longer than they were.
func TestCheckers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var file []byte
		var ranges []Range
		for range rapid.IntRange(0, 5).Draw(t, "parts") {
			file = append(file, make([]byte, rapid.IntRange(0, 4).Draw(t, "gap"))...)
			part := rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "part")
			ranges = append(ranges, Range{int64(len(file)), int64(len(part)), CRC(part)})
			file = append(file, part...)
		}
		file = append(file, make([]byte, rapid.IntRange(0, 4).Draw(t, "gap"))...)
		end := 0
		for _, r := range ranges {
			if r.Len > 0 {
				end = int(r.Offset + r.Len)
			}
		}
		sum := NewSummer(3)
		_, _ = sum.Write(file)
		sums := sum.Sums()
		for name, c := range map[string]struct {
			checker func() Checker
			least   int // bytes of the file without which it is known to be cut
		}{
			"ranges": {func() Checker { return CheckRanges("f", slices.Values(ranges)) }, end},
			"sums":   {func() Checker { return CheckRanges("f", sums.Ranges()) }, len(file)},
			"hash":   {func() Checker { return CheckHash("f", Hash(file)) }, len(file)},
		} {
			if err := check(t, c.checker(), file); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if c.least > 0 {
				if err := check(t, c.checker(), file[:rapid.IntRange(0, c.least-1).Draw(t, "cut")]); !errors.Is(err, fault.ErrCorrupt) {
					t.Fatalf("%s, cut: %v", name, err)
				}
			}
			if err := check(t, c.checker(), append(bytes.Clone(file), 1)); !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("%s, a byte more: %v", name, err)
			}
			if len(file) > 0 {
				bad := bytes.Clone(file)
				bad[rapid.IntRange(0, len(bad)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
				if err := check(t, c.checker(), bad); !errors.Is(err, fault.ErrCorrupt) {
					t.Fatalf("%s, a byte changed: %v", name, err)
				}
			}
		}
	})
}
