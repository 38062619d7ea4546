package iostack

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/fault"
)

// TestStripingTilesEachFile walks a logical file unit by unit: every file's
// units must lie one after the other, and end where Size says.
func TestStripingTilesEachFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Striping{Files: rapid.IntRange(1, 7).Draw(t, "files"), Unit: Align * rapid.IntRange(1, 5).Draw(t, "pages")}
		size := rapid.Int64Range(0, 1<<20).Draw(t, "size")
		ends := make([]int64, s.Files)
		for offset, unit := int64(0), 0; offset < size; unit++ {
			file, at, n := s.Locate(offset)
			if file != unit%s.Files || at != ends[file] || n != s.Unit {
				t.Fatalf("offset %d: file %d at %d for %d bytes, want file %d at %d", offset, file, at, n, unit%s.Files, ends[file])
			}
			if within := rapid.IntRange(0, n-1).Draw(t, "within"); within > 0 {
				if f, a, rest := s.Locate(offset + int64(within)); f != file || a != at+int64(within) || rest != n-within {
					t.Fatalf("offset %d: file %d at %d for %d bytes", offset+int64(within), f, a, rest)
				}
			}
			n = int(min(int64(n), size-offset))
			ends[file] += int64(n)
			offset += int64(n)
		}
		for i, end := range ends {
			if got := s.Size(size, i); got != end {
				t.Fatalf("%d bytes: file %d has %d, want %d", size, i, got, end)
			}
		}
	})
}

func TestStripingRefusesNonsense(t *testing.T) {
	for _, s := range []Striping{{}, {Files: 1}, {Unit: Align}, {Files: -1, Unit: Align}, {Files: 2, Unit: 5000}, {Files: 1 << 20, Unit: Align}} {
		if err := s.Validate(); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
