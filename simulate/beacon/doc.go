// Package beacon simulates BeaconGNN (Wang et al., HPCA 2024) and the platforms that it is compared with.
// BeaconGNN is a solid-state drive that draws the neighbours of nodes in its flash dies. No such drive
// exists; all figures are simulated.
//
// A mini-batch is a Trace of nodes and commands. A node has the slot in its parent's adjacency list from
// which it was drawn. A command reads one flash page of a node. Its stages are
//
//	ready → firmware | router → channel (command bytes) → die's queue → sensing
//	      → sampler in the die → channel (result) → DRAM → [PCIe] → done → its children
//
// and the platform decides which of these stages exist. CC, BG-1 and BG-SP finish a whole hop, cross PCIe
// and take a round trip through the host before the next hop; the others continue command by command. On
// CC, BG-1 and BG-DG whole pages cross the channel, on the others only useful bytes. On BG-2, hardware
// routes commands between channels; on the others, a core of the firmware handles each command.
//
// There are two modes. Faithful has the rules of the authors' own simulator: pages of 4000 bytes, DRAM
// traffic that is counted without waits, commands without bytes, no router latency, primary pages that are
// read only if they have a sampled slot, and the host's page traffic computed from BG-1's run. Strict has
// none of these simplifications.
//
// A batch is simulated in an idle drive. Batches form a pipeline, so the throughput is batch size /
// max(preparation, compute). The same trace and parameters give the same result to the picosecond. Every
// run checks its counters against a second count.
package beacon
