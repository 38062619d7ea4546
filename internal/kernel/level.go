package kernel

import (
	"os"
	"slices"
	"strings"

	"diskgnn/internal/fault"
)

// simd orders the kinds of kernels, each able to do what those before it can.
type simd int

const (
	plain simd = iota
	avx2
	avx512
)

var names = [...]string{"plain", "avx2", "avx512"}

func (l simd) String() string { return names[l] }

// level is what the functions of this package use. It changes only in Use.
var level = initial(os.Getenv("DISKGNN_SIMD"))

// initial returns the kind that the environment names, if there is such a kind
// and the processor has it, else the best that the processor has.
func initial(asked string) simd {
	if i := slices.Index(names[:], asked); i >= 0 && simd(i) <= supported {
		return simd(i)
	}
	return supported
}

// Kinds returns the kinds that this processor can run, "plain" first, best last.
func Kinds() []string { return slices.Clone(names[:supported+1]) }

// Use selects a kind for the whole process. It is for tests and for a start-up
// option, and must not be called while kernels run. The environment variable
// DISKGNN_SIMD does the same at start, but leaves the best kind in place when it
// names none that can run.
func Use(kind string) error {
	i := slices.Index(names[:], kind)
	if i < 0 || simd(i) > supported {
		return fault.New(fault.ErrUsage, "kernel: no %q on this machine (it has %s)", kind, strings.Join(Kinds(), ", "))
	}
	level = simd(i)
	return nil
}
