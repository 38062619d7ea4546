package npy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/internal/fault"
)

// file builds a .npy file of the given version around a header's text.
func file(version byte, header string, elements any) []byte {
	b := append([]byte(Magic), version, 0)
	if version == 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(header)))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(header)))
	}
	b = append(b, header...)
	if elements == nil {
		return b
	}
	var w bytes.Buffer
	if err := binary.Write(&w, binary.LittleEndian, elements); err != nil {
		panic(err)
	}
	return append(b, w.Bytes()...)
}

func dict(descr, shape string) string {
	return fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }     \n", descr, shape)
}

func open(t *testing.T, b []byte) *Reader {
	t.Helper()
	r, err := NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestHeader(t *testing.T) {
	for text, want := range map[string]Header{
		dict("<i8", "(3,)"):   {'i', 8, false, []int64{3}},
		dict("|u1", "(2, 5)"): {'u', 1, false, []int64{2, 5}},
		dict("<f2", "()"):     {'f', 2, false, []int64{}},
		dict("|b1", "(7L,)"):  {'b', 1, false, []int64{7}},
		`{"shape":(1,2,3),"fortran_order":True,"descr":"=f4"}`: {'f', 4, true, []int64{1, 2, 3}},
	} {
		for _, version := range []byte{1, 2, 3} {
			got, err := ReadHeader(bytes.NewReader(file(version, text, nil)))
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s: %s", text, d)
			}
		}
	}
}

func TestHeaderRefuses(t *testing.T) {
	for _, c := range []struct {
		bytes []byte
		says  string
	}{
		{nil, "truncated"},
		{[]byte("PK\x03\x04........"), "not a .npy"},
		{file(9, "", nil), "version 9"},
		{file(1, dict("<i8", "(3,)"), nil)[:20], "truncated"},
		{file(1, dict(">i8", "(3,)"), nil), "big-endian"},
		{file(1, dict("|O", "(3,)"), nil), "type"},
		{file(1, dict("<c8", "(3,)"), nil), "type"},
		{file(1, dict("<i3", "(3,)"), nil), "type"},
		{file(1, dict("<U5", "(3,)"), nil), "type"},
		{file(1, "{'descr': [('a', '<i8')], 'fortran_order': False, 'shape': (3,)}", nil), "structured"},
		{file(1, dict("<i8", "(-3,)"), nil), "malformed"},
		{file(1, dict("<i8", "(99999999999999999999,)"), nil), "malformed"},
		{file(1, dict("<i8", "(9999999999, 9999999999)"), nil), "shape"},
		{file(1, dict("<i8", "(3"), nil), "malformed"},
		{file(1, "{'descr': '<i8', 'shape': (3,)}", nil), "malformed"},
		{file(1, dict("<i8", "(3,)")+"x", nil), "malformed"},
		{file(1, "", nil), "malformed"},
	} {
		_, err := ReadHeader(bytes.NewReader(c.bytes))
		if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.100q: %v; want it to say %q", c.bytes, err, c.says)
		}
	}
}

// TestLongHeader reads a header of 64 KiB, and none of a byte more.
func TestLongHeader(t *testing.T) {
	for _, size := range []int{64 << 10, 64<<10 + 1} {
		text := dict("<i8", "(3,)")
		text += strings.Repeat(" ", size-len(text))
		_, err := ReadHeader(bytes.NewReader(file(2, text, nil)))
		if size > 64<<10 != errors.Is(err, fault.ErrInput) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// TestElements reads every type as each of the types that a Reader yields.
func TestElements(t *testing.T) {
	for _, c := range []struct {
		descr    string
		elements any
		ints     []int64 // nil: not integers
		floats   []float32
	}{
		{"|i1", []int8{-128, 0, -127}, []int64{-128, 0, -127}, []float32{-128, 0, -127}},
		{"|u1", []uint8{0, 1, 255}, []int64{0, 1, 255}, []float32{0, 1, 255}},
		{"<i2", []int16{-32768, 5, -7}, []int64{-32768, 5, -7}, []float32{-32768, 5, -7}},
		{"<u2", []uint16{65535, 5, 7}, []int64{65535, 5, 7}, []float32{65535, 5, 7}},
		{"<i4", []int32{-1 << 31, 5, -7}, []int64{-1 << 31, 5, -7}, []float32{-1 << 31, 5, -7}},
		{"<u4", []uint32{1 << 31, 5, 7}, []int64{1 << 31, 5, 7}, []float32{1 << 31, 5, 7}},
		{"<i8", []int64{-1 << 62, 5, -7}, []int64{-1 << 62, 5, -7}, []float32{-1 << 62, 5, -7}},
		{"<u8", []uint64{1 << 62, 5, 7}, []int64{1 << 62, 5, 7}, []float32{1 << 62, 5, 7}},
		{"<f4", []float32{1.5, -2, 3e38}, nil, []float32{1.5, -2, 3e38}},
		{"<f8", []float64{1.5, -2, 0.1}, nil, []float32{1.5, -2, 0.1}},
		{"<f2", []uint16{0x3E00, 0xC000, 0x7BFF}, nil, []float32{1.5, -2, 65504}},
		{"|b1", []bool{true, false, true}, nil, []float32{1, 0, 1}},
	} {
		b := file(1, dict(c.descr, "(3,)"), c.elements)
		ints := make([]int64, 3)
		err := open(t, b).Ints(ints)
		if c.ints == nil {
			if !errors.Is(err, fault.ErrInput) {
				t.Errorf("%s as integers: %v", c.descr, err)
			}
		} else if d := cmp.Diff(c.ints, ints); err != nil || d != "" {
			t.Errorf("%s as integers: %v %s", c.descr, err, d)
		}
		floats := make([]float32, 2)
		r := open(t, b)
		if err := r.Skip(1); err != nil {
			t.Fatal(err)
		}
		if err := r.Floats(floats); err != nil || cmp.Diff(c.floats[1:], floats) != "" {
			t.Errorf("%s as floats: %v, %v", c.descr, floats, err)
		}
		doubles := make([]float64, 3)
		err = open(t, b).Doubles(doubles)
		for i, v := range doubles {
			if err != nil || float32(v) != c.floats[i] || c.descr == "<f8" && v != c.elements.([]float64)[i] {
				t.Errorf("%s as doubles: %v, %v", c.descr, doubles, err)
			}
		}
		if err := open(t, b[:len(b)-1]).Floats(make([]float32, 3)); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "truncated") {
			t.Errorf("%s truncated: %v", c.descr, err)
		}
	}
	if err := open(t, file(1, dict("<u8", "(1,)"), []uint64{math.MaxUint64})).Ints(make([]int64, 1)); !errors.Is(err, fault.ErrInput) {
		t.Errorf("uint64 out of range: %v", err)
	}
}

// TestLong reads more than the buffer holds, in pieces of every size, with skips
// through a reader that cannot seek.
func TestLong(t *testing.T) {
	want := make([]int32, 100_000)
	for i := range want {
		want[i] = int32(i * 7)
	}
	b := file(2, dict("<i4", "(100000,)"), want)
	r, err := NewReader(onlyReader{bytes.NewReader(b)})
	if err != nil {
		t.Fatal(err)
	}
	got := make([]int64, 40_000)
	for at, n := 0, 1; at < len(want); at += n {
		n = min(n*3, len(want)-at, len(got))
		if n%2 == 0 {
			if err := r.Skip(int64(n)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := r.Ints(got[:n]); err != nil {
			t.Fatal(err)
		}
		if got[0] != int64(want[at]) || got[n-1] != int64(want[at+n-1]) {
			t.Fatalf("elements %d to %d are %d … %d", at, at+n, got[0], got[n-1])
		}
	}
}

type onlyReader struct{ r *bytes.Reader }

func (o onlyReader) Read(b []byte) (int, error) { return o.r.Read(b) }

func FuzzHeader(f *testing.F) {
	f.Add(file(1, dict("<i8", "(3,)"), nil))
	f.Add(file(2, dict("<f4", "(2, 5)"), []int32{1}))
	f.Add(file(1, dict(">i8", "(3L,)"), nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := NewReader(bytes.NewReader(b))
		if err != nil {
			if !errors.Is(err, fault.ErrInput) {
				t.Errorf("%v", err)
			}
			return
		}
		if n := r.Count(); n < 0 || n > 0 && n*int64(r.Size) < n {
			t.Errorf("%d elements of %d bytes", n, r.Size)
		}
		_ = r.Floats(make([]float32, 10))
	})
}
