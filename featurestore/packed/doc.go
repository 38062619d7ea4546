// Package packed assembles the feature matrices of packed mini-batches
// from the levels that hold their rows:
//
//	GPU    rows of the lowest ranks, loaded once from hot.bin
//	RAM    those of the next ranks, likewise
//	cold   the batch's other rows, one sequential prefix of its chunk
//	ssd    rows that batches of a segment share, read as runs of pages
//	eval   rows of validation and test batches, read from eval.bin and hot.bin
//
// A training batch goes through four steps, each of which a pipeline may run for
// another slot at the same time:
//
//	Start      submit the reads of the graph and of the chunk; returns at once
//	LoadGraph  the graph has landed: check and decode it, submit the first reads of the SSD level
//	Wait       the bytes have landed, those of the SSD level checked and in the matrix
//	Assemble   check them, convert, copy the rows that RAM holds
//
// A float32 chunk lands in the front of the matrix itself; rows of another type and
// compressed ones land in the slot's wire buffer and are decompressed and widened on
// assembly, by several goroutines. Either way the matrix is filled by writes to adjacent
// ranges in input-node order; only rows of the SSD level are copied one by one, out of
// the pages that they share.
//
// For a GPU that computes on the matrices, Assemble prepares what Fill then asks the
// device for: rows from disk are copied as they are packed, from the registered slot
// that they landed in, and one kernel widens them and takes the others from the caches,
// those in RAM over the bus. The CPU copies no row but those of the SSD level and of
// evaluation. Where reads can land in the device's memory (iostack.Caps.Device), chunks
// that are not compressed do, and are checked there.
//
// Under policy min the cache is the pack's: every batch's plan says which slots its hits
// lie in, and which of its cold rows then go to which slots. Assemble follows it, batch by
// batch, around the circle of sample epochs; PreloadFor begins at any batch. There RAM
// holds the cache and the CPU assembles the matrix, also for a GPU.
//
// The plain reference is a direct gather from the dataset; every backend, cache
// size and element type must give the same bytes, on the GPU too.
package packed
