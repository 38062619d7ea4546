// Package array reads files that lie on an array of NVMe drives: a storage stack over one or
// several controllers, which it drives by itself, without the kernel.
//
//	Stack    iostack.Stack: shares queue, waiting and counting with all backends
//	worker   a goroutine with a queue pair of each drive, and the reads that it has under way
//	drive    a controller with its mapped memory and its recovery
//	Table    the files, and the places of their bytes
//
// Worker w alone uses queue w of every drive, so that queues need no locks. It takes reads
// from the queue as it has room, writes their commands, rings each doorbell once, and polls;
// with nothing to do it sleeps until requests or completions come, which transports that
// tell of completions (nvme.Notifier) wake it for. Others are polled.
//
// # Memory
//
// A drive reads into memory that is mapped for it: registered memory, and a bounce buffer for each
// read under way. Whole pages of registered memory are read in place. All else is copied once, by
// way of the bounce buffer, also the rows and blocks of a request with destinations of their own
// (iostack.Request.Scatter), which are one command.
//
// # Failure
//
// A status that permits it is tried again, a few times; others end the request with the spec.Status.
// A command that is not completed within half of the time that it has is aborted. Where that does
// not help, the controller is reset when the time is over: the late request fails with
// nvme.ErrTimeout and the state of the queue, the others under way are submitted again, and the
// drive goes on. A drive that cannot be reset fails all its requests. No buffer is given back before
// its command was completed, or its controller disabled.
package array
