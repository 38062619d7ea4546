// Package array reads files on an array of NVMe drives: a storage stack over one or several controllers,
// with a driver in user space.
//
//	Stack    iostack.Stack: shares queue, waiting and counting with all backends
//	worker   a goroutine with a queue pair of each drive, and the reads that it has under way
//	drive    a controller with its mapped memory and its recovery
//	Table    the files, and the places of their bytes
//
// Worker w alone uses queue w of every drive, so that queues need no locks. It takes reads from the queue
// while it has room, writes their commands, rings each doorbell once, and polls. Without work it sleeps
// until there are requests, or completions of transports that announce them (nvme.Notifier). It polls other
// transports.
//
// # Memory
//
// A drive reads into memory that is mapped for it: registered memory, and a bounce buffer for each read
// under way. Whole pages of registered memory are read in place. All other bytes are copied once, through
// the bounce buffer, also the pieces of iostack.Request.Scatter, which one command reads.
//
// # Failure
//
// A command is tried again, a few times, if its status permits a retry; other statuses end the request with
// the spec.Status. A command that is not completed within half of its time limit is aborted. If that does
// not help, the controller is reset at the limit: the late request fails with nvme.ErrTimeout and the state
// of the queue, the other commands under way are submitted again, and the drive continues. A drive that
// cannot be reset fails all its requests. No buffer is given back before its command is completed or its
// controller is disabled.
package array
