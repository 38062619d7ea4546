//go:build unix && !linux

package device

// wantHuge does nothing: huge pages are requested on Linux alone.
func wantHuge([]byte) {}
