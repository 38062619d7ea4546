// Package drives simulates training on drives that are not at hand: the gain of one, two or four drives,
// the bound of an epoch, and the number of drives that a GPU can use.
//
//	Workload ── Plan ──► []Load ── Run ──► Result      events in virtual time
//	                        └───── Estimate ──► Time   a formula, without events
//
// A Workload is a trace: the rows of each mini-batch, or recorded reads. Plan computes the reads of a
// store with its caches, in bytes, without times. Run simulates the loads on a Machine: threads submit
// requests, each drive serves its requests one after another and adds its latency, the host assembles, the
// GPU's link carries the bytes, the GPU computes. Estimate is the bound by the busiest of these parts,
// without queueing. Prices compares machines by throughput per cost.
//
// # Stores
//
//	memory    no reads; all rows cross the link
//	rows      one read per row, rounded to pages; the hottest rows in RAM
//	packed    the rows of a batch that are not among the hottest, in reads of 1 MiB at most
//	mmap      page faults: the page cache is LRU, a thread has one fault at a time
//	gids      the GPU reads pages of 4 KiB; its cache evicts pages in turn, except pages that
//	          one of the next batches needs (window); the hottest rows are in RAM and cross
//	          the link (constant CPU buffer)
//	recorded  the reads of a recorded trace, in the order and sizes of its storage stack
//
// Accumulate merges small batches, as GIDS's accumulator does.
//
// The formulas come from the stores' papers and from this program. Reads of the graphs of batches, which
// all stores need, are left out, except in recorded traces.
//
// # Time
//
// A request occupies a thread for the software's cost, and waits while the drive's queue is full. The
// drive serves it for 1/requests_per_second or size/bytes_per_second, whichever is longer. It arrives
// after a further delay: the latency of a read of 4 KiB without its service time. Drives are chosen by
// hash for rows and pages, in turn for large reads. The GPU's own reads cross its link request by request;
// the host's reads cross it batch by batch, when the whole batch is assembled. All links process batches
// in order; a batch may submit requests when the previous batch has submitted all of its requests. With
// one slot, nothing overlaps: a batch is sampled, read and computed before the next begins.
package drives
