// Package spec holds the numbers of the NVM Express base specification (revision 1.4, sections 3 to 6):
// registers, commands, completions, statuses. Drivers and controllers use it; it does no I/O.
//
// Numbers are little-endian. A controller's registers (BAR 0):
//
//	00h CAP  u64   capabilities
//	08h VS   u32   version
//	14h CC   u32   configuration by the host
//	1Ch CSTS u32   status
//	24h AQA  u32   sizes of the admin queues
//	28h ASQ  u64   bus address of the admin submission queue
//	30h ACQ  u64   of the admin completion queue
//	1000h …        doorbells, u32: of queue q, its submission tail at 2q strides and its
//	               completion head at 2q+1, a stride being 4 << CAP.DSTRD bytes
//
// A command has 64 bytes, a completion 16. The controller writes the word with status and phase of a
// completion last; the host reads that word first.
package spec
