// Package cut decides the content of a pack before any of it is written: which rows are hot, where
// chunks are cut into bands, how many batches share a segment of the SSD level and, under policy min,
// the outcome of every access to a cache under Belady's MIN.
//
// A Request names samples and parameters. Count ranks the nodes by hotness and counts the uses from
// which the size of a pack follows. The result is a Decision, a value that is the same for the same
// samples and parameters on every machine:
//
//	                      ┌ static: Decide, after a census if there is a disk budget ┐
//	Request ─ Count ──────┤                                                          ├─ Decision
//	                      └ min: Simulate, which a Recorder writes down              ┘
//
// A Plan describes a decision and its alternatives, with measured rates; pack --plan prints it. Package
// pack writes the decided content.
//
// Memory: per node 4 bytes of rank (8 while ranking) and 1.5 bits of evaluation set; 8 bytes more in a
// census, or 4.5 in a simulation.
package cut
