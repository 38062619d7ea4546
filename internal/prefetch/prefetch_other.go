//go:build !amd64 || noasm

package prefetch

func lines(*byte, int) {}
