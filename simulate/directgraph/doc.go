// Package directgraph is BeaconGNN's layout of a graph on flash (Wang et al., HPCA 2024). A node's vector
// and neighbours are stored together, and a neighbour is given by the flash address of its node. So the
// reader of a page has the addresses of the next pages, without a table that maps nodes to addresses.
//
// A node has one primary section, and secondary sections if its neighbours are too many for
// a page. Sections of several nodes share a page; none crosses a page's end.
//
//	primary    header | u16 own | vector | u32 × secondaries | u32 × own
//	secondary  header | u32 × entries
//	header     u16 bytes of the section, u8 kind (1 primary, 2 secondary), u8 0,
//	           u16 number of secondaries (primary), or its number among them (secondary)
//
// Neighbours and secondaries are addresses: 28 bits for the page, 4 bits for the section in the page. So a
// page has at most 16 sections, and a graph at most 2²⁸ pages: 1 TiB with pages of 4 KiB.
//
// Sections are placed in the order of nodes, each into the page with the least sufficient room, otherwise
// into a new page. A page with 16 sections is full, even if it has room. The same degrees give the same
// layout.
//
// # File
//
// "diskgnn.directgraph", version 1; numbers are little-endian.
//
//	page 0      "DGNNDG01", u32 bytes of a page, u32 bytes of a vector, u64 nodes, u64 pages,
//	            zeros, and in the last 4 bytes the CRC-32C of the rest
//	pages       sections from the page's start, zeros after the last, and in a part of the
//	            file of its own:
//	addresses   u32 × nodes: the primary sections, for targets of a batch
//	sums        u32 × (pages + 1): CRC-32C of each page, and of the addresses
//	            u32: CRC-32C of the sums
package directgraph
