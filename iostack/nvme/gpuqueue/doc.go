// Package gpuqueue has a GPU drive NVMe queues: kernels write commands, ring doorbells, wait
// for completions and bring the data to its place in the device's memory. The host brings
// controllers up, lends their queues, and launches; it never touches a ring.
//
//	Array    the drives, one after the other: block number drive × blocks + block. Open takes
//	         queues of brought-up controllers, which are the array's until Close
//	Ticket   micro-batches of reads that are completed together
//
// # Reading
//
// A micro-batch is a list of requests in the device's memory, which a kernel may have written; their
// number may lie there too. Begin, Submit as often as there is room, Complete, End:
//
//	Submit    bins the requests by drive (32 blocks), and writes and rings their commands
//	          (1 block). Nothing waits for the drives: the reads are under way when it is over
//	Complete  waits for the reads of one ticket, and copies each from where the controller put
//	          it to its destination (up to 32 blocks). Data of other tickets that lands meanwhile is
//	          noted, and stays where it is
//	End       waits on the host, and returns the errors of the ticket's requests
//
// Read is Submit and Complete in one kernel, in which one block owns a queue and one thread a
// slot, for an array that has nothing else under way.
//
// Submit and Complete take streams, and order themselves by events: a completion comes after
// its submission, whatever streams both are on, and completions and submissions come in the
// order of the calls, each among themselves.
//
// # Slots
//
// A queue has one slot less than entries. A slot is an identifier of a command, a staging buffer that
// the controller writes to, and the list of its pages, which never changes. The host reserves slots of
// each drive for the most requests of a micro-batch, and takes them back in the order of the submissions
// once they were completed; where there are too few, Submit answers ErrFull. The host does not see the
// requests, which may all be of one drive: if reads spread evenly over D drives, only a D-th of the
// slots may be in use. More drives add rate, not room: choose nvme.Options.Queues and Depth for all
// reads that are to be under way, with any number of drives. So a request's queue, slot and place in the
// ring follow from its number by arithmetic: no locks, no free lists. In the rings, every word has one
// writer.
//
// # Failures
//
// Each request gets a Status. The kernels wait for a completion until a deadline, or until Abort. A
// queue with a missing completion is dead: its requests fail from then on, and only Close of the
// array is allowed. A controller may write to staging buffers until it is reset or closed, so reset
// or close it first.
//
// # Trying it without a GPU
//
// Package plain has each kernel's twin in Go, over the same memory. On an emulated device
// (cuda.OpenEmulated) they drive queues of a controller in software, as in the tests here, which
// also run the kernels where there is a GPU. This package has not driven a queue of a real drive
// yet.
package gpuqueue
