// Package gpuqueue lets a GPU drive NVMe queues: kernels write commands, ring doorbells, wait for
// completions, and copy the data to its destination in device memory. The host brings controllers up, lends
// their queues, and launches the kernels; it never accesses a ring.
//
//	Array    the drives, one after the other: block number drive × blocks + block. Open takes
//	         queues of brought-up controllers, which are the array's until Close
//	Ticket   micro-batches of reads that are completed together
//
// # Reading
//
// A micro-batch is a list of requests in device memory, which a kernel may have written; their number may
// be there too. Use a Ticket, Submit while there is room, Complete, End:
//
//	Submit    bins the requests by drive (32 blocks), and writes and rings their commands
//	          (1 block). Nothing waits for the drives: the reads are under way when it is over
//	Complete  waits for the reads of one ticket, and copies each from where the controller put
//	          it to its destination (up to 32 blocks). Data of other tickets that lands meanwhile is
//	          noted, and stays where it is
//	End       waits on the host, and returns the errors of the ticket's requests
//
// Read is Submit and Complete in one kernel, where one block owns a queue and one thread a slot, for an
// array without other reads under way.
//
// Submit and Complete take streams, and order themselves by events: on any streams, a completion comes
// after its submission, submissions come in the order of their calls, and so do completions.
//
// # Slots
//
// A queue has one slot less than entries. A slot is an identifier of a command, a staging buffer that the
// controller writes to, and the list of its pages, which never changes. The host reserves one slot of each
// drive for each possible request of the micro-batch, and releases them in the order of the submissions
// after completion. If there are too few, Submit returns ErrFull. The host does not see the requests, which
// may all be for one drive: if reads are evenly divided among D drives, only a D-th of the slots is in use.
// More drives add rate, not room: choose nvme.Options.Queues and Depth of each drive for all reads under
// way. So a request's queue, slot and place in the ring follow from its number by arithmetic, without locks
// and free lists. Every word of the rings has one writer.
//
// # Failures
//
// Each request gets a Status. The kernels wait for a completion until a deadline, or until Abort. A queue
// with a missing completion is dead: all its later requests fail, and only Close of the array is allowed. A
// controller may write to staging buffers until it is reset or closed, so reset or close it first.
//
// # Trying it without a GPU
//
// Package plain has an implementation of each kernel in Go, over the same memory. On an emulated device
// (cuda.OpenEmulated) they drive queues of a controller in software, as in the tests of this package, which
// also run the kernels if there is a GPU. This package has not driven a queue of a real drive yet.
package gpuqueue
