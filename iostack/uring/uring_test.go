//go:build linux

package uring

import (
	"fmt"
	"testing"

	"diskgnn/iostack"
	"diskgnn/iostack/iostacktest"
)

func TestConformance(t *testing.T) {
	for _, options := range []iostack.Options{
		{},
		{Workers: 1},
		{Workers: 3, MaxIO: 4096},
		{Direct: iostack.DirectNever},
	} {
		t.Run(fmt.Sprintf("workers=%d,maxio=%d,direct=%v", options.Workers, options.MaxIO, options.Direct), func(t *testing.T) {
			iostacktest.Run(t, func(t *testing.T) iostack.Stack { return newStack(t, options) })
		})
	}
}

// newStack starts a stack, or skips the test where io_uring is refused.
func newStack(t testing.TB, options iostack.Options) *Stack {
	t.Helper()
	return startStack(t, options, seams{enter: enter})
}

func startStack(t testing.TB, options iostack.Options, seams seams) *Stack {
	t.Helper()
	s, err := start(options, seams)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
