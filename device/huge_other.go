//go:build unix && !linux

package device

// wantHuge does nothing: only Linux is asked for huge pages.
func wantHuge([]byte) {}
