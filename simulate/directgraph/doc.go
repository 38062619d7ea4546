// Package directgraph is BeaconGNN's layout of a graph on flash (Wang et al., HPCA 2024): a node's
// vector and neighbours lie together, and a neighbour is named by the flash address of its node, so
// that the reader of a page has the addresses of the next pages, and no table maps nodes to places.
//
// A node has one primary section, and secondary sections if its neighbours are too many for
// a page. Sections of several nodes share a page; none crosses a page's end.
//
//	primary    header | u16 own | vector | u32 × secondaries | u32 × own
//	secondary  header | u32 × entries
//	header     u16 bytes of the section, u8 kind (1 primary, 2 secondary), u8 0,
//	           u16 number of secondaries (primary), or which of them it is (secondary)
//
// An entry, and a secondary's place, is an address: 28 bits of page, 4 bits of section in
// it. So a page has 16 sections at most, and a graph 2²⁸ pages: 1 TiB of 4 KiB.
//
// Sections are placed in the order of nodes, each into the page with the least room that is
// enough, else into a new one. A page with 16 sections is full, whatever its room. The same
// degrees give the same layout.
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
