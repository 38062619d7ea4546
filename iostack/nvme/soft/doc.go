// Package soft is an NVMe controller in software, which serves a file as its namespace. A driver
// uses its registers, doorbells and rings as it would a drive's. It serves to test drivers, and
// kernels that drive queues, without hardware.
//
//	Drive   the transport: registers in memory (BAR 0), memory with bus addresses, and the
//	        controller behind them
//	bus     bus addresses to host memory; they are made up, so that a wrong one is found
//
// One goroutine is the controller: it follows CC, reads doorbells, fetches commands, carries out
// admin commands, and posts completions. A storage stack reads a file of the kernel's file systems:
// it reads commands that were fetched together as one batch, into the memory that the commands name.
// Workers do everything else. A completion is posted after its data is in place; its last word is
// stored last, with the phase.
//
// The controller fetches no command without room for its completion in the completion queue, reads
// only the fields that a command defines, ignores PRP2 where PRP1 suffices, and answers malformed
// commands with the specification's status. SQHD is the number of entries that were fetched, modulo
// the queue's size. It writes to memory that a command names, to completion queues, and to nothing
// else.
package soft
