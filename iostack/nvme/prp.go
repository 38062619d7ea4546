package nvme

import (
	"encoding/binary"
	"fmt"

	"diskgnn/iostack/nvme/spec"
)

// listEntries is the addresses of a page of a PRP list; where more follow, the last is the
// next page's.
const listEntries = Page / 8

// listBytes returns the memory of the PRP lists of transfers of so many bytes that begin
// anywhere in a page.
func listBytes(transfer int) int {
	entries := transfer / Page // beside PRP1's page
	pages := 1
	for entries > listEntries {
		entries -= listEntries - 1
		pages++
	}
	return pages * Page
}

// setPRP says in a command that its data is n bytes of memory from an offset on, which is a
// multiple of 4. list is the memory of the slot's lists, of listBytes(n).
func setPRP(c *spec.Command, m *Memory, offset, n int, list *Memory, at int) error {
	if offset%4 != 0 || n <= 0 || offset < 0 || offset+n > len(m.Pages)*Page {
		return fmt.Errorf("%d bytes from %d on are not in memory of %d", n, offset, len(m.Pages)*Page)
	}
	first, last := offset/Page, (offset+n-1)/Page
	switch last - first {
	case 0:
		c.SetPRP(m.Address(offset), 0)
		return nil
	case 1:
		c.SetPRP(m.Address(offset), m.Pages[last])
		return nil
	}
	c.SetPRP(m.Address(offset), list.Address(at))
	rest := m.Pages[first+1 : last+1]
	for len(rest) > 0 {
		n := min(len(rest), listEntries)
		if len(rest) > listEntries {
			n = listEntries - 1
		}
		page := list.Bytes[at : at+Page]
		for i, address := range rest[:n] {
			binary.LittleEndian.PutUint64(page[8*i:], address)
		}
		if rest = rest[n:]; len(rest) > 0 {
			at += Page
			binary.LittleEndian.PutUint64(page[Page-8:], list.Address(at))
		}
	}
	return nil
}
