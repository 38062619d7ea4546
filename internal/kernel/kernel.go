// Package kernel holds the inner loops of CPU training and of row conversion:
// gathers, the fused tail of a layer and its backward pass, Adam, and conversions
// between float32 and the narrower types of features.
//
// Every function exists in plain Go, for AVX2 and for AVX-512. The program uses the best kind that the
// processor supports; Kind names it. The plain functions are the specification. All kinds give the same
// bits: each element is computed by the same single-precision operations in the same order, no product
// is fused with a sum, and sums add one row after the other. So results do not depend on the kind, nor on
// the alignment of operands.
//
// Functions keep no state and may be called concurrently. They check lengths, but not the row indices of
// GatherSum, except in plain Go: callers must validate indices. Operands must not overlap, unless they are
// equal and the function works in place.
//
// The assembly is generated: see _gen.
package kernel

import (
	"math"
	"os"
	"slices"
	"strings"

	"diskgnn/internal/fault"
)

//go:generate go run -C _gen . -out ../kernels_amd64.s -stubs ../kernels_amd64.go -pkg kernel

// Kind names the instructions in use: "plain", "avx2" or "avx512".
func Kind() string { return level.String() }

// GatherSum sums weighted rows of x:
//
//	dst = scale · Σ_i w[idx[i]]·x[idx[i]]        (plus dst if add)
//
// The rows of x have the width of dst. A nil w stands for ones. Terms are added in the order of idx. If
// idx is empty, dst becomes zero or, with add, stays unchanged.
//
// The elements between idx's length and its capacity may be used as a hint of the rows that are needed
// next, so pass a sub-slice of the list of all edges.
func GatherSum(dst, x []float32, idx []uint32, w []float32, scale float32, add bool) {
	if len(dst) == 0 {
		return
	}
	if level == plain {
		gatherSumPlain(dst, x, idx, w, scale, add)
		return
	}
	gatherSumSIMD(dst, x, idx, w, scale, add)
}

// AddRows adds the rows of x that idx lists to dst, one after the other: the sum is a left fold, so that it has
// the same bits however idx is cut among calls. The rows of x have the width of dst. It uses the same hint as
// GatherSum.
func AddRows(dst, x []float32, idx []uint32) {
	if len(dst) == 0 || len(idx) == 0 {
		return
	}
	if level == plain {
		addRowsPlain(dst, x, idx)
		return
	}
	addRowsSIMD(dst, x, idx)
}

// Add adds src to dst, element by element.
func Add(dst, src []float32) {
	if level == plain {
		addPlain(dst, src[:len(dst)])
		return
	}
	addSIMD(dst, src[:len(dst)])
}

// BiasReLU finishes one row z of a hidden layer in place: it adds the bias, replaces negative values by
// zero, and applies inverted dropout with a mask that depends only on the row's key and the column. NaN
// stays NaN in kept units.
func BiasReLU(z, bias []float32, drop Dropout, key uint64) {
	bias = bias[:len(z)]
	if level == plain {
		biasReLUPlain(z, bias, 0, drop, key)
		return
	}
	biasReLUSIMD(z, bias, drop, key)
}

// ReLUBackward replaces g, the gradient of one row of BiasReLU's output, by the gradient of its input, and
// adds the result to the column sums. y is BiasReLU's output for the row. If y is positive, the unit was
// active and kept, and its gradient is multiplied by scale; otherwise its gradient becomes zero. No mask
// is needed.
func ReLUBackward(g, y, sums []float32, scale float32) {
	y, sums = y[:len(g)], sums[:len(g)]
	if level == plain {
		reluBackwardPlain(g, y, sums, scale)
		return
	}
	reluBackwardSIMD(g, y, sums, scale)
}

// AdamStep holds the constants of one step of Adam (Kingma and Ba, algorithm 1).
type AdamStep struct {
	Beta1, Beta2   float32 // decay of the two moments
	Alpha1, Alpha2 float32 // 1 − Beta1, 1 − Beta2
	Rate           float32 // learning rate over 1 − Beta1^t
	InvRoot        float32 // 1 over the square root of 1 − Beta2^t
	Epsilon        float32
}

// NewAdamStep returns the constants of a step with a learning rate, with Adam's usual decays and ε. Steps
// are counted from 1.
func NewAdamStep(rate float64, step uint64) AdamStep {
	const beta1, beta2, epsilon = 0.9, 0.999, 1e-8
	t := float64(step)
	return AdamStep{Beta1: beta1, Beta2: beta2, Alpha1: float32(1 - beta1), Alpha2: float32(1 - beta2), Epsilon: epsilon,
		Rate: float32(rate / (1 - math.Pow(beta1, t))), InvRoot: float32(1 / math.Sqrt(1-math.Pow(beta2, t)))}
}

// Adam updates the weights w and both moments m and v by the gradient g, in one
// pass:
//
//	m = β₁m + (1−β₁)g;  v = β₂v + (1−β₂)g²;  w −= Rate·m / (√v·InvRoot + ε)
func Adam(w, g, m, v []float32, s *AdamStep) {
	g, m, v = g[:len(w)], m[:len(w)], v[:len(w)]
	if level == plain {
		adamPlain(w, g, m, v, s)
		return
	}
	adamSIMD(w, g, m, v, s)
}

// simd orders the kinds of kernels. A machine that supports one kind supports all kinds before it.
type simd int

const (
	plain simd = iota
	avx2
	avx512
)

var names = [...]string{"plain", "avx2", "avx512"}

func (l simd) String() string { return names[l] }

// level is the kind of kernels in use. Only Use changes it.
var level = initial(os.Getenv("DISKGNN_SIMD"))

// initial returns the kind that the environment names, if the processor supports it, else the best kind
// that the processor supports.
func initial(asked string) simd {
	if i := slices.Index(names[:], asked); i >= 0 && simd(i) <= supported {
		return simd(i)
	}
	return supported
}

// Kinds returns the kinds that this processor supports, "plain" first, the best last.
func Kinds() []string { return slices.Clone(names[:supported+1]) }

// Use selects a kind for the whole process, for tests and for a start-up option. It must not be called
// while kernels run. The environment variable DISKGNN_SIMD does the same at the start of the program,
// but is ignored if the processor does not support the kind that it names.
func Use(kind string) error {
	i := slices.Index(names[:], kind)
	if i < 0 || simd(i) > supported {
		return fault.New(fault.ErrUsage, "kernel: no %q on this machine (it has %s)", kind, strings.Join(Kinds(), ", "))
	}
	level = simd(i)
	return nil
}
