// Package mbfile is the container of sampled mini-batches: the SAMPLES directory, format
// "diskgnn.samples", version 1, version 2 of multi-label graphs, or version 3 of typed graphs.
//
//	SAMPLES/
//	  meta.json          a description: Params, Facts, parent dataset
//	  run.json           how it came to be; covered by no fingerprint
//	  batches-00000.bin  the byte forms of batches 0 … F-1, one after another
//	  batches-00001.bin  the byte forms of batches F … 2F-1
//	  …
//	  index.bin          where every batch lies, its checksum and its counts
//	  hotness.bin        u32[nodes]: training batches that read the node's features
//	  hotness.bin.sums   checksums of hotness.bin, per MiB (binio.Sums)
//
// # Order
//
// Batches are numbered from 0: the training batches, epoch after epoch in the order of the visits,
// then the validation batches, then the test batches. A batch has the byte form of package batchcodec.
// Its input nodes are node ids in the order of their discovery, so destinations are always the first
// sources; degrees are in-degrees in the whole graph. Every file has F batches, except that the last
// one may have fewer; shards have the same files. Byte forms follow each other without padding.
//
// Under the orders dispersed and sequential, all input nodes of a training batch are in the partitions
// that a buffer holds at that time. The partition of each node, and the content of the buffer, are
// functions of Params and of the dataset's training nodes, like the order of the batches: see
// sampler.Seeds, methods Partitions and State.
//
// # index.bin
//
// All numbers are little-endian; L is the number of layers.
//
//	offset  size
//	0       8        "DGNNSMP1"
//	8       4        u32 L
//	12      4        u32 F, batches per file
//	16      8        u64 N, batches
//	24      N × R    records, R = 8L + 24 bytes each:
//	          8        u64 offset in its file; the file's number is batch / F
//	          8        u64 size in bytes
//	          4        u32 CRC-32C of the byte form
//	          4(L+1)   u32 nodes: sources of layer 0 (the input nodes), of layer 1,
//	                   …, of layer L-1, and the seed nodes
//	          4L       u32 edges of layer 0, …, of layer L-1
//	24+NR   4        u32 CRC-32C of all that precedes it
//
// Layers are listed input side first, as everywhere.
//
// # Facts
//
// A reader checks Params, Facts and index.bin as a whole before it uses them. There are 1 to 64
// layers, each with a fanout, and at most 2²⁶ batches. The training batches are epochs × batches per
// epoch. Every record describes a batch that the parameters can give (seed nodes within the batch
// size, edges within the fanout, sources within destinations and edges), with a possible number of
// bytes for its counts. The summaries are the records' sums, maxima and rounded means. meta.json lists
// exactly these files, with these sizes. The hotness of a node is at most the number of training
// batches, and the sum over all nodes is the number of the training batches' input nodes.
//
// # Shards
//
// A shard of a SAMPLES directory, format "diskgnn.samples-shard", has successive whole files of
// batches, with their names in the whole directory: the i-th of n parts of all files, as equal as
// possible, which may be empty. Its index.bin has the records of its own batches, its hotness.bin
// counts its own training batches, its facts are its own, and first_file is the number of its first
// file. Merge makes the whole directory of all shards: the same files of batches, the records one
// after another, the sum of the hotness.
//
// # Checksums
//
// Every batch is checked against its CRC when it is read. In meta.json the checksum of a batches file
// is the SHA-256 of its batches' CRCs (u32, in order), the checksum of hotness.bin is its sums table's,
// and the checksums of index.bin and hotness.bin.sums are the SHA-256 of their bytes.
//
// # Versions
//
// In version 2 every batch has Targets, of target_bytes (a fact) bytes per seed node; nothing else
// differs. In version 3 batches are typed, with Targets or without; the facts have the types, the type of the seed
// nodes, and as nodes the number of rows of features. The input nodes of a batch are rows of features
// (graph.Types.FeatureRow), in the order of their types, within a type of their discovery. A record of index.bin ends
// with
//
//	4L       u32 rows of layer 0, …, of layer L-1
//
// so R = 12L + 24. Readers accept exactly these versions. Any change of the bytes raises the version; new
// fields in Params and Facts do not.
package mbfile
