package pread

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

func newStack(t testing.TB, options iostack.Options) *Stack {
	t.Helper()
	s, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
