package safetensors_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"diskgnn/internal/fault"
	"diskgnn/train/safetensors"
)

func write(t interface{ Fatal(...any) }, tensors []safetensors.Tensor, metadata map[string]string) []byte {
	var b bytes.Buffer
	if err := safetensors.Write(&b, tensors, metadata); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestBytesByValue(t *testing.T) {
	got := write(t, []safetensors.Tensor{
		{Name: "w", Shape: []int{2, 1}, Data: []float32{1, -2}},
		{Name: "scalar", Data: []float32{0.5}},
	}, map[string]string{"format": "pt"})
	want := "\xe8\x00\x00\x00\x00\x00\x00\x00" +
		`{"__metadata__":{"diskgnn.sha256":"DIGITS","format":"pt"},"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},` +
		`"scalar":{"dtype":"F32","shape":[],"data_offsets":[8,12]}}` + strings.Repeat(" ", 3) +
		"\x00\x00\x80\x3f" + "\x00\x00\x00\xc0" + "\x00\x00\x00\x3f"
	sum := sha256.Sum256([]byte(strings.Replace(want, "DIGITS", strings.Repeat("0", 64), 1)))
	want = strings.Replace(want, "DIGITS", hex.EncodeToString(sum[:]), 1)
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Error(d)
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.String(), 0, 6, rapid.ID[string]).Draw(t, "names")
		var tensors []safetensors.Tensor
		for _, name := range names {
			shape := rapid.SliceOfN(rapid.IntRange(0, 5), 0, 3).Draw(t, "shape")
			n := 1
			for _, d := range shape {
				n *= d
			}
			data := rapid.SliceOfN(rapid.Float32(), n, n).Draw(t, "data")
			tensors = append(tensors, safetensors.Tensor{Name: name, Shape: shape, Data: data})
		}
		metadata := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "metadata")
		b := write(t, tensors, metadata)
		if n := binary.LittleEndian.Uint64(b); n%8 != 0 {
			t.Errorf("data begin at byte %d", 8+n)
		}
		got, meta, err := safetensors.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		byName := func(ts []safetensors.Tensor) map[string]safetensors.Tensor {
			m := make(map[string]safetensors.Tensor)
			for _, x := range ts {
				if len(x.Data) == 0 {
					x.Data = nil
				}
				if len(x.Shape) == 0 {
					x.Shape = nil
				}
				m[x.Name] = x
			}
			return m
		}
		if !safetensors.Checked(meta) {
			t.Error("there is no checksum")
		}
		delete(meta, "diskgnn.sha256")
		if d := cmp.Diff(byName(tensors), byName(got)) + cmp.Diff(metadata, meta); d != "" {
			t.Error(d)
		}
	})
}

func TestWriteRefuses(t *testing.T) {
	for what, tensors := range map[string][]safetensors.Tensor{
		"too few elements": {{Name: "a", Shape: []int{3}, Data: make([]float32, 2)}},
		"negative shape":   {{Name: "a", Shape: []int{-1}}},
		"the same name":    {{Name: "a", Shape: []int{0}}, {Name: "a", Shape: []int{0}}},
		"a reserved name":  {{Name: "__metadata__", Shape: []int{0}}},
		"overflow":         {{Name: "a", Shape: []int{math.MaxInt, math.MaxInt}}},
	} {
		if err := safetensors.Write(&bytes.Buffer{}, tensors, nil); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if err := safetensors.Write(full{}, nil, nil); err == nil {
		t.Error("a write error is lost")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// file puts a header before data.
func file(head string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(head)))
	return append(append(b, head...), make([]byte, data)...)
}

func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct {
		b    []byte
		kind error
		want string
	}{
		{nil, fault.ErrCorrupt, "too short"},
		{file("{}", 0)[:9], fault.ErrCorrupt, "header has 2 bytes"},
		{binary.LittleEndian.AppendUint64(nil, math.MaxUint64), fault.ErrCorrupt, "the header has"},
		{file("[]", 0), fault.ErrCorrupt, "not a JSON object"},
		{file("{", 0), fault.ErrCorrupt, "header:"},
		{file("{}", 4), fault.ErrCorrupt, "4 bytes follow"},
		{file(`{"__metadata__":{"a":1}}`, 0), fault.ErrCorrupt, "__metadata__"},
		{file(`{"__metadata__":{"diskgnn.sha256":"12"}}`, 0), fault.ErrCorrupt, "is not a checksum"},
		{file(`{"__metadata__":{"diskgnn.sha256":""}}`, 0), fault.ErrCorrupt, "is not a checksum"},
		{file(`{"__metadata__":{"diskgnn.sha256": "`+strings.Repeat("0", 64)+`"}}`, 0), fault.ErrCorrupt, "is not a checksum"},
		{file(`{"__metadata__":{"diskgnn.sha256":"`+strings.Repeat("0", 64)+`"}}`, 0), fault.ErrCorrupt, "does not match the checksum"},
		{file(`{"a":7}`, 0), fault.ErrCorrupt, `"a"`},
		{file(`{"a":{}}`, 0), fault.ErrCorrupt, "no dtype"},
		{file(`{"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}`, 4), fault.ErrVersion, "BF16"},
		{file(`{"a":{"dtype":"F32","data_offsets":[0,4]}}`, 4), fault.ErrCorrupt, "shape"},
		{file(`{"a":{"dtype":"F32","shape":[1]}}`, 4), fault.ErrCorrupt, "shape"},
		{file(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,-4]}}`, 4), fault.ErrCorrupt, "shape"},
		{file(`{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`, 0), fault.ErrCorrupt, "shape"},
		{file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`, 4), fault.ErrCorrupt, "shape"},
		{file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 4), fault.ErrCorrupt, "bytes 0 to 8 of 4"},
		{file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8), fault.ErrCorrupt, "must begin at byte 0"},
		{file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4), fault.ErrCorrupt, "must begin at byte 4"},
	} {
		_, _, err := safetensors.Decode(c.b)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.b, err, c.want)
		}
		if _, err := safetensors.Verify(bytes.NewReader(c.b), int64(len(c.b))); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: verified: %v, want %q", c.b, err, c.want)
		}
	}
}

// Every bit of a file is covered: changed, the file is refused, or has no checksum any more.
func TestEveryBitIsChecked(t *testing.T) {
	good := write(t, []safetensors.Tensor{{Name: "a", Shape: []int{3, 2}, Data: []float32{1, 2, 3, 4, 5, 6}}}, map[string]string{"format": "pt", "epoch": "3"})
	if meta, err := safetensors.Verify(bytes.NewReader(good), int64(len(good))); err != nil || !safetensors.Checked(meta) || meta["epoch"] != "3" {
		t.Fatalf("%v, %v", meta, err)
	}
	for bit := range 8 * len(good) {
		b := bytes.Clone(good)
		b[bit/8] ^= 1 << (bit % 8)
		_, meta, err := safetensors.Decode(b)
		if verified, verr := safetensors.Verify(bytes.NewReader(b), int64(len(b))); (err == nil) != (verr == nil) || !maps.Equal(meta, verified) {
			t.Errorf("bit %d: decoded %v, verified %v", bit, err, verr)
		}
		if err == nil && safetensors.Checked(meta) {
			t.Errorf("bit %d of byte %d, %q, is not covered", bit%8, bit/8, good[bit/8])
		}
	}
}

// Whatever is read is consistent, and reads the same after being written again.
func FuzzDecode(f *testing.F) {
	f.Add(write(f, []safetensors.Tensor{{Name: "a", Shape: []int{1, 2}, Data: []float32{1, 2}}, {Name: "b", Shape: []int{0}}}, map[string]string{"k": "v"}))
	f.Add(file(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, 4))
	f.Add(file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}`, 4))
	f.Fuzz(func(t *testing.T, b []byte) {
		tensors, metadata, err := safetensors.Decode(b)
		if _, verr := safetensors.Verify(bytes.NewReader(b), int64(len(b))); (verr == nil) != (err == nil) {
			t.Fatalf("decoded: %v, verified: %v", err, verr)
		}
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrVersion) {
				t.Fatalf("an error without a kind: %v", err)
			}
			return
		}
		again, metadata2, err := safetensors.Decode(write(t, tensors, metadata))
		if err != nil {
			t.Fatal(err)
		}
		delete(metadata, "diskgnn.sha256")
		delete(metadata2, "diskgnn.sha256")
		sameBits := cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) })
		if d := cmp.Diff(tensors, again, sameBits) + cmp.Diff(metadata, metadata2, cmpopts.EquateEmpty()); d != "" {
			t.Error(d)
		}
	})
}
