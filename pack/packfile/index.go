package packfile

import (
	"encoding/binary"
	"fmt"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
)

// Params are the content parameters of a pack.
type Params struct {
	CacheRows int64      `json:"cache_rows"` // least hot set: what every trainer must hold
	Bands     []float64  `json:"bands"`      // wanted edges, in percent of the nodes
	DType     dtype.Type `json:"dtype"`
	Policy    string     `json:"policy"`
	Segment   int        `json:"segment"` // batches per segment; 1: no SSD level
}

// Facts are the counts that a trainer needs before it reads anything else.
type Facts struct {
	Nodes    int64      `json:"nodes"`
	Classes  int        `json:"classes"`
	Dim      int        `json:"dim"`
	DType    dtype.Type `json:"dtype"`
	RowBytes int        `json:"row_bytes"`
	Metric   string     `json:"metric,omitempty"` // how the dataset is usually judged

	HotRows  int64 `json:"hot_rows"`
	EvalRows int64 `json:"eval_rows"`
	SSDRows  int64 `json:"ssd_rows"`
	ColdRows int64 `json:"cold_rows"`

	Train           int `json:"train_batches"`
	Valid           int `json:"valid_batches"`
	Test            int `json:"test_batches"`
	Epochs          int `json:"epochs"`
	BatchesPerEpoch int `json:"batches_per_epoch"`

	Fanout     []int `json:"fanout"`
	EvalFanout []int `json:"eval_fanout"`

	TrainSizes graph.Sizes `json:"train_sizes"` // most of each, over training batches
	EvalSizes  graph.Sizes `json:"eval_sizes"`
	TrainMeans graph.Sizes `json:"train_means"` // rounded means, over training batches

	ChunkBytes int64 `json:"chunk_bytes"` // of the largest cold chunk
	GraphBytes int64 `json:"graph_bytes"` // of the largest graph, evaluation included
}

// Train locates one training batch.
type Train struct {
	Inputs, Seeds, Edges int
	Bands                []int // rows of each band, coldest first
	SSD                  int
	ChunkOffset          int64
	GraphOffset          int64
	GraphBytes           int
	GraphCRC             uint32
	// Sums are the chunk's checksums, band by band.
	Sums []uint32
}

// Group returns the number of the files that hold training batch i.
func Group(i int) int { return i / GroupBatches }

// ColdFile names the file of a group's chunks.
func ColdFile(group int) string { return fmt.Sprintf("cold-%05d.bin", group) }

// GraphFile names the file of a group's graphs.
func GraphFile(group int) string { return fmt.Sprintf("graph-%05d.bin", group) }

// ColdRows returns the rows of the bands 0 … through, all of them for the last.
func (t *Train) ColdRows(through int) int {
	n := 0
	for _, r := range t.Bands[:through+1] {
		n += r
	}
	return n
}

// Hot returns the rows below the lowest edge.
func (t *Train) Hot() int { return t.Inputs - t.SSD - t.ColdRows(len(t.Bands)-1) }

// sumsOf returns the number of checksums of a chunk.
func sumsOf(bands []int, rowBytes int) int {
	n := 0
	for _, rows := range bands {
		n += int((int64(rows)*int64(rowBytes) + ColdGranule - 1) / ColdGranule)
	}
	return n
}

// NumSums returns the number of checksums of a chunk with the given bands.
func NumSums(bands []int, rowBytes int) int { return sumsOf(bands, rowBytes) }

// VerifyChunk checks b, which holds the chunk's bands 0 … through from its first
// byte, against the checksums. name is the file's, for the error.
func (t *Train) VerifyChunk(name string, b []byte, through, rowBytes int) error {
	sums := t.Sums
	off := int64(0)
	for _, rows := range t.Bands[:through+1] {
		for left := int64(rows) * int64(rowBytes); left > 0; {
			n := min(left, ColdGranule)
			if binio.CRC(b[off:off+n]) != sums[0] {
				return binio.BadRange(name, t.ChunkOffset+off, n)
			}
			sums = sums[1:]
			off, left = off+n, left-n
		}
	}
	return nil
}

// Eval locates one validation or test batch.
type Eval struct {
	Inputs, Seeds, Edges int
	Rows                 int // rows that lie in eval.bin, first in the matrix
	GraphOffset          int64
	GraphBytes           int
	GraphCRC             uint32
}

// Index is the content of index.bin.
type Index struct {
	Edges []int64 // band edges in ranks, descending
	Train []Train
	Valid []Eval
	Test  []Eval
}

// Encode returns the index as it lies on disk.
func (x *Index) Encode() []byte {
	le := binary.LittleEndian
	b := append([]byte(nil), indexMagic...)
	for _, n := range []int{len(x.Train), len(x.Valid), len(x.Test), len(x.Edges)} {
		b = le.AppendUint32(b, uint32(n))
	}
	for _, e := range x.Edges {
		b = le.AppendUint64(b, uint64(e))
	}
	sums := 0
	for i := range x.Train {
		t := &x.Train[i]
		for _, n := range []int{t.Inputs, t.Seeds, t.Edges} {
			b = le.AppendUint32(b, uint32(n))
		}
		for _, n := range t.Bands {
			b = le.AppendUint32(b, uint32(n))
		}
		b = le.AppendUint32(b, uint32(t.SSD))
		b = le.AppendUint64(b, uint64(t.ChunkOffset))
		b = appendGraphRef(b, t.GraphOffset, t.GraphBytes, t.GraphCRC)
		sums += len(t.Sums)
	}
	for _, list := range [][]Eval{x.Valid, x.Test} {
		for i := range list {
			e := &list[i]
			for _, n := range []int{e.Inputs, e.Seeds, e.Edges, e.Rows} {
				b = le.AppendUint32(b, uint32(n))
			}
			b = appendGraphRef(b, e.GraphOffset, e.GraphBytes, e.GraphCRC)
		}
	}
	b = le.AppendUint64(b, uint64(sums))
	for i := range x.Train {
		b = append(b, binio.Bytes(x.Train[i].Sums)...)
	}
	return le.AppendUint32(b, binio.CRC(b))
}

func appendGraphRef(b []byte, off int64, size int, crc uint32) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(off))
	b = binary.LittleEndian.AppendUint32(b, uint32(size))
	return binary.LittleEndian.AppendUint32(b, crc)
}

// DecodeIndex reads what Encode wrote, for rows of rowBytes. Whatever the bytes,
// it returns a consistent index or an error of kind fault.ErrCorrupt.
func DecodeIndex(b []byte, rowBytes int) (*Index, error) {
	if len(b) < len(indexMagic)+4 || string(b[:len(indexMagic)]) != indexMagic {
		return nil, fault.New(fault.ErrCorrupt, "not a pack's index")
	}
	body := b[:len(b)-4]
	if binio.CRC(body) != binary.LittleEndian.Uint32(b[len(body):]) {
		return nil, fault.New(fault.ErrCorrupt, "does not match its own checksum")
	}
	d := binio.NewDecoder(body)
	d.Raw(len(indexMagic))
	train, valid, test, bands := d.Count(0), d.Count(0), d.Count(0), d.Count(8)
	if bands < 1 || bands > MaxBands {
		d.Fail("%d bands", bands)
		return nil, d.Err()
	}
	x := &Index{Edges: make([]int64, bands)}
	for i := range x.Edges {
		x.Edges[i] = int64(d.U64())
		if x.Edges[i] < 0 || i > 0 && x.Edges[i] >= x.Edges[i-1] {
			d.Fail("band edges do not descend")
		}
	}
	const trainFixed, evalFixed = 3*4 + 4 + 8 + 16, 4*4 + 16
	if train*(trainFixed+4*bands)+(valid+test)*evalFixed > d.Rest() {
		d.Fail("%d + %d + %d batches exceed the %d bytes left", train, valid, test, d.Rest())
	}
	if d.Err() != nil {
		return nil, d.Err()
	}
	x.Train, x.Valid, x.Test = make([]Train, train), make([]Eval, valid), make([]Eval, test)
	want := 0
	for i := range x.Train {
		decodeTrain(d, &x.Train[i], bands)
		want += sumsOf(x.Train[i].Bands, rowBytes)
	}
	for i := range x.Valid {
		decodeEval(d, &x.Valid[i])
	}
	for i := range x.Test {
		decodeEval(d, &x.Test[i])
	}
	if n := d.U64(); n != uint64(want) || d.Rest() != 4*want {
		d.Fail("%d chunk checksums in %d bytes, %d needed", n, d.Rest(), want)
		return nil, d.Err()
	}
	sums := make([]uint32, want)
	copy(binio.Bytes(sums), d.Raw(4*want))
	for i := range x.Train {
		n := sumsOf(x.Train[i].Bands, rowBytes)
		x.Train[i].Sums, sums = sums[:n:n], sums[n:]
	}
	return x, d.Err()
}

func decodeTrain(d *binio.Decoder, t *Train, bands int) {
	t.Inputs, t.Seeds, t.Edges = int(d.U32()), int(d.U32()), int(d.U32())
	t.Bands = make([]int, bands)
	for i := range t.Bands {
		t.Bands[i] = int(d.U32())
	}
	t.SSD = int(d.U32())
	t.ChunkOffset = int64(d.U64())
	t.GraphOffset, t.GraphBytes, t.GraphCRC = int64(d.U64()), int(d.U32()), d.U32()
	if t.ChunkOffset < 0 || t.ChunkOffset%binio.Page != 0 || t.GraphOffset < 0 || t.Hot() < 0 {
		d.Fail("inconsistent training batch")
	}
}

func decodeEval(d *binio.Decoder, e *Eval) {
	e.Inputs, e.Seeds, e.Edges, e.Rows = int(d.U32()), int(d.U32()), int(d.U32()), int(d.U32())
	e.GraphOffset, e.GraphBytes, e.GraphCRC = int64(d.U64()), int(d.U32()), d.U32()
	if e.GraphOffset < 0 || e.Rows > e.Inputs {
		d.Fail("inconsistent evaluation batch")
	}
}
