package volume

import (
	"bytes"
	"fmt"
)

// signatures are byte strings of drives with other content, and the name of the content. Negative offsets
// count from the end of the drive.
var signatures = []struct {
	at   int64
	text string
	what string
}{
	{512, "EFI PART", "a partition table (GPT)"},
	{4096, "EFI PART", "a partition table (GPT)"},
	{-512, "EFI PART", "a partition table (GPT, its copy at the end)"},
	{-4096, "EFI PART", "a partition table (GPT, its copy at the end)"},
	{0, "XFSB", "an XFS file system"},
	{0x438, "\x53\xef", "an ext file system"},
	{0x10040, "_BHRfS_M", "a Btrfs file system"},
	{0x400, "\x10\x20\xf5\xf2", "an F2FS file system"},
	{3, "NTFS    ", "an NTFS file system"},
	{3, "EXFAT   ", "an exFAT file system"},
	{54, "FAT1", "a FAT file system"},
	{82, "FAT32", "a FAT file system"},
	{32, "NXSB", "an APFS container"},
	{0, "hsqs", "a SquashFS image"},
	{0x8001, "CD001", "an ISO 9660 image"},
	{0, "LUKS\xba\xbe", "an encrypted volume (LUKS)"},
	{4086, "SWAPSPACE2", "swap space"},
	{0, "\xfc\x4e\x2b\xa9", "a part of a RAID (md)"},
	{4096, "\xfc\x4e\x2b\xa9", "a part of a RAID (md)"},
	{0, "LABELONE", "an LVM physical volume"},
	{512, "LABELONE", "an LVM physical volume"},
	{0x20000, "\x0c\xb1\xba\x00", "a part of a ZFS pool"},
	{510, "\x55\xaa", "a partition table (MBR)"},
}

// occupied names the content of a drive that is not a volume; "" where the first and the last MiB
// are zeros, as of a drive that is new or was discarded.
func occupied(d Drive) (what string, err error) {
	first, last := make([]byte, head), make([]byte, tail)
	if err := readBytes(d, 0, first); err != nil {
		return "", fmt.Errorf("inspect the content of %s: %w", d.Name(), err)
	}
	if err := readBytes(d, bytesOf(d)-tail, last); err != nil {
		return "", fmt.Errorf("inspect the content of %s: %w", d.Name(), err)
	}
	for _, s := range signatures {
		in, at := first, s.at
		if at < 0 {
			in, at = last, tail+at
		}
		if bytes.HasPrefix(in[at:], []byte(s.text)) {
			return s.what, nil
		}
	}
	if !zero(first) || !zero(last) {
		return "data of an unknown kind", nil
	}
	return "", nil
}

func zero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}
