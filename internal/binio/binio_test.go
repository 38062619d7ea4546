package binio

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/fault"
)

func TestUints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(1, 4).Draw(t, "width")
		limit := uint32(1<<(8*width) - 1)
		src := rapid.SliceOf(rapid.Uint32Range(0, limit)).Draw(t, "values")
		b := AppendUints([]byte{9}, src, width)
		if len(b) != 1+len(src)*width || b[0] != 9 {
			t.Fatalf("%d values of %d bytes became %d bytes", len(src), width, len(b)-1)
		}
		got := make([]uint32, len(src))
		Uints(got, b[1:], width)
		if !slices.Equal(got, src) {
			t.Fatalf("got %v, want %v", got, src)
		}
		most := uint32(0)
		for _, v := range src {
			most = max(most, v)
		}
		if w := Width(most); w > width || w > 1 && most < 1<<(8*(w-1)) {
			t.Fatalf("width of %d is %d", most, w)
		}
	})
}

func TestDecoder(t *testing.T) {
	d := NewDecoder([]byte{1, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 9})
	if d.U8() != 1 || d.U32() != 2 || d.U64() != 3 || d.Rest() != 1 || d.Err() != nil {
		t.Errorf("fields misread: %v", d.Err())
	}
	if d.U32() != 0 || !errors.Is(d.Err(), fault.ErrCorrupt) {
		t.Errorf("reading past the end: %v", d.Err())
	}
	first := d.Err()
	if d.U8() != 0 || d.Raw(1) != nil || d.Err() != first {
		t.Error("the first error did not stay")
	}
	d = NewDecoder([]byte{255, 255, 255, 127})
	if d.Count(1) != 0 || !errors.Is(d.Err(), fault.ErrCorrupt) {
		t.Errorf("a count beyond the buffer: %v", d.Err())
	}
}

// TestSummer checks the running table against one computed granule by granule,
// however the bytes arrive.
func TestSummer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		content := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "content")
		granule := rapid.Int64Range(1, 40).Draw(t, "granule")
		s := NewSummer(granule)
		for rest := content; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			_, _ = s.Write(rest[:n])
			rest = rest[n:]
		}
		sums := s.Sums()
		var want []uint32
		for c := range slices.Chunk(content, int(granule)) {
			want = append(want, CRC(c))
		}
		if !slices.Equal(sums.CRC, want) || sums.Size != int64(len(content)) {
			t.Fatalf("table %v of %d bytes, want %v of %d", sums.CRC, sums.Size, want, len(content))
		}
		back, err := DecodeSums(sums.Encode())
		if err != nil || !slices.Equal(back.CRC, want) || back.Granule != granule || back.Size != sums.Size {
			t.Fatalf("round trip: %+v, %v", back, err)
		}
		if err := back.Verify("f", 0, content); err != nil {
			t.Fatal(err)
		}
		if len(content) > 0 {
			bad := bytes.Clone(content)
			bad[rapid.IntRange(0, len(bad)-1).Draw(t, "at")] ^= 1
			if err := back.Verify("f", 0, bad); !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("a changed byte: %v", err)
			}
		}
	})
}

func FuzzDecodeSums(f *testing.F) {
	s := Sums{Granule: 4, Size: 9, CRC: []uint32{1, 2, 3}}
	f.Add(s.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeSums(b)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		if !bytes.Equal(s.Encode(), b) {
			t.Fatal("decoded a table that encodes to other bytes")
		}
	})
}

// TestNPYHeader compares what files begin with.
func TestNPYHeader(t *testing.T) {
	for _, c := range []struct {
		descr string
		shape []int64
		want  string
	}{
		{"<i8", []int64{7}, "\x93NUMPY\x01\x00\x76\x00{'descr': '<i8', 'fortran_order': False, 'shape': (7,), }"},
		{"|u1", []int64{20, 11}, "\x93NUMPY\x01\x00\x76\x00{'descr': '|u1', 'fortran_order': False, 'shape': (20, 11), }"},
	} {
		want := c.want + strings.Repeat(" ", 127-len(c.want)) + "\n"
		if got := NPYHeader(c.descr, c.shape); string(got) != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestGCD(t *testing.T) {
	for _, c := range [][3]int{{1, 1, 1}, {12, 18, 6}, {400, 4096, 16}, {4096, 400, 16}, {7, 4096, 1}, {8192, 4096, 4096}} {
		if got := GCD(c[0], c[1]); got != c[2] {
			t.Errorf("GCD(%d, %d) = %d, want %d", c[0], c[1], got, c[2])
		}
	}
}
