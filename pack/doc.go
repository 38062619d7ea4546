// Package pack lays each mini-batch's features out on disk in the order in which they will be read.
//
// A Packing first decides (Decide, package cut) and then writes (Write), in two passes. The first pass
// reads the samples: it renumbers every batch (see packfile for the order), writes its graph, and lists
// the nodes of the rows in its chunk. The second, batched packing, reads the feature table once,
// sequentially, cut into row ranges that fit the memory budget; while a range is in memory, every
// batch's rows of that range are gathered and written at their known offsets:
//
//	              features.bin, read once
//	              ├─ range 0 ─┼─ range 1 ─┼─ range 2 ─┤
//	chunk of       ┌──┬───┬──┐
//	batch 7, a     │r0│ r1│r2│   ascending by node id, so each range adds one
//	band           └──┴───┴──┘   contiguous piece to each band of each chunk
//
// If rows are shared to keep within a disk budget, the first pass finds the rows that each segment's
// batches share ahead of their renumbering, and the second writes those rows to the SSD level. With
// compression, the second pass leaves the chunks in scratch files, and a third compresses them, group
// by group.
//
// Memory is planned before the passes begin. It holds, per node, 4 bytes of rank and 1.5 bits of
// evaluation set, and 8 bytes more for each segment under way in the first pass; and per batch the
// index and the checksums, one for each 256 KiB of chunks and for each page of other rows (memory.go
// calls these the books). The lists of rows are scratch files that are mapped. The range buffers take
// the rest of the budget. Nothing grows with the number of edges, or with nodes × dim.
//
// An interrupted run leaves the first pass, in the journal and index.tmp, and the ranges that were made
// durable, in ranges.tmp: the first node that is not packed, the checksums of the bytes written before
// it, and one checksum for each file of the SSD level. The next run reads graphs, chunks and shared
// rows once and compares them with these checksums, which were computed of the bytes in memory when
// they were written. It writes hot rows and evaluation rows again.
//
// A shard packs some groups of batches, and the first shard also the parts that the pack has once: hot
// rows, evaluation, refill records. Every shard decides for itself, from all samples, and reads the
// whole feature table.
//
// The plain reference of both passes is a direct gather: row i of a batch's matrix is the dataset's row
// of the node that the i-th input node names. The tests hold every batch of every pack against it, byte
// for byte.
package pack
