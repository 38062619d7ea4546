// Package nvme drives NVMe controllers from user space, in plain Go: it brings a controller
// up, makes queue pairs in memory that host and controller share, writes commands, rings
// doorbells, and reads completions by their phase. It knows no GPU; a GPU that drives queues
// uses the same memory.
//
//	Transport    a way to reach a controller: registers, shared memory (soft, sysfs, …)
//	Controller   brought up by Open; its namespace, limits and admin queue
//	Queue        a pair of rings with depth − 1 commands under way at most, of one goroutine
//
// A command that is not completed in time ends with ErrTimeout and the state of the queue, and the
// controller is then only good for Reset: every wait is bounded. Statuses of the controller are
// errors by the specification's names (package spec).
//
// A command reads or writes up to MaxTransfer bytes, and lists their pages: PRP1, PRP2, or PRP1 and
// a list of addresses in memory of the command's slot, which goes on in further pages where one does
// not hold it.
package nvme
