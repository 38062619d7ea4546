// Package pack lays each mini-batch's features out on disk in the order in which
// they will be read.
//
// It works in two passes. The first reads the samples: it ranks the nodes by
// hotness, renumbers every batch (see packfile for the order) and writes its
// graph, and notes which nodes' rows its chunk will hold. The second, batched
// packing, reads the feature table once, sequentially, in as many row ranges as
// the memory budget demands; while a range is in memory, every batch's rows of
// that range are gathered and written at their known offsets:
//
//	              features.bin, read once
//	              ├─ range 0 ─┼─ range 1 ─┼─ range 2 ─┤
//	chunk of       ┌──┬───┬──┐
//	batch 7, a     │r0│ r1│r2│   ascending by node id, so each range adds one
//	band           └──┴───┴──┘   contiguous piece to each band of each chunk
//
// Under a disk budget, a census of the samples comes first, and chooses the shortest
// segments with which the pack keeps within it; the first pass then finds what each
// segment's batches share, ahead of their renumbering, and the second writes those
// rows to the SSD level. Under policy min, the cache is simulated before the first
// pass, which so knows every batch's hits. With compression, the second pass leaves
// the chunks in scratch files, and a third compresses them, group by group.
//
// Nothing of size edges or nodes × dim is held: per node 4 bytes of rank (8 while
// ranking) and 1.5 bits of evaluation set; 8 bytes more in a census or for each
// segment under way, and 4.5 more in a simulation; and for every batch, 256 KiB of chunks
// and page of rows stored once the index and the checksums, which memory plans as the
// books. The row lists lie in a scratch file that is mapped; two range buffers take what
// the budget leaves.
//
// An interrupted run leaves the first pass, in the journal and index.tmp, and the ranges
// that were made durable, in ranges.tmp: up to which node, the checksums of what was
// written so far, and one number for each file of the SSD level. The next run reads what
// it keeps once, graphs, chunks and shared rows, and compares it with checksums that were
// made of the bytes in memory when they were written; hot rows and those of evaluation it
// writes again.
//
// A shard packs a run of the batches, and the first one what the pack has once: hot
// rows, evaluation, refill records. What decides the bytes each finds for itself, from
// all samples; each reads the whole feature table.
//
// The plain reference of both passes is a direct gather: row i of a batch's
// matrix is the dataset's row of the node that the i-th input node names. The
// tests hold every batch of every pack against it, byte for byte.
package pack
