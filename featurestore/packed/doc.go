// Package packed is the store that reads PACK directories, which have every mini-batch's rows ready. A
// batch's feature matrix is assembled from levels:
//
//	hot     rows of the lowest ranks, loaded once from hot.bin into RAM or the GPU's memory
//	chunk   the batch's own rows, one sequential prefix of its chunk
//	shared  rows that batches of a segment share (the SSD level), read as runs of pages
//	belady  policy min: a cache that every batch changes, and its chunks
//	        evaluation: rows of validation and test batches, from eval.bin and hot.bin
//
// Each level claims rows of the matrix, reads them and brings them to their places; the hot level has
// those that no other one claims. A sink says where the places are:
//
//	host    widens rows into a float32 matrix
//	gpu     holds a table of rows on the device and in RAM, copies rows from disk to the
//	        device as they are packed, and gathers both there
//
// The levels and the sink are chosen once, by compose, out of the pack and the layout. Plan composes a
// store for every cache that the pack was cut for, without opening it, to count its memory; Open
// composes it again and takes the memory.
//
// A slot takes a batch, of training or of evaluation, through four steps, each of which a pipeline may
// run for another slot at the same time:
//
//	Start      submit the reads of the graph and of the chunk; returns at once
//	LoadGraph  the graph has landed: check and decode it, submit the first reads that
//	           follow from it
//	Wait       the bytes have landed; pages were checked, and their rows are in place
//	Assemble   check the chunk, convert its rows, take the rows that memory holds
//
// # From the bottom up
//
//	files.go                     the pack's open files and page checksums
//	codec.go copy.go memory.go   pieces of chunks to rows, goroutines that copy, buffers
//	batch.go level.go sink.go    the batch in a slot, and the interfaces of levels and sinks
//	graphs.go pages.go hotfile.go  reading graphs, runs of pages, hot.bin
//	host.go gputable.go gpu.go gpucache.go  the sinks
//	chunk.go direct.go late.go shared.go belady.go refill.go evaluation.go  the levels
//	layout.go slot.go store.go plan.go  layouts, slots, composition, plans
//
// A float32 chunk lands in the front of the host's matrix itself; rows of another type and compressed
// ones land in the slot's own memory and are decompressed and widened on assembly, by several
// goroutines. For a GPU, chunks land in the registered memory that rows are copied from, or, where
// reads can land in the device's memory (iostack.Caps.Device), there, and are checked there; only rows
// read as runs of pages are copied by the CPU. Where the stack lets the GPU read by itself
// (iostack.DeviceStack), it submits the reads of a chunk when its batch begins and completes them when
// the matrix is made.
//
// Under policy min the plan of every batch says which entries of the cache its hits lie in, and which
// of its cold rows then go to which entries. The host's sink does so on assembly. For a GPU, Fill
// submits it to the stream of gathers: a kernel puts admitted rows into the table, on the device or in
// RAM, after the gather of the batch's rows and before the next batch's.
//
// The plain reference is a direct gather from the dataset; every backend, cache size and element type
// must give the same bytes, on the GPU too.
package packed
