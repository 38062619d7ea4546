// Package packfile is the PACK directory: every training batch's features laid
// out on disk in the order in which they will be read, and the batches' graphs
// renumbered to match. It is self-contained: training and sampled evaluation
// need neither the dataset nor the samples.
//
// # Offline renumbering
//
// Nodes are ranked by hotness: rank 0 is touched by most training batches, ties
// go to the lower node id. Edges e0 > e1 > … > eB-1 cut the ranks into bands:
//
//	rank   0 ────────── eB-1 ─────── … ─────── e1 ─────── e0 ────────── nodes
//	       │ always hot  │ band B-1  │         │  band 1   │   band 0      │
//	       └──────────────── hot.bin ──────────────────────┘
//
// A training batch's input nodes, and so the rows of its feature matrix, are
// ordered
//
//	[ band 0 | band 1 | … | band B-1 | hot by descending rank ]
//	 └──────── cold chunk ──────────┘ └─ rank < eB-1 ─────────┘
//
// ascending by node id inside a band. A trainer that holds the ranks below edge
// ej in memory reads the chunk's bands 0…j, one sequential prefix, straight into
// the front of the matrix, and copies the other rows out of its memory. One
// pack so serves as many cache sizes as it has edges. (Between the cold rows and
// the hot ones there is room for rows shared by a segment of batches, which this
// version never writes: ssd rows are 0.)
//
// Validation and test batches are one segment of their own. Their rows with a
// rank below e0 are read from hot.bin, all others from eval.bin, where each
// distinct row lies once. Their matrix is ordered
//
//	[ eval rows by ascending slot | hot by descending rank ]
//
// # Files
//
//	hot.bin          rows of ranks 0 … hot rows-1, row bytes each, no padding
//	eval.bin         rows of the evaluation segment, by ascending node id
//	cold-GGGGG.bin   cold chunks of training batches 64·G … 64·G+63, each
//	                 starting on a page
//	graph-GGGGG.bin  graphs of the same batches (graph/batchcodec), each starting
//	                 on a page; an input node is named by its rank
//	eval-graph.bin   graphs of the validation batches, then the test batches; an
//	                 input node is named by its rank if that is below hot rows,
//	                 else by hot rows + its slot in eval.bin
//	hot.sums         CRC-32C of every page of hot.bin
//	eval.sums        CRC-32C of every page of eval.bin
//	index.bin        where everything lies, and the checksums of chunks and graphs
//	meta.json        parameters, counts, the parents' fingerprints
//
// A page is 4096 bytes; gaps are zero. Rows are of the pack's dtype.
//
// # index.bin
//
// Little-endian, no padding.
//
//	char[8] "DGNNPIX1"
//	u32     training batches T   u32 validation batches V   u32 test batches W
//	u32     bands B
//	u64[B]  band edges e0 … eB-1, in ranks
//	T ×     u32 input nodes  u32 seed nodes  u32 edges
//	        u32[B] rows of each band
//	        u32 ssd rows (0)
//	        u64 offset of the chunk in its file
//	        u64 offset of the graph in its file  u32 its bytes  u32 its CRC-32C
//	V+W ×   u32 input nodes  u32 seed nodes  u32 edges  u32 eval rows
//	        u64 offset in eval-graph.bin  u32 bytes  u32 CRC-32C
//	u64     number of chunk checksums
//	u32[]   CRC-32C of every 256 KiB of every band of every chunk, in order; a
//	        range starts anew at each band, so that it never straddles an edge
//	u32     CRC-32C of all the above
//
// # Versions
//
// The version in meta.json rises with any change of the bytes; a reader accepts
// its own version only. Packs are made again rather than converted.
package packfile

import "diskgnn/internal/stage"

// Format names the directory format.
var Format = stage.Format{Name: "diskgnn.pack", Version: 1}

const (
	// GroupBatches is the number of training batches in one cold and one graph file.
	GroupBatches = 64
	// ColdGranule is the most bytes of a chunk under one checksum.
	ColdGranule = 256 << 10

	indexMagic = "DGNNPIX1"
	// MaxBands bounds what a reader accepts.
	MaxBands = 32
)

// Names of the files that are not numbered.
const (
	HotFile       = "hot.bin"
	HotSums       = "hot.sums"
	EvalFile      = "eval.bin"
	EvalSums      = "eval.sums"
	EvalGraphFile = "eval-graph.bin"
	IndexFile     = "index.bin"
)
