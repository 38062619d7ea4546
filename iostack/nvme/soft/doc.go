// Package soft is an NVMe controller in software, which serves a file as its namespace: what
// a driver does to its registers, doorbells and rings is what it would do to a drive. It is
// how drivers, and kernels that drive queues, are proven without hardware.
//
//	Drive   the transport: registers in memory (BAR 0), memory with bus addresses, and the
//	        controller behind them
//	bus     bus addresses to host memory; they are made up, so that a wrong one is found
//
// One goroutine is the controller: it follows CC, reads doorbells, fetches commands, carries
// out admin commands, and posts completions. Reads of a file that the kernel has are a storage
// stack's: the commands that were fetched together are so few entries to the kernel as it
// makes of them, and land where the commands say. Workers do everything else.
// A completion is posted after its data is in place; its last word is stored last, with the
// phase.
//
// The controller fetches no command whose completion would not fit its completion queue,
// reads only the fields that a command defines, ignores PRP2 where PRP1 suffices, and answers
// what is malformed with the status that the specification has for it. SQHD is the number of
// entries that were fetched, modulo the queue's size. It writes to memory that a command
// names, to completion queues, and to nothing else.
package soft
