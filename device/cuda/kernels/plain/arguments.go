package plain

import (
	"math"
	"unsafe"

	"diskgnn/internal/binio"
)

// arguments are the remaining arguments of a launch.
type arguments struct {
	words []uint64
	at    func(address uint64) []byte
}

func (a *arguments) word() uint64 {
	w := a.words[0]
	a.words = a.words[1:]
	return w
}

func (a *arguments) int() int           { return int(int64(a.word())) }
func (a *arguments) bool() bool         { return a.word() != 0 }
func (a *arguments) float() float32     { return math.Float32frombits(uint32(a.word())) }
func (a *arguments) double() float64    { return math.Float64frombits(a.word()) }
func (a *arguments) bytes() []byte      { return a.at(a.word()) }
func (a *arguments) floats() []float32  { return view[float32](a.bytes()) }
func (a *arguments) words32() []uint32  { return view[uint32](a.bytes()) }
func (a *arguments) words64() []uint64  { return view[uint64](a.bytes()) }
func (a *arguments) doubles() []float64 { return view[float64](a.bytes()) }
func (a *arguments) labels() []int32    { return view[int32](a.bytes()) }

// rows takes a count: the number of rows, and its upper limit.
func (a *arguments) rows() (rows, most int) {
	at := a.words32()
	most = a.int()
	if at == nil {
		return most, most
	}
	return int(min(int64(at[0]), int64(most))), most
}

func view[T binio.Number](b []byte) []T {
	if b == nil {
		return nil
	}
	size := int(unsafe.Sizeof(*new(T)))
	return binio.View[T](b[:len(b)/size*size])
}
