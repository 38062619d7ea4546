// Package residency chooses the nodes with rows in a cache of a fixed number of frames. A frame is the
// place of one row. A policy handles node ids and frame numbers alone, without rows, locks and time. So
// the same policy serves host memory and GPU memory, and equal batches give equal decisions.
//
//	static  a fixed set of nodes
//	lru     the rows used most recently
//	clock   first in, first out; a row that was used goes round once more
//	sieve   first in, first out; a row that was used is passed over once (Zhang and others, NSDI 2024)
//	s3fifo  three queues: rows used once leave early (Yang and others, SOSP 2023)
//	standby the rows released most recently, and rows in use by batches in flight (GNNDrive)
//	belady  the rows with the nearest next uses in a recorded trace (Belady, 1966), as in Ginex
//	        (Park and others, VLDB 2022); Superbatch: for one trace after the other
//
// lru, clock, sieve and s3fifo decide access by access. Their common part is in online.go, with the
// details of GraphBolt's disk store: a batch's hits come first, in the order of its nodes, then its
// misses. A miss takes a frame at once, before its row is read. Rows of the batch stay until it ends; if
// all frames have such rows, the other misses pass by.
//
// # State
//
// State writes the contents of a policy, for checkpoints. Numbers are little-endian.
//
//	bytes    content
//	8        name, filled with zeros
//	8        nodes
//	8        frames
//	4        rows: frames 0 to rows-1 hold a row
//	4 rows   node of each of these frames
//
// The state of static ends here. The others continue:
//
//	lru      4 rows   frames, last used first
//	clock    4        frame at which the hand stands
//	         rows     1: the frame's row was used since the hand passed
//	sieve    4 rows   frames, last inserted first
//	         4        frame at which the hand stands, 2³²-1: at the oldest
//	         rows     1: the frame's row was used since the hand passed
//	s3fifo   4 + 4 n  number of frames in the small queue, these, first inserted first
//	         4 + 4 n  the same of the main queue
//	         rows     uses of each frame's row, 0 to 3
//	         4 + 4 n  number of places in the ghost queue, their nodes, first inserted first
//	         n        1: the node of the place is remembered
//	standby  4 rows   frames, last used first
//	         rows     number of the next batches for which the frame's row is in use, 0 to 2
//	belady   4        batches done
//	         4        CRC-32C of the trace, each batch's nodes ascending
//
// The state has no version and no checksum of its own: the checkpoint has both.
package residency
