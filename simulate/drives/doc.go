// Package drives simulates training on drives that one does not have: what one, two or four
// of them would bring, what bounds an epoch, and how many a GPU can use.
//
//	Workload ── Plan ──► []Load ── Run ──► Result      events in virtual time
//	                        └───── Estimate ──► Time   a formula, without events
//
// A Workload is a trace: the rows of each mini-batch, or reads that were recorded. Plan says
// what a store reads of it, given its caches: it knows of bytes, not of time. Run plays the
// loads on a Machine: threads submit requests, each drive serves one after another and adds
// its latency, the host assembles, the GPU's link carries what arrives, the GPU computes. Estimate is the bound
// that the busiest of them gives; what it leaves out is queueing. Prices say which machine gives
// the most for the money.
//
// # Stores
//
//	memory    no reads; all rows cross the link
//	rows      one read per row, rounded to pages; the hottest rows in RAM
//	packed    a batch's rows that are not among the hottest, in reads of 1 MiB at most
//	mmap      page faults: the page cache is LRU, a thread has one fault at a time
//	gids      the GPU reads pages of 4 KiB; its cache evicts in turn, but not what one of
//	          the next batches needs (window); the hottest rows lie in RAM and cross the
//	          link (constant CPU buffer)
//	recorded  the reads of a recorded trace, as its stack carried them out
//
// Accumulate merges small batches into one read, as GIDS's accumulator does.
//
// The formulas are those of the stores' papers and of this program's own; the graphs of
// batches, which every store reads, are left out, but in recorded traces.
//
// # Time
//
// A request takes a thread for the software's cost, waits while the drive has as many as
// its queue depth, is served for 1/requests per second or bytes/bytes per second, whichever
// is longer, and comes back after the latency that a read of 4 KiB has beyond its service.
// Drives are chosen by hash for rows and pages, in turn for large reads. What the GPU reads
// itself crosses its link request by request; what the host reads, batch by batch when all
// of it is there and assembled. Batches are in order everywhere; of the next, requests may be submitted
// when all of the one before have been. With one slot, nothing overlaps: a batch is sampled,
// read and computed before the next begins.
package drives
