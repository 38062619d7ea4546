package kernel

import (
	"fmt"
	"math"
)

// MaxDropout is the largest rate of dropout, 1 − 2⁻³². Masks are drawn with 32 bits, so larger rates
// could round to 1.
const MaxDropout = 1 - 1.0/(1<<32)

// CheckDropout returns an error unless p lies in [0, MaxDropout].
func CheckDropout(p float64) error {
	if p >= 0 && p <= MaxDropout {
		return nil
	}
	return fmt.Errorf("a rate of dropout must lie from 0 to 1 − 2⁻³², about 0.9999999997")
}

// Dropout is a rate of dropout, ready for the kernels. The zero value drops nothing.
type Dropout struct {
	threshold uint32 // a unit is dropped if its 32-bit draw is below
	scale     float32
}

// NewDropout returns the dropout that zeroes a unit with probability p, exact to 2⁻³², and
// multiplies the others by 1/(1−p). It panics where CheckDropout has an error: a rate that rounds to
// 1 would have the threshold of rate 0.
func NewDropout(p float64) Dropout {
	if err := CheckDropout(p); err != nil {
		panic(fmt.Sprintf("kernel: dropout %v: %v", p, err))
	}
	return Dropout{threshold: uint32(math.Round(p * (1 << 32))), scale: float32(1 / (1 - p))}
}

// Scale returns the factor of kept units, the scale of ReLUBackward.
func (d Dropout) Scale() float32 {
	if d.threshold == 0 {
		return 1
	}
	return d.scale
}

// Threshold returns the least 32-bit draw of a kept unit; 0 keeps all units.
func (d Dropout) Threshold() uint32 { return d.threshold }

// Stream is the random stream of the dropout masks of one layer on one batch. The mask of a row depends on
// the stream and the number of the row only. So it is the same for any division of rows among goroutines,
// and for every kind of kernel.
type Stream uint64

// NewStream returns the stream of a layer on a batch of an epoch, in the run with this seed.
func NewStream(seed uint64, epoch, batch, layer int) Stream {
	return Stream(mix64(mix64(mix64(mix64(seed)^uint64(epoch))^uint64(batch)) ^ uint64(layer)))
}

// Row returns the key of row i, for BiasReLU.
func (s Stream) Row(i int) uint64 { return mix64(uint64(s) + uint64(i)*0x9e3779b97f4a7c15) }

// Constants of draw. The assembly has them too.
const (
	columnStep = 0x9e3779b9
	mixA       = 0x7feb352d
	mixB       = 0x846ca68b
)

// draw returns the 32 random bits of a column in the row with this key: two rounds of multiply and
// xor-shift over the column, each with one half of the key.
func draw(key uint64, column uint32) uint32 {
	x := uint32(key) + column*columnStep
	x ^= x >> 16
	x *= mixA
	x ^= x >> 15
	x += uint32(key >> 32)
	x *= mixB
	return x ^ x>>16
}

// mix64 is SplitMix64's output function: a bijection in which every output bit depends on every
// input bit.
func mix64(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
