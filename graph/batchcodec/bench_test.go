package batchcodec

import (
	"errors"
	"testing"

	"github.com/klauspost/compress/s2"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/rng"
)

// largeBatch has the counts of a batch of 1024 seeds at fanout 10,15,20.
func largeBatch() *graph.Batch {
	src := rng.New(1)
	counts := []struct{ src, dst, edges int }{{450_000, 110_000, 678_000}, {110_000, 12_000, 124_000}, {12_000, 1024, 13_500}}
	b := &graph.Batch{Labels: make([]int32, 1024)}
	for _, c := range counts {
		k := graph.Block{NumSrc: c.src, NumDst: c.dst, Indptr: make([]uint32, c.dst+1)}
		for i := range k.Indptr {
			k.Indptr[i] = uint32(i * c.edges / c.dst)
		}
		for range c.edges {
			k.Indices = append(k.Indices, src.Uint32n(uint32(c.src)))
		}
		b.Blocks = append(b.Blocks, k)
	}
	for range counts[0].src {
		b.Input, b.Degree = append(b.Input, src.Uint32n(5_000_000)), append(b.Degree, src.Uint32n(1<<17))
	}
	return b
}

// BenchmarkEncodings compares what loading a batch's graph takes when its numbers are
// held in bytes as few as they need (samples), as plain 32-bit numbers, in as few
// bits as they need (packs), and when the first is compressed by S2: bytes, the time to decode
// on one core, and both together behind drives of 1 and 3 GB/s, where one follows the
// other. "blocks" is without degrees and ranks, which GraphSAGE does not need.
//
//	go test -run '^$' -bench Encodings -cpu 1 ./graph/batchcodec
func BenchmarkEncodings(b *testing.B) {
	batch := largeBatch()
	form := Append(nil, batch)
	packed := s2.Encode(nil, form)
	arrays := arraysOf(batch)
	plain, bits, blocks := encodePlain(arrays), appendBits(nil, batch), AppendBlocks(nil, batch)
	var into graph.Batch
	out := make([]uint32, 0, 2_000_000)
	for _, c := range []struct {
		name   string
		bytes  int
		decode func() error
	}{
		{"bytes", len(form), func() error { return Decode(form, &into) }},
		{"plain", len(plain), func() error { out = decodePlain(out[:0], plain, arrays); return into.Validate() }},
		{"bits", len(bits), func() error { return decodeBits(bits, &into) }},
		{"blocks", len(blocks), func() error {
			d := binio.NewDecoder(blocks)
			into.Input, into.Degree = binio.Grow(into.Input, Blocks(d, &into)), into.Degree[:0]
			return errors.Join(d.Err(), into.Validate())
		}},
		{"bytes+s2", len(packed), func() (err error) {
			if form, err = s2.Decode(form[:cap(form)], packed); err != nil {
				return err
			}
			return Decode(form, &into)
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if err := c.decode(); err != nil {
					b.Fatal(err)
				}
			}
			took := b.Elapsed().Seconds() / float64(b.N)
			b.ReportMetric(float64(c.bytes), "bytes")
			b.ReportMetric(1e3*(took+float64(c.bytes)/1e9), "ms-at-1GB/s")
			b.ReportMetric(1e3*(took+float64(c.bytes)/3e9), "ms-at-3GB/s")
		})
	}
}

// arraysOf lists the arrays that a batch's byte form has.
func arraysOf(b *graph.Batch) [][]uint32 {
	all := [][]uint32{b.Input, b.Degree}
	for i := range b.Blocks {
		k := &b.Blocks[i]
		counts := make([]uint32, k.NumDst)
		for d := range counts {
			counts[d] = k.Indptr[d+1] - k.Indptr[d]
		}
		all = append(all, counts, k.Indices)
	}
	return all
}

func encodePlain(arrays [][]uint32) (b []byte) {
	for _, a := range arrays {
		b = append(b, binio.Bytes(a)...)
	}
	return b
}

func decodePlain(out []uint32, b []byte, arrays [][]uint32) []uint32 {
	for _, a := range arrays {
		out = append(out, binio.View[uint32](b[:4*len(a)])...)
		b = b[4*len(a):]
	}
	return out
}

func appendBits(dst []byte, b *graph.Batch) []byte {
	return AppendList(AppendList(AppendBlocks(dst, b), b.Input, nil), b.Degree, nil)
}

func decodeBits(src []byte, b *graph.Batch) error {
	d := binio.NewDecoder(src)
	n := Blocks(d, b)
	b.Input, b.Degree = List(d, b.Input, n), List(d, b.Degree, n)
	return errors.Join(d.Err(), b.Validate())
}
