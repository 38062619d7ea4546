// Package packfile is the PACK directory: every training batch's features laid out on disk in the order
// in which they will be read, and the batches' graphs renumbered to match. It is self-contained:
// training and sampled evaluation need neither the dataset nor the samples.
//
// # Offline renumbering
//
// Nodes are ranked by hotness: rank 0 is touched by most training batches, ties go to the lower node
// id. Edges e0 > e1 > … > eB-1 cut the ranks into bands:
//
//	rank   0 ────────── eB-1 ─────── … ─────── e1 ─────── e0 ────────── nodes
//	       │ always hot  │ band B-1  │         │  band 1   │   band 0      │
//	       └──────────────── hot.bin ──────────────────────┘
//
// A training batch's input nodes, and so the rows of its feature matrix, are ordered
//
//	[ band 0 | band 1 | … | band B-1 | hot by descending rank ]
//	 └──────── cold chunk ──────────┘ └─ rank < eB-1 ─────────┘
//
// ascending by node id inside a band. A trainer that holds the ranks below edge ej in memory reads the
// chunk's bands 0…j, one sequential prefix, straight into the front of the matrix, and copies the other
// rows out of its memory. So a pack serves one cache size for each of its edges.
//
// # Segments
//
// Under a disk budget, batches are taken together in segments of equal length. A row above the lowest
// edge that several batches of a segment use lies once in the segment's part of the SSD level, and in
// no chunk; the others stay in the chunk of their only batch. The matrix is then ordered
//
//	[ cold band 0 … cold band B-1 | ssd band 0 … ssd band B-1 | hot by descending rank ]
//
// Each band of a segment's part is ordered by the batches that use a row, so that rows of the same
// batches share pages: a batch reads its rows there, ascending by place, as runs of pages. With
// segments of one batch there is no SSD level.
//
// # Policy min
//
// The order of batches is known. So a cache, of a size fixed by the pack, can hold the rows that are needed
// soonest at any time: Belady's MIN. Rows that are needed late pass by the cache. There is one edge, the
// number of the cache's entries, and two bands, of rows that are not in the cache when their batch comes:
//
//	[ band 0: passing by | band 1: admitted | hits by ascending entry ]
//
// ascending by node id in each band. Once the hits are copied out, the admitted rows go to the entries that
// the batch's plan names. hot.bin holds the rows of the entries before batch 0, ascending by rank. The
// trace is a circle: after the last batch the entries contain the same rows in another order, and a trainer
// that continues with batch 0 moves them back. Evaluation does not touch the entries: all its rows are in
// eval.bin.
//
// # Evaluation
//
// Validation and test batches are one segment of their own. Their rows with a rank below e0 are read
// from hot.bin (never under min), all others from eval.bin, where each distinct row lies once. Their
// matrix is ordered
//
//	[ eval rows by ascending place | hot by descending rank ]
//
// With chunks of evaluation (the parameter eval_chunks), a validation batch has a chunk too: the rows of its
// matrix that are not always hot, in the order of the matrix. Ranks of hot.bin descend there, so a trainer
// that holds ranks below some rank in memory reads a shorter prefix, for any rank. eval.bin stays: test
// batches use it, and so do trainers that hold rows for evaluation.
//
// # Rows
//
// A row is its elements in the pack's dtype. A row of int8 is a float32 scale, dim signed bytes q, and
// zeros up to a multiple of four bytes: element = scale · q.
//
// A row of int4 has groups of 32 elements, of which the last may be shorter. It is a float16 scale of each group, zeros up to a
// multiple of four bytes, ⌈dim/2⌉ bytes of signed 4-bit numbers q, and zeros up to a multiple of four bytes: element = scale · q.
// Element i has the low half of byte i/2 if i is even, else the high half. Scales come first, so that elements begin
// on four bytes and have no gaps: a thread of a GPU and a vector of a processor load theirs at once.
// Programs from before int4 refuse a pack of it as damaged, and name its dtype.
//
// # Files
//
// G counts groups of training batches: the fewest whole segments that make 64 batches or more.
//
//	hot.bin          rows of ranks (min: entries) 0 … hot rows-1, no padding
//	eval.bin         rows of the evaluation segment, by ascending node id
//	eval-cold.bin    chunks of the validation batches, each starting on a page, if they have chunks
//	cold-GGGGG.bin   cold chunks of the group's batches, each starting on a page
//	ssd-GGGGG.bin    SSD level of the group's segments, each starting on a page
//	graph-GGGGG.bin  graphs of the group's batches, each starting on a page
//	eval-graph.bin   graphs of the validation batches, then the test batches
//	refill.bin       min: the contents of the entries after every 64th batch, and the last
//	hot.sums         CRC-32C of every page of hot.bin; likewise eval.sums,
//	                 eval-cold.sums, ssd-GGGGG.sums and refill.sums
//	index.bin        where everything lies, and the checksums of chunks and graphs
//	meta.json        parameters, counts, the parents' fingerprints
//
// A page is 4096 bytes; gaps are zero.
//
// # Graphs
//
// The graph of a training batch has sections, each with a checksum in the index. A model needs a run of them:
//
//	┌─ GCN ────────────────────────────────────────────────┐
//	│         ┌─ GraphSAGE, bands 2 … B-1 in memory ─┐     │   ranks of all rows (ids of nodes)
//	degrees | blocks, plan | hot | band B-1 | … | band 2 | band 1 | band 0
//
// Section degrees has the in-degrees of the input nodes. Section blocks has the blocks and labels
// (batchcodec.AppendBlocks), and then the lists of the plan (Plan). Section hot has the ranks of the rows that are always
// in memory, under min of the hits. Section band k has the ranks of the rows of cold band k, and then of ssd band k.
// Degrees, ranks and plans are lists (batchcodec.AppendList) in the order of the rows.
//
// The graph of an evaluation batch has two sections: degrees and blocks. Section blocks begins with two lists of input
// nodes. The first list has the nodes with rows in eval.bin, each as hot rows + its place there. The second has the
// ranks of the nodes with a rank below hot rows; under min it is empty.
//
// refill.bin holds, for every group of RefillBatches batches, of which the last may be shorter, a record of
// one pair (u32 batch, u32 row of its matrix) per entry: the origin of the entry's row for a trainer that
// resumes after the group. Batch 2³²-1 stands for a row of hot.bin: the row of the entry itself, except in
// the last record, where all rows are of hot.bin. Batches are numbered through the whole pack.
//
// # Chunks
//
// Each band is cut into pieces by itself, so that no piece crosses an edge. Without compression the rows
// follow each other, and a piece, of at most 256 KiB, is only the range of one checksum. With compression,
// a piece is the whole rows that fit in 1 MiB, at least one, compressed by itself and starting on a page;
// its checksum covers the compressed bytes. A piece is stored uncompressed unless compression saves a page.
//
// # index.bin
//
// Little-endian, no padding.
//
//	char[8] "DGNNPIX4"; with chunks of evaluation "DGNNPIX5"
//	u32     training batches T   u32 validation batches V   u32 test batches W
//	u32     segments S (0 without an SSD level)
//	u32     bands B   u32 edges E (B under static, 1 under min)
//	u64[E]  edges e0 … eE-1, in ranks
//	T ×     u32 input nodes  u32 seed nodes  u32 edges
//	        u32[B] rows of each cold band
//	        u32[B] rows of each ssd band
//	        u64 offset of the chunk in its file  u64 its bytes there
//	        u64 offset of the graph in its file
//	        3 + B times: u32 bytes of a section  u32 its CRC-32C
//	S ×     u64 offset in its file  u32 rows
//	V+W ×   u32 input nodes  u32 seed nodes  u32 edges  u32 eval rows
//	        with chunks of evaluation, zeros for test batches:
//	        u32 rows of the chunk  u64 offset of the chunk in eval-cold.bin
//	        u64 offset in eval-graph.bin
//	        twice: u32 bytes of a section  u32 its CRC-32C
//	u64     number of pieces of all chunks
//	u32[]   CRC-32C of each, in order
//	u32[]   with compression: bytes of each; bit 31: it is stored uncompressed
//	u32     CRC-32C of all the above
//
// The parts of a file (chunks, graphs, segments) follow each other. Each begins at the first page after the
// part before, and a file ends with the last page of its last part. Counts of 32 bits are less than 2³² in
// every pack: samples with a batch of more edges or graph bytes are refused. There are at most 2²⁶ batches,
// and index.bin has at most 16 GiB.
//
// # Shards
//
// A shard of a PACK directory, format "diskgnn.pack-shard", has the files of a run of whole groups, and the
// first shard all files that are not numbered. Its index has entries for all batches and segments of the
// whole; the entries of other shards are zeros, and so are the entries of evaluation in all shards but the
// first. The facts cold_rows, ssd_rows, chunk_bytes and graph_bytes are of the shard. Merge assembles the
// whole from all shards: the same files, one index, and the sums or maxima of those facts.
//
// # Slices
//
// A slice of a pack has all files of the pack with their lengths, its meta.json, and so its fingerprint. Of
// cold-GGGGG.bin, graph-GGGGG.bin and ssd-GGGGG.bin it has only the bytes that one rank of a training reads
// (Share), and zeros elsewhere. slice.json, which meta.json does not list, has the rank (Slice), the
// fingerprint of the pack, and its own checksum.
//
// # Versions
//
// The version in meta.json rises with any change of the bytes, and a reader keeps the decoders of all
// versions that a landed program wrote (versions). Version 1 is older than these, and refused: such a pack
// must be made again. In versions 2 to 5, a graph has one section: the form of batchcodec.Append and, for training, the
// lists of the plan as uint32. Their indexes have one section in each entry, and begin with "DGNNPIX2", or with
// "DGNNPIX3" if there are chunks of evaluation. Versions 3, 5 and 7 are for multi-label graphs, where every batch has
// Targets of target_bytes (a fact) bytes per seed node. Versions 4 and 5 have chunks of evaluation, 2 and 3 do
// not, and later ones may. Version 8 is for typed graphs, with Targets or without: batches are typed, and have no
// degrees; the facts have the types and the type of the seed nodes; nodes are rows of features.
package packfile

import (
	"fmt"

	"diskgnn/internal/stage"
)

// Format is the directory format of new packs. MultiLabelFormat is its version for batches with Targets, TypedFormat
// for typed graphs.
var (
	Format           = stage.Format{Name: "diskgnn.pack", Version: 6}
	MultiLabelFormat = stage.Format{Name: Format.Name, Version: 7}
	TypedFormat      = stage.Format{Name: Format.Name, Version: 8}
)

// FormatFor returns the format of a pack with the facts.
func FormatFor(f *Facts) stage.Format {
	switch {
	case f.Types != nil:
		return TypedFormat
	case f.MultiLabel():
		return MultiLabelFormat
	}
	return Format
}

// version has the properties of a version of the format: whether batches have Targets, whether graphs are bytewise, and,
// if so, whether validation batches have chunks. Batches of a typed graph may have Targets.
type version struct{ targets, bytewise, evalChunks, typed bool }

var versions = stage.Versions[version]{
	2:                        {bytewise: true},
	3:                        {bytewise: true, targets: true},
	4:                        {bytewise: true, evalChunks: true},
	5:                        {bytewise: true, evalChunks: true, targets: true},
	Format.Version:           {},
	MultiLabelFormat.Version: {targets: true},
	TypedFormat.Version:      {typed: true},
}

// Formats returns the formats of all packs that this program reads.
func Formats() []stage.Format { return versions.Formats(Format.Name) }

// Older returns the version that came before FormatFor(f), for packs with or without chunks of validation batches; 0 if
// there was none.
func Older(f *Facts, evalChunks bool) int {
	for n, v := range versions {
		if v == (version{targets: f.MultiLabel(), bytewise: true, evalChunks: evalChunks}) && f.Types == nil {
			return n
		}
	}
	return 0
}

const (
	// groupBatches is the least number of training batches in a group's files.
	groupBatches = 64
	// RefillBatches is the number of batches between two refill records.
	RefillBatches = 64
	// MaxGap is the largest gap, in pages, that one read of scattered rows includes to reach the next row:
	// reading such a gap is cheaper than another request. On a drive of 1.1 GB/s and 95,000 requests/s an
	// epoch of segments of 31 batches took 10.4, 8.1, 8.1 and 8.6 s with 0, 2, 5 and 16; faster drives
	// favour smaller gaps. It is not part of the format.
	MaxGap = 4
	// ColdGranule is the size limit, in bytes, of a piece of an uncompressed chunk.
	ColdGranule = 256 << 10
	// FrameBytes is the size limit, in bytes, of a piece before its compression. A row that is larger is a
	// piece by itself.
	FrameBytes = 1 << 20
	// FrameStored is the bit in the length of a piece that is stored uncompressed.
	FrameStored = 1 << 31
	// RefillHot is the batch number, in a refill record, of entries with their rows in hot.bin.
	RefillHot = 1<<32 - 1
	// MaxBands is the largest number of bands that a reader accepts.
	MaxBands = 32
)

// Names of the files that are not numbered.
const (
	HotFile       = "hot.bin"
	HotSums       = "hot.sums"
	EvalFile      = "eval.bin"
	EvalSums      = "eval.sums"
	EvalColdFile  = "eval-cold.bin"
	EvalColdSums  = "eval-cold.sums"
	EvalGraphFile = "eval-graph.bin"
	RefillFile    = "refill.bin"
	RefillSums    = "refill.sums"
	IndexFile     = "index.bin"
)

// The policies of the cache.
const (
	PolicyStatic = "static" // the most used rows, always
	PolicyMin    = "min"    // the rows needed soonest
)

// The codecs of chunks.
const (
	CodecNone = "none"
	CodecS2   = "s2"
	CodecZstd = "zstd"
)

// GroupBatches returns the number of training batches in one group of files, for
// segments of the given number of batches.
func GroupBatches(segment int) int {
	return (groupBatches + segment - 1) / segment * segment
}

// ColdFile names the file of a group's chunks.
func ColdFile(group int) string { return fmt.Sprintf("cold-%05d.bin", group) }

// GraphFile names the file of a group's graphs.
func GraphFile(group int) string { return fmt.Sprintf("graph-%05d.bin", group) }

// SSDFile names the file of the SSD level of a group's segments.
func SSDFile(group int) string { return fmt.Sprintf("ssd-%05d.bin", group) }

// SSDSums names the table of checksums of SSDFile.
func SSDSums(group int) string { return fmt.Sprintf("ssd-%05d.sums", group) }
