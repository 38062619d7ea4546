//go:build !linux

package device

// Prefer does nothing: pages of a NUMA node are requested on Linux alone.
func (h *Host) Prefer(int) {}

// Populate does nothing: pages get their places at their first use.
func Populate([]byte) {}

// wantHuge does nothing: huge pages are requested on Linux alone.
func wantHuge([]byte) {}
