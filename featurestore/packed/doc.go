// Package packed is the store that reads PACK directories, with the rows of every mini-batch in order. A
// batch's feature matrix is assembled from levels:
//
//	hot     rows of the lowest ranks, loaded once from hot.bin into RAM or the GPU's memory
//	chunk   the batch's own rows, one sequential prefix of its chunk
//	shared  rows that batches of a segment share (the SSD level), read as runs of pages
//	belady  policy min: a cache that every batch changes, and its chunks
//	        evaluation: rows of validation and test batches, from eval.bin and hot.bin, or from the
//	        chunks of validation batches
//
// Each level claims rows of the matrix, reads them and puts them into their places. The hot level has the
// rows that no other level claims. A sink provides the places:
//
//	host    widens rows into a float32 matrix, without the rows that a consumer holds
//	gpu     holds a table of rows on the device and in RAM, copies rows from disk to the
//	        device in packed form, and gathers both there
//
// compose chooses the levels and the sink once, from the pack and the layout. Plan composes a store for
// every cache size of the pack, without opening it, to count its memory. Open composes it again and
// allocates the memory.
//
// A slot takes a batch through four steps. Each may run while other slots are at other steps:
//
//	Start      submit the reads of the graph and of the chunk; returns at once
//	LoadGraph  the graph has landed: check and decode it, submit the first reads that
//	           follow from it
//	Wait       the bytes have landed; pages were checked, and their rows are in place
//	Assemble   check the chunk, convert its rows, take the rows in memory
//
// # From the bottom up
//
//	files.go                     the pack's open files and page checksums
//	codec.go memory.go           pieces of chunks to rows, goroutines that copy, buffers
//	layout.go queuedreads.go hold.go  the layout: rows in memory, reads by the GPU, rows for evaluation
//	part.go batch.go level.go sink.go  the batch in a slot, and the interfaces of levels and sinks
//	graphs.go pages.go hotfile.go  reading graphs, runs of pages, hot.bin
//	chunk.go shared.go evaluation.go  the levels
//	host.go gputable.go gpu.go   the sinks; direct.go, queued.go: chunks that land on the GPU
//	gpucache.go refill.go belady.go  the cache of policy min
//	consumer.go                  rows that a consumer of the batches holds
//	slot.go store.go plan.go seam.go  slots, composition, plans
//
// On the host, a float32 chunk lands at the beginning of the matrix. Other chunks land in the slot's own
// memory; Assemble decompresses and widens them on several goroutines. For a GPU, chunks land in
// registered host memory and are copied to the device. If reads can land in device memory
// (iostack.Caps.Device), chunks land there, and the device computes their checksums. The CPU copies only
// rows that are read as runs of pages. If the stack allows it (iostack.DeviceStack), the GPU submits the
// reads of a chunk when its batch begins, and completes them when the matrix is made.
//
// Under policy min, the plan of every batch has the entries of its hits, and the entries that take some of
// its cold rows afterwards. The host's sink copies these rows in Assemble. For a GPU, Fill submits a
// kernel to the stream of gathers, which copies admitted rows into the table, on the device or in RAM,
// after the gather of the batch and before the gather of the next one.
//
// The plain reference is a direct gather from the dataset; every backend, cache size and element type
// must give the same bytes, on the GPU too.
package packed
