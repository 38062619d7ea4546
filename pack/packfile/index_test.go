package packfile

import (
	"bytes"
	"encoding/binary"
	"errors"
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
		Train: []Train{
			{Inputs: 7, Seeds: 2, Edges: 9, Bands: []int{3, 1}, GraphOffset: 0, GraphBytes: 77, GraphCRC: 1, Sums: []uint32{11, 12, 13}},
			{Inputs: 2, Seeds: 1, Edges: 1, Bands: []int{0, 0}, ChunkOffset: 401408, GraphOffset: 4096, GraphBytes: 33, GraphCRC: 2},
		},
		Valid: []Eval{{Inputs: 5, Seeds: 1, Edges: 4, Rows: 3, GraphBytes: 50, GraphCRC: 3}},
		Test:  []Eval{},
	}
}

const sampleRow = 100_000

func TestIndexRoundTrip(t *testing.T) {
	want := sample()
	got, err := DecodeIndex(want.Encode(), sampleRow)
	if err != nil {
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
	whole := sample().Encode()
	for i := range whole {
		bad := bytes.Clone(whole)
		bad[i] ^= 0x10
		if _, err := DecodeIndex(bad, sampleRow); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("byte %d changed: %v", i, err)
		}
		if _, err := DecodeIndex(whole[:i], sampleRow); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%d bytes: %v", i, err)
		}
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
		if err := tr.VerifyChunk("cold", chunk[:n], through, sampleRow); err != nil {
			t.Errorf("through band %d: %v", through, err)
		}
	}
	for _, at := range []int{0, ColdGranule - 1, ColdGranule, 3*sampleRow - 1, 3 * sampleRow, 4*sampleRow - 1} {
		chunk[at] ^= 1
		if err := tr.VerifyChunk("cold", chunk, 1, sampleRow); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("byte %d changed: %v", at, err)
		}
		chunk[at] ^= 1
	}
}

func FuzzDecodeIndex(f *testing.F) {
	whole := sample().Encode()
	f.Add(whole[:len(whole)-4])
	f.Fuzz(func(t *testing.T, body []byte) {
		// The checksum is put right, or no damage would get past it.
		b := binary.LittleEndian.AppendUint32(bytes.Clone(body), binio.CRC(body))
		x, err := DecodeIndex(b, sampleRow)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		if !bytes.Equal(x.Encode(), b) {
			t.Fatal("decoded an index that encodes to other bytes")
		}
	})
}
