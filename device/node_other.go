//go:build !linux

package device

// Prefer does nothing: only Linux is asked for the pages of a NUMA node.
func (h *Host) Prefer(int) {}
