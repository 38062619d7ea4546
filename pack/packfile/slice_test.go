package packfile

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// TestSliceByHand: two epochs of seven batches, in steps of four for two ranks. The tail of an
// epoch is a step of its own.
func TestSliceByHand(t *testing.T) {
	f := &Facts{Train: 14, BatchesPerEpoch: 7}
	for _, c := range []struct {
		s    Slice
		want []int
	}{
		{Slice{0, 2, 4}, []int{0, 1, 4, 5, 7, 8, 11, 12}},
		{Slice{1, 2, 4}, []int{2, 3, 6, 9, 10, 13}},
		{Slice{1, 2, 2}, []int{1, 3, 5, 8, 10, 12}},
		{Slice{2, 3, 3}, []int{2, 5, 9, 12}},
		{Slice{0, 1, 5}, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}},
	} {
		var got []int
		for i := range f.Train {
			if c.s.Has(f, i) {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v has %v, want %v", c.s, got, c.want)
		}
	}
}

// TestPagesByHand: rows of 3000 bytes at places 0, 1, 9 and 40 of a segment that begins on page
// 2. Pages between the first three are read with them; the last one is too far.
func TestPagesByHand(t *testing.T) {
	p := make(pageSet, 1)
	p.read([]uint32{0, 1, 9, 40}, 2*binio.Page, 3000, 64*binio.Page)
	// Bytes 0 to 5999 are pages 2 and 3, 27000 to 29999 pages 8 and 9, four pages on; 120000 to
	// 122999 are pages 31 and 32.
	want := pageSet{0b1_1000_0000_0000_0000_0000_0011_1111_1100}
	if !slices.Equal(p, want) {
		t.Errorf("%b, want %b", p, want)
	}
}

// TestForgedSlice: no byte of slice.json can change unnoticed, and it must be of the pack that
// it lies beside.
func TestForgedSlice(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, SliceFile)
	m := &stage.Meta{Fingerprint: strings.Repeat("ab", 32)}
	good, err := sliceRecord{Pack: m.Fingerprint, Slice: Slice{1, 2, 4}}.encode()
	if err != nil {
		t.Fatal(err)
	}
	read := func(b []byte) (*Slice, error) {
		if err := os.WriteFile(name, b, 0o666); err != nil {
			t.Fatal(err)
		}
		return ReadSlice(vfs.OS, dir, m)
	}
	if s, err := read(good); err != nil || *s != (Slice{1, 2, 4}) {
		t.Fatalf("%v, %v", s, err)
	}
	for i := range good {
		b := slices.Clone(good)
		b[i] ^= 1
		if s, err := read(b); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("byte %d: %v, %v", i, s, err)
		}
	}
	for what, r := range map[string]sliceRecord{
		"another pack":    {Pack: strings.Repeat("cd", 32), Slice: Slice{1, 2, 4}},
		"no rank":         {Pack: m.Fingerprint, Slice: Slice{2, 2, 4}},
		"steps of three":  {Pack: m.Fingerprint, Slice: Slice{1, 2, 3}},
		"world of nobody": {Pack: m.Fingerprint},
	} {
		b, err := r.encode()
		if err != nil {
			t.Fatal(err)
		}
		if s, err := read(b); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v, %v", what, s, err)
		}
	}
	if s, err := ReadSlice(vfs.OS, t.TempDir(), m); s != nil || err != nil {
		t.Errorf("without the file: %v, %v", s, err)
	}
	if _, err := read(make([]byte, maxSlice+1)); !errors.Is(err, fault.ErrInput) {
		t.Errorf("too long: %v", err)
	}
}
