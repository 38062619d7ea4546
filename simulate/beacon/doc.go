// Package beacon simulates BeaconGNN (Wang et al., HPCA 2024) and the platforms it is compared with:
// a solid-state drive that draws the neighbours of nodes inside itself, where their pages lie. No
// such drive exists; everything here is computed, nothing measured.
//
// A mini-batch is a Trace: nodes, each with the slot of its parent's adjacency list that led
// to it, and commands, each of which reads one flash page of a node. A command goes
//
//	ready → firmware | router → channel (command bytes) → die's queue → sensing
//	      → sampler in the die → channel (result) → DRAM → [PCIe] → done → its children
//
// and the platform decides which of these steps exist. CC, BG-1 and BG-SP wait for a whole hop,
// cross PCIe and take a round trip through the host before the next; the others go on command by
// command. On CC, BG-1 and BG-DG whole pages cross the channel, on the others their useful bytes.
// All but BG-2 have each command handled by a core of the firmware; BG-2 routes it between channels
// in hardware.
//
// There are two modes. Faithful keeps the rules of the authors' own simulator: pages of 4000 bytes,
// DRAM that is counted but never waited for, commands without bytes, no router latency, a primary
// page that is read only if a sampled slot lies in it, and the host's page traffic computed from
// BG-1's run. Strict waves nothing through.
//
// A batch is simulated in a drive that is idle; batches follow one another in a pipeline, so
// throughput is batch size / max(preparation, compute). Same trace and parameters, same result to
// the picosecond. Every run checks its counters against a second count.
package beacon
