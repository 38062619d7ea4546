// Package volume is the format of a directory's files on raw NVMe drives, without a file system: a table of
// extents, of one directory at a time. A volume spans one drive or several; its users read blocks by NVMe
// queues.
//
// # Drives
//
//	drive 0  │ label │ … │ superblock 0 │ superblock 1 │ … │ unit 0 │ unit N   │ … │ zeros │
//	drive 1  │ label │ … zeros                             │ unit 1 │ unit N+1 │ … │ zeros │
//	byte     0       4 KiB   64 KiB          128 KiB        1 MiB              the last 1 MiB
//
// The first MiB of each drive is for the volume's structures, and the last MiB, where partition tables have
// their copy, is not used. Between them are units of one size; the smallest drive determines their number.
// Units are numbered across the drives in turn, so that the volume is one range of bytes: byte v is in unit
// u = v / unit, which is on drive u mod N, from byte 1 MiB + u / N × unit on. In commands for several
// drives, block i of a drive has the flat address blocks × drive + i (Flat).
//
// The range is divided into pages of 4096 bytes, for every block size. A file is an extent of pages, or
// several if no gap was long enough. Bytes after the end of a file in its last page are zero.
//
// # Bytes
//
// Numbers are little-endian. Reserved bytes are zero. Checksums are CRC-32C. Label and superblocks have 512
// bytes, which every drive writes atomically. Each is alone in a page; the rest of the page is reserved.
//
// Label, written once, when the drives become a volume:
//
//	0     char[8]  "DGNNVOL1"
//	8     u32      drive, from 0      u32  drives N
//	16    u64      bytes of a unit, a power of two from 4 KiB to 1 GiB
//	24    u64      units of each drive
//	32    u8[16]   identifier of the volume, by chance
//	48    …        reserved
//	508   u32      CRC of the bytes before
//
// Superblock, on drive 0 alone; the one of generation g is at 64 KiB × (1 + g mod 2):
//
//	0     char[8]  "DGNNVSB1"
//	8     u64      generation, from 1
//	16    u8[16]   identifier of the volume
//	32    u64      table that is in force: first page   u64 bytes, 0 without one
//	48    u32      its CRC                              u32 reserved
//	56    u64      table under way: first page          u64 bytes, 0 without one
//	72    u32      its CRC                              u32 reserved
//	80    …        reserved
//	508   u32      CRC of the bytes before
//
// Table, in pages of the volume next to each other:
//
//	0     char[8]  "DGNNVTB1"
//	8     u32      files F            u32  bytes of the format's name
//	16    u32      format's version   u32  granule of checksums, 1 MiB
//	24    u64      granules G         u64  granules written, G in a table in force
//	40    u8[32]   fingerprint of the directory
//	72    u8[…]    the format's name
//	F ×   u32      bytes of the name  u32  extents E
//	      u64      bytes of the file
//	      u8[…]    the name, by which files ascend
//	      E × { u64 first page, u64 pages }
//	G ×   u32      CRC of each granule: of the first file, then of the second, …
//
// Granules begin anew with each file, and its last one may be short. In a table under way, checksums of
// granules that were not written yet are meaningless.
//
// # Atomicity
//
// Data and tables in a superblock are never overwritten. Load writes, with a flush after each line,
//
//	superblock:  table in force  old   under way  new, nothing written
//	data, then the table under way at another place, then the superblock; again and again
//	table, of all data
//	superblock:  table in force  new   under way  none
//	superblock:  the same
//
// and the two superblocks by turns, so that a loss of power leaves the old one or the new one. So the
// volume holds the old directory or the new one at any time. The next Load of the same directory finds the
// interrupted one, compares the written data with the checksums, and continues where they end. If there is
// no room for both, Load discards the old directory before it writes the new one, but only with Force.
//
// A reader takes the complete superblock of the higher generation. If its table fails the checksum, the
// volume is damaged: the other superblock does not help, since its table may have been overwritten.
//
// Making a volume first destroys the earlier content of the drives: their ends are cleared, then the labels
// are written in the order of the drives, then superblock 1.
//
// # Versions
//
// The digit at the end of each magic is its version; it rises with any change of the bytes below it.
// labels, supers and tables have the decoders of each version.
package volume
