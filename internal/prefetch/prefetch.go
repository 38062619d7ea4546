// Package prefetch asks the processor to load memory into its caches ahead of a use. The processor's own prefetchers follow
// one ascending stream well, but not several short ones, and no random places.
package prefetch

import "unsafe"

// Bytes asks for the cache lines of b. It changes nothing, and does not wait.
func Bytes(b []byte) {
	if len(b) > 0 {
		lines(unsafe.SliceData(b), len(b))
	}
}
