//go:build !linux

package device

// Prefer does nothing: pages of a NUMA node are requested on Linux alone.
func (h *Host) Prefer(int) {}
