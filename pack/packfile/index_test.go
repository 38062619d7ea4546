package packfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
)

// sample is an index of rows of 100,000 bytes: 262,144 bytes hold not quite
// three, so that a band of three rows has two checksums.
func sample() *Index {
	return &Index{
		Edges: []int64{50, 10},
		Bands: 2,
		Train: []Train{
			{Inputs: 9, Seeds: 2, Edges: 9, Bands: []int{3, 1}, SSD: []int{1, 1}, ChunkBytes: 4 * sampleRow, Graph: []Section{{9, 1}, {60, 2}, {5, 3}, {0, 0}, {3, 4}}, Sums: []uint32{11, 12, 13}},
			{Inputs: 2, Seeds: 1, Edges: 1, Bands: []int{0, 0}, SSD: []int{0, 0}, ChunkOffset: 401408, GraphOffset: 4096, Graph: []Section{{1, 7}, {30, 8}, {2, 9}, {0, 0}, {0, 0}}},
		},
		Segments: []Segment{{Offset: 4096, Rows: 2}},
		Valid:    []Eval{{Inputs: 5, Seeds: 1, Edges: 4, Rows: 3, Graph: []Section{{5, 10}, {45, 11}}}},
		Test:     []Eval{},
	}
}

// older is the sample as a pack of version 2 has it.
func older() *Index {
	x := sample()
	x.Bytewise = true
	x.Train[0].Graph, x.Train[1].Graph, x.Valid[0].Graph = []Section{{77, 1}}, []Section{{33, 2}}, []Section{{50, 3}}
	return x
}

const sampleRow = 100_000

var sampleForm = Form{RowBytes: sampleRow, Codec: CodecNone}

// compressed is the sample with compressed chunks: frames of ten rows.
func compressed() (*Index, Form) {
	x, f := sample(), Form{RowBytes: sampleRow, Codec: CodecZstd}
	t := &x.Train[0]
	t.Sums, t.Frames = []uint32{11, 12}, []uint32{5000, sampleRow | FrameStored}
	t.ChunkBytes = 8192 + sampleRow
	return x, f
}

// chunked is the sample with chunks of evaluation.
func chunked() *Index {
	x := sample()
	x.EvalChunks = true
	x.Valid[0].Cold = 4
	x.Valid = append(x.Valid, Eval{Inputs: 3, Seeds: 1, Edges: 2, Rows: 1, Cold: 3, ChunkOffset: 401408, GraphOffset: 4096, Graph: []Section{{5, 12}, {35, 13}}})
	x.Test = []Eval{{Inputs: 2, Seeds: 1, Edges: 1, Rows: 1, GraphOffset: 8192, Graph: []Section{{5, 14}, {35, 15}}}}
	return x
}

func encode(t testing.TB, x *Index) []byte {
	t.Helper()
	b, err := x.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestIndexRoundTrip(t *testing.T) {
	frames, framesForm := compressed()
	got, err := DecodeIndex(encode(t, frames), framesForm)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(frames, got, cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
	if got, err = DecodeIndex(encode(t, chunked()), sampleForm); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(chunked(), got, cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
	if n := len(encode(t, chunked())) - len(encode(t, sample())); n != 3*12+2*40 { // of three batches, two of them more
		t.Errorf("chunks of evaluation take %d bytes more", n)
	}
	for _, x := range []*Index{frames, chunked(), older(), sample()} {
		if size, _ := x.size(); size != int64(len(encode(t, x))) {
			t.Errorf("%d bytes are expected, %d made", size, len(encode(t, x)))
		}
	}
	if got, err = DecodeIndex(encode(t, older()), sampleForm); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(older(), got, cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
	want := sample()
	if got, err = DecodeIndex(encode(t, want), sampleForm); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
	if n := got.Train[0].Hot(); n != 3 {
		t.Errorf("%d hot rows, want 3", n)
	}
	if n := got.Train[0].ColdRows(0); n != 3 {
		t.Errorf("%d rows through band 0, want 3", n)
	}
}

func TestIndexDamage(t *testing.T) {
	for _, x := range []*Index{sample(), chunked(), older()} {
		whole := encode(t, x)
		for i := range whole {
			bad := bytes.Clone(whole)
			bad[i] ^= 0x10
			if _, err := DecodeIndex(bad, sampleForm); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("byte %d changed: %v", i, err)
			}
			if _, err := DecodeIndex(whole[:i], sampleForm); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%d bytes: %v", i, err)
			}
		}
	}
	for what, change := range map[string]func(e *Eval){
		"more rows than the matrix": func(e *Eval) { e.Cold = 6 },
		"a negative offset":         func(e *Eval) { e.ChunkOffset = -4096 },
	} {
		x := chunked()
		change(&x.Valid[0])
		if _, err := DecodeIndex(encode(t, x), sampleForm); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("a chunk of %s: %v", what, err)
		}
	}
}

// TestIndexHasNoRoom encodes numbers that are beyond their 32 bits: none is cut.
func TestIndexHasNoRoom(t *testing.T) {
	for what, change := range map[string]func(x *Index){
		"edges of training batch 1":               func(x *Index) { x.Train[1].Edges = 1<<32 + 5 },
		"cold rows of training batch 0":           func(x *Index) { x.Train[0].Bands[1] = 1 << 32 },
		"rows of segment 0":                       func(x *Index) { x.Segments[0].Rows = 1 << 32 },
		"rows of evaluation batch 0":              func(x *Index) { x.Valid[0].Edges = -1 },
		"rows of its chunk of evaluation batch 1": func(x *Index) { *x = *chunked(); x.Valid[1].Cold = 1 << 32 },
	} {
		x := sample()
		change(x)
		b, err := x.Encode()
		if b != nil || !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "--batch-size") {
			t.Errorf("%s: %d bytes, %v", what, len(b), err)
		}
	}
	x := sample()
	x.Train[0].Graph[0].Bytes, x.Train[0].Edges = 1<<32-1, 1<<32-1
	got, err := DecodeIndex(encode(t, x), sampleForm)
	if err != nil || got.Train[0].Graph[0].Bytes != 1<<32-1 || got.Train[0].Edges != 1<<32-1 {
		t.Errorf("the most that there is room for: %v", err)
	}
}

// TestVerifyChunk checks that checksums start anew at each band and that every
// byte of the prefix counts.
func TestVerifyChunk(t *testing.T) {
	chunk := make([]byte, 4*sampleRow)
	for i := range chunk {
		chunk[i] = byte(i * 7)
	}
	tr := sample().Train[0]
	tr.Sums = []uint32{binio.CRC(chunk[:ColdGranule]), binio.CRC(chunk[ColdGranule : 3*sampleRow]), binio.CRC(chunk[3*sampleRow:])}
	for through, n := range []int{3 * sampleRow, 4 * sampleRow} {
		if err := tr.VerifyChunk("cold", chunk[:n], through, sampleForm); err != nil {
			t.Errorf("through band %d: %v", through, err)
		}
	}
	for _, at := range []int{0, ColdGranule - 1, ColdGranule, 3*sampleRow - 1, 3 * sampleRow, 4*sampleRow - 1} {
		chunk[at] ^= 1
		if err := tr.VerifyChunk("cold", chunk, 1, sampleForm); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("byte %d changed: %v", at, err)
		}
		chunk[at] ^= 1
	}
}

func FuzzDecodeIndex(f *testing.F) {
	whole := encode(f, sample())
	f.Add(whole[:len(whole)-4], false)
	frames, _ := compressed()
	whole = encode(f, frames)
	f.Add(whole[:len(whole)-4], true)
	whole = encode(f, chunked())
	f.Add(whole[:len(whole)-4], false)
	f.Fuzz(func(t *testing.T, body []byte, codec bool) {
		form := sampleForm
		if codec {
			form.Codec = CodecZstd
		}
		// The checksum is put right, or no damage would get past it.
		b := binary.LittleEndian.AppendUint32(bytes.Clone(body), binio.CRC(body))
		x, err := DecodeIndex(b, form)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		if !bytes.Equal(encode(t, x), b) {
			t.Fatal("decoded an index that encodes to other bytes")
		}
	})
}

// TestPieces checks where the pieces of a compressed chunk lie, by hand.
func TestPieces(t *testing.T) {
	x, form := compressed()
	var got []Piece
	if err := x.Train[0].Pieces(form, 1, func(p Piece) error { got = append(got, p); return nil }); err != nil {
		t.Fatal(err)
	}
	want := []Piece{
		{Offset: 0, Len: 5000, Row: 0, RowLen: 3 * sampleRow, Sum: 11},
		{Offset: 8192, Len: sampleRow, Stored: true, Row: 3 * sampleRow, RowLen: sampleRow, Sum: 12},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if n := x.Train[0].Extent(form, 0); n != 5000 {
		t.Errorf("band 0 has %d bytes", n)
	}
}

// TestPlan checks that a plan of an older version is read list by list.
func TestPlan(t *testing.T) {
	want := Plan{SSD: []uint32{1, 5}, Hits: []uint32{0, 2, 9}, Admit: []uint32{7}}
	var got Plan
	got.decode([]byte{1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, 7, 0, 0, 0}, 2, 3, 1)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, c := range []struct {
		list []uint32
		n    int64
		want bool
	}{{nil, 0, true}, {[]uint32{0, 2}, 3, true}, {[]uint32{0, 3}, 3, false}, {[]uint32{1, 1}, 3, false}} {
		if got := ascendsBelow(c.list, c.n); got != c.want {
			t.Errorf("%v below %d: %v", c.list, c.n, got)
		}
	}
}

// VerifyChunk checks b, which holds the chunk's bands 0 … through as stored from its
// first byte, against the checksums. name is the file's, for the error.
func (t *Train) VerifyChunk(name string, b []byte, through int, f Form) error {
	return t.Pieces(f, through, func(p Piece) error { return t.VerifyPiece(name, b, p) })
}
