// Package nvme is a driver of NVMe controllers in user space, in plain Go: it brings a controller up, makes
// queue pairs in memory that host and controller share, writes commands, rings doorbells, and reads
// completions by their phase. It does not depend on GPUs; a GPU that drives queues uses the same memory.
//
//	Transport    a way to reach a controller: registers, shared memory (soft, sysfs, …)
//	Controller   brought up by Open; its namespace, limits and admin queue
//	Queue        a pair of rings with depth − 1 commands under way at most, of one goroutine
//
// Every wait is bounded: a command that is not completed in time ends with ErrTimeout and the state of the
// queue. Only Reset and Close of the controller are then allowed. Statuses of the controller are errors by
// the specification's names (package spec).
//
// A command reads or writes up to MaxTransfer bytes, and lists the pages: PRP1, PRP2, or PRP1 and a list of
// addresses in memory of the command's slot. A list that does not fit in one page continues in further
// pages.
package nvme
