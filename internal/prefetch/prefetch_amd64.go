//go:build amd64 && !noasm

package prefetch

// lines asks for the cache lines from p on, every 64 bytes up to n bytes. n is above 0.
//
//go:noescape
func lines(p *byte, n int)
