package packfile

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"diskgnn/internal/binio"
)

// indexBytes is the index of the tests, byte for byte, as the package comment lays it out.
// The CRC-32C that ends it is left out.
const indexBytes = `
44474e4e50495834                   "DGNNPIX4"
02000000 01000000 00000000         2 training batches, 1 of validation, none of test
01000000                           1 segment
02000000 02000000                  2 bands, 2 edges
3200000000000000 0a00000000000000  edges 50 and 10

                                   training batch 0
09000000 02000000 09000000         9 input nodes, 2 seed nodes, 9 edges
03000000 01000000                  rows of the cold bands: 3, 1
01000000 01000000                  rows of the ssd bands: 1, 1
0000000000000000 801a060000000000  the chunk: at 0, 400,000 bytes
0000000000000000                   the graph: at 0
09000000 01000000 3c000000 02000000  degrees and blocks: bytes, CRC-32C
05000000 03000000                  hot
00000000 00000000 03000000 04000000  bands 1 and 0

                                   training batch 1
02000000 01000000 01000000         2 input nodes, 1 seed node, 1 edge
00000000 00000000                  no cold rows
00000000 00000000                  no rows of the ssd level
0020060000000000 0000000000000000  the chunk: at page 98, empty
0010000000000000                   the graph: at page 1
01000000 07000000 1e000000 08000000
02000000 09000000
00000000 00000000 00000000 00000000

0010000000000000 02000000          segment 0: at page 1 of its file, 2 rows

                                   validation batch 0
05000000 01000000 04000000         5 input nodes, 1 seed node, 4 edges
03000000                           3 rows of eval.bin
0000000000000000                   the graph: at 0
05000000 0a000000 2d000000 0b000000

0300000000000000                   3 pieces of chunks
0b000000 0c000000 0d000000         their CRC-32Cs
`

// bytewise changes the text to an index of versions 2 to 5, where a graph is one section.
var bytewise = strings.NewReplacer(
	"44474e4e50495834", "44474e4e50495832",
	"09000000 01000000 3c000000 02000000  degrees and blocks: bytes, CRC-32C\n05000000 03000000                  hot\n00000000 00000000 03000000 04000000  bands 1 and 0", "4d000000 01000000",
	"01000000 07000000 1e000000 08000000\n02000000 09000000\n00000000 00000000 00000000 00000000", "21000000 02000000",
	"05000000 0a000000 2d000000 0b000000", "32000000 03000000")

// framesBytes is what follows the segment and the validation batch where chunks are
// compressed: both tables of pieces.
const framesBytes = `
0200000000000000                   2 pieces of chunks
0b000000 0c000000                  their CRC-32Cs
88130000 a0860180                  their bytes: 5,000, and 100,000 that lie as they are
`

// unhex returns the bytes that a text's lines begin with.
func unhex(t *testing.T, text string) []byte {
	t.Helper()
	var b []byte
	for line := range strings.Lines(text) {
		for word := range strings.FieldsSeq(line[:min(len(line), 35)]) {
			v, err := hex.DecodeString(word)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			b = append(b, v...)
		}
	}
	return b
}

func TestIndexBytes(t *testing.T) {
	testIndexBytes(t, sample(), indexBytes)
	testIndexBytes(t, older(), bytewise.Replace(indexBytes))
	x, _ := compressed()
	frames := unhex(t, framesBytes)
	if b := encode(t, x); !bytes.Equal(b[len(b)-4-len(frames):len(b)-4], frames) {
		t.Errorf("\n%swant\n%s", hex.Dump(b[len(b)-4-len(frames):]), hex.Dump(frames))
	}
}

func testIndexBytes(t *testing.T, x *Index, text string) {
	t.Helper()
	want, got := unhex(t, text), encode(t, x)
	if body := got[:len(got)-4]; !bytes.Equal(body, want) {
		t.Errorf("\n%swant\n%s", hex.Dump(body), hex.Dump(want))
	}
	if crc := binary.LittleEndian.Uint32(got[len(got)-4:]); crc != binio.CRC(want) {
		t.Errorf("the last four bytes are %#x, want the CRC-32C %#x", crc, binio.CRC(want))
	}
}
