// Package drives simulates training on drives that are not at hand: the gain of one, two or four of
// them, the bound of an epoch, and how many drives a GPU can use.
//
//	Workload ── Plan ──► []Load ── Run ──► Result      events in virtual time
//	                        └───── Estimate ──► Time   a formula, without events
//
// A Workload is a trace: the rows of each mini-batch, or reads that were recorded. Plan computes the reads of
// a store with its caches, in bytes, without times. Run plays the loads on a Machine: threads submit
// requests, each drive serves one after another and adds its latency, the host assembles, the GPU's link
// carries the bytes, the GPU computes. Estimate is the bound of the busiest of them; it leaves out queueing.
// Prices say which machine gives the most for the money.
//
// # Stores
//
//	memory    no reads; all rows cross the link
//	rows      one read per row, rounded to pages; the hottest rows in RAM
//	packed    a batch's rows that are not among the hottest, in reads of 1 MiB at most
//	mmap      page faults: the page cache is LRU, a thread has one fault at a time
//	gids      the GPU reads pages of 4 KiB; its cache evicts in turn, but no page that one of
//	          the next batches needs (window); the hottest rows lie in RAM and cross the
//	          link (constant CPU buffer)
//	recorded  the reads of a recorded trace, as its stack carried them out
//
// Accumulate merges small batches into one read, as GIDS's accumulator does.
//
// The formulas come from the stores' papers and from this program; the graphs of batches, which
// every store reads, are left out, but in recorded traces.
//
// # Time
//
// A request takes a thread for the software's cost, waits while the drive's queue is full, is served
// for 1/requests per second or bytes/bytes per second, whichever is longer, and comes back after the
// latency that a read of 4 KiB has beyond its service. Drives are chosen by hash for rows and pages,
// in turn for large reads. The GPU's own reads cross its link request by request; the host's reads
// cross it batch by batch, when the whole batch is assembled. Batches are in order everywhere; a batch
// may submit requests once the batch before it has submitted all of its own. With one slot, nothing
// overlaps: a batch is sampled, read and computed before the next begins.
package drives
