// Package collective connects the ranks of a run: processes, or devices of one, that train one
// model together. A Group joins them and notices when one is lost; a Reduction makes one step
// of the gradients that they have.
//
//	rank 0 ◄──► rank 1          every rank has one connection, with rank 0:
//	   ▲  ▲                     it is where gradients are summed, and what
//	   │  └───► rank 2          notices and names a rank that is lost
//	   └──────► rank 3
//
// Group calls are collective: all ranks make the same ones, in the same order. Their messages
// carry numbers, so that a rank which made another call is noticed.
//
// # Wire
//
// A connection carries frames, in both directions. Numbers are little-endian.
//
//	offset  bytes  what
//	0       4      "DGC1"; the last byte is the version
//	4       1      kind
//	5       3      zero
//	8       4      CRC-32C of the payload
//	12      8      length of the payload
//	20      4      CRC-32C of bytes 0 to 20
//	24             the payload
//
//	kind          payload
//	hello         JSON: which run and rank it is; the first frame of a rank
//	welcome       none: the rank is of the run; once more when all ranks are there, and it begins
//	refusal       JSON: why it is not
//	message       u64 number, then bytes: of Gather and Broadcast
//	contribution  u64 number, u32 labelled seed nodes, u32 0, float32 … : of a batch
//	ask           u64 number, u32 signals, u32 batches, u64 labelled seed nodes: the rank's step is computed
//	sum           u64 number, u32 signals, u32 batches, u64 labelled seed nodes, float32 … : the step
//	beat          u64: what the rank is doing; one every second
//	lost          JSON: the rank that is lost, and why; all end
//	bye           none: the rank is done
//
// Every byte is checked. Memory is taken for what has come and for what was computed before,
// never for what a length says.
package collective
