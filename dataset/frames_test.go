package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// mixed returns bytes that repeat, that are skewed, random and zero, by turns.
func mixed(n int) []byte {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		switch i >> 17 % 4 {
		case 0:
			b[i] = byte(rng.Uint32())
		case 1:
			b[i] = byte(i % 251 & 3)
		case 2:
			b[i] = byte(rng.Uint32() & rng.Uint32())
		}
	}
	return b
}

// newReader writes a feature table and opens it, rows of any size.
func newReader(t testing.TB, content []byte, rowBytes int, compress bool) *FeatureReader {
	t.Helper()
	name := filepath.Join(t.TempDir(), "table")
	var p pieces
	stored := content
	if compress {
		enc, err := newEncoder(1)
		if err != nil {
			t.Fatal(err)
		}
		var table frames
		stored = nil
		for rest := content; len(rest) > 0; {
			n := min(len(rest), Granule)
			frame := enc.EncodeAll(rest[:n], nil)
			table.add(frame, n)
			stored, rest = append(stored, frame...), rest[n:]
		}
		if table, err = decodeFrames(table.encode()); err != nil {
			t.Fatal(err)
		}
		p = framePieces(name, table)
	} else {
		sum := binio.NewSummer(Granule)
		_, _ = sum.Write(content)
		p = rawPieces(name, sum.Sums())
	}
	if err := os.WriteFile(name, stored, 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := vfs.OS.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return &FeatureReader{f: f, pieces: p, rowBytes: int64(rowBytes), rows: int64(len(content) / rowBytes)}
}

// extentRows reads rows as a caller with an I/O of its own does.
func extentRows(r *FeatureReader, lo, hi int64) ([]byte, error) {
	e := r.Extent(lo, hi)
	f, err := os.Open(r.Path())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	wire := make([]byte, e.Size)
	if _, err := f.ReadAt(wire, e.Offset); err != nil {
		return nil, err
	}
	var rows []byte
	for i := e.First; i < e.End; i++ {
		off, size := r.Piece(i)
		content, err := r.Decode(i, wire[off-e.Offset:][:size], make([]byte, 0, Granule))
		if err != nil {
			return nil, err
		}
		rows = append(rows, content...)
	}
	return rows[e.Skip:][:(hi-lo)*r.rowBytes], nil
}

// TestPieces reads rows of many sizes, in any ranges, by ReadRows and by extents.
func TestPieces(t *testing.T) {
	for _, compress := range []bool{false, true} {
		for _, c := range []struct{ rowBytes, rows int }{
			{3, 1}, {3, 800_000}, {400, 6000}, {8192, 300}, {Granule + 12345, 3}, {Granule, 2},
		} {
			t.Run(fmt.Sprintf("compress=%t/%dx%d", compress, c.rows, c.rowBytes), func(t *testing.T) {
				content := mixed(c.rows * c.rowBytes)
				r := newReader(t, content, c.rowBytes, compress)
				rapid.Check(t, func(rt *rapid.T) {
					lo := rapid.Int64Range(0, r.rows-1).Draw(rt, "lo")
					hi := rapid.Int64Range(lo+1, min(r.rows, lo+rapid.SampledFrom([]int64{1, 300, r.rows}).Draw(rt, "most"))).Draw(rt, "hi")
					want := content[lo*r.rowBytes : hi*r.rowBytes]
					got := make([]byte, len(want))
					if err := r.ReadRows(t.Context(), lo, hi, got); err != nil {
						rt.Fatal(err)
					}
					if !bytes.Equal(got, want) {
						rt.Fatal("ReadRows: other rows")
					}
					got, err := extentRows(r, lo, hi)
					if err != nil {
						rt.Fatal(err)
					}
					if !bytes.Equal(got, want) {
						rt.Fatal("Extent: other rows")
					}
				})
				if err := r.ReadRows(t.Context(), 0, 0, nil); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestDecodeRefuses hands Decode other bytes than the piece's, and frames that are
// not what the table says though their checksums are right.
func TestDecodeRefuses(t *testing.T) {
	content := mixed(Granule + 500)
	dst := make([]byte, 0, Granule)
	for _, compress := range []bool{false, true} {
		r := newReader(t, content, 100, compress)
		stored, err := os.ReadFile(r.Path())
		if err != nil {
			t.Fatal(err)
		}
		off, size := r.Piece(1)
		piece := stored[off : off+size]
		if out, err := r.Decode(1, piece, dst); err != nil || !bytes.Equal(out, content[Granule:]) {
			t.Fatalf("%d bytes, %v", len(out), err)
		}
		bad := bytes.Clone(piece)
		bad[len(bad)-1] ^= 1
		for name, b := range map[string][]byte{"changed": bad, "short": piece[1:], "long": append(bytes.Clone(piece), 0), "nothing": nil} {
			if _, err := r.Decode(1, b, dst); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := testing.AllocsPerRun(20, func() { _, _ = r.Decode(1, piece, dst) }); n > 0 {
			t.Errorf("compressed %t: Decode allocates %v times", compress, n)
		}
	}
	enc, err := newEncoder(1)
	if err != nil {
		t.Fatal(err)
	}
	for name, frame := range map[string][]byte{
		"longer":    enc.EncodeAll(mixed(Granule+1), nil),
		"shorter":   enc.EncodeAll(mixed(Granule-1), nil),
		"two":       append(enc.EncodeAll(mixed(Granule), nil), enc.EncodeAll([]byte{1}, nil)...),
		"no frame":  mixed(1000),
		"cut short": enc.EncodeAll(mixed(Granule), nil)[:5000],
	} {
		var table frames
		table.add(frame, Granule)
		p := framePieces("features.zst", table)
		if _, err := p.decode(0, frame, dst); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFramesAreFixed fails when the encoder makes other frames than it did: the
// bytes are part of what content parameters promise, so compressorVersion must rise
// with them.
func TestFramesAreFixed(t *testing.T) {
	content := mixed(3 * Granule / 2)
	for range 2 { // neither a used encoder nor another one matters
		enc, err := newEncoder(2)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			var all []byte
			all = enc.EncodeAll(content[:Granule], all)
			all = enc.EncodeAll(content[Granule:], all)
			if got := binio.Hash(all); got != frozenFrames {
				t.Fatalf("%s makes frames %s, it was %s", compressorVersion, got, frozenFrames)
			}
		}
	}
	if enc, err := newEncoder(1); err != nil || enc.MaxEncodedSize(Granule) > maxFrame {
		t.Error("a frame may be longer than maxFrame", err)
	}
}

const frozenFrames = "510af363bd2a969f2d06789282f5eabdd24ae622ca01c5237bcefa2e6f5b4555"

func TestDecodeFrames(t *testing.T) {
	good := frames{size: 2*Granule + 1, lengths: []uint32{9, maxFrame, 1}, crcs: []uint32{1, 2, 3}}
	b := good.encode()
	if got, err := decodeFrames(b); err != nil || got.size != good.size || got.stored() != 10+maxFrame {
		t.Fatalf("%+v, %v", got, err)
	}
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= 4
		if _, err := decodeFrames(bad); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("byte %d: %v", i, err)
		}
	}
	for name, t2 := range map[string]frames{
		"too few":     {size: 3 * Granule, lengths: []uint32{1, 2}, crcs: []uint32{1, 2}},
		"too many":    {size: Granule, lengths: []uint32{1, 2}, crcs: []uint32{1, 2}},
		"negative":    {size: -1, lengths: []uint32{1}, crcs: []uint32{1}},
		"empty frame": {size: 1, lengths: []uint32{0}, crcs: []uint32{1}},
		"huge frame":  {size: 1, lengths: []uint32{maxFrame + 1}, crcs: []uint32{1}},
	} {
		if _, err := decodeFrames(t2.encode()); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzDecodeFrames(f *testing.F) {
	t := frames{size: Granule + 1, lengths: []uint32{9, 10}, crcs: []uint32{1, 2}}
	f.Add(t.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		// The fuzzer does not find checksums: it gets one.
		if len(b) >= 4 {
			b = append(b[:len(b)-4:len(b)-4], binio.Bytes([]uint32{binio.CRC(b[:len(b)-4])})...)
		}
		table, err := decodeFrames(b)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		if !bytes.Equal(table.encode(), b) {
			t.Fatal("decoded a table that encodes to other bytes")
		}
	})
}

// BenchmarkFeatures reads a table of 64 MiB from memory: as ReadRows does, and
// piece by piece as Decode does on one core. MB/s are of features.
func BenchmarkFeatures(b *testing.B) {
	const dim, rows = 128, 64 << 20 / 512
	rng := rand.New(rand.NewPCG(1, 2))
	normal, words := make([]float32, dim*rows), make([]float32, dim*rows)
	for i := range normal {
		normal[i] = float32(rng.NormFloat64())
		if rng.IntN(50) == 0 {
			words[i] = 1.0 / 32
		}
	}
	for name, values := range map[string][]float32{"normal": normal, "words": words} {
		for _, compress := range []bool{false, true} {
			r := newReader(b, binio.Bytes(values), dim*4, compress)
			ratio := float64(r.pieces.size) / float64(r.pieces.start(len(r.pieces.crcs)))
			b.Run(fmt.Sprintf("%s/compress=%t/ReadRows", name, compress), func(b *testing.B) {
				buf := make([]byte, 8<<20)
				b.SetBytes(r.pieces.size)
				defer func() { b.ReportMetric(ratio, "ratio") }()
				for b.Loop() {
					for lo := int64(0); lo < rows; lo += int64(len(buf)) / r.rowBytes {
						if err := r.ReadRows(context.Background(), lo, lo+int64(len(buf))/r.rowBytes, buf); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
			b.Run(fmt.Sprintf("%s/compress=%t/Decode", name, compress), func(b *testing.B) {
				stored, err := os.ReadFile(r.Path())
				if err != nil {
					b.Fatal(err)
				}
				dst := make([]byte, 0, Granule)
				b.SetBytes(r.pieces.size)
				for b.Loop() {
					for i := range r.pieces.crcs {
						off, size := r.Piece(i)
						if _, err := r.Decode(i, stored[off:off+size], dst); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}
