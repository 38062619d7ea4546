// Package soft is an NVMe controller in software, with a file as its namespace. A driver uses it as a
// drive, through registers, doorbells and rings. It is for tests of drivers, and of kernels that drive
// queues, without hardware.
//
//	Drive   the transport: registers in memory (BAR 0), memory with bus addresses, and the
//	        controller behind them
//	bus     bus addresses to host memory; they are made up, so that a wrong one is found
//
// One goroutine is the controller: it follows CC, reads doorbells, fetches commands, carries out admin
// commands, and posts completions. If the file is on a file system of the kernel, a storage stack carries
// out reads: commands that were fetched together are one batch, read into the commands' memory. Workers do
// everything else. A completion is posted after its data is in place; its last word is stored last, with
// the phase.
//
// The controller fetches no command without room for its completion in the completion queue, reads only the
// fields that a command defines, ignores PRP2 where PRP1 suffices, and answers malformed commands with the
// specification's status. SQHD is the number of entries that were fetched, modulo the queue's size. It
// writes only to memory in a command's PRPs and to completion queues.
package soft
