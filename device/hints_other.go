//go:build !linux

package device

// Prefer does nothing on this system: only Linux can be asked for pages of a NUMA node.
func (h *Host) Prefer(int) {}

// Populate does nothing on this system: pages are allocated at their first use.
func Populate([]byte) {}

// wantHuge does nothing: huge pages are requested on Linux alone.
func wantHuge([]byte, int) {}
