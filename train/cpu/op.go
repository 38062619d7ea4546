package cpu

import (
	"fmt"
	"hash"
	"hash/fnv"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// node is the common part of this package's Gorgonia operations.
//
// An operation owns the tensor that it returns, since the machine drops its registers between runs;
// shapes are the largest ones, and each run computes only its batch's rows. Rows beyond are neither
// read nor written.
type node struct {
	id    int
	name  string
	arity int
	shape tensor.Shape
	out   *tensor.Dense
	data  []float32 // out's elements
}

// operations counts the operations of a graph, to number them.
type operations int

// node makes the common part of an operation. Its result has this shape and lies in data; without a
// shape it is a scalar.
func (n *operations) node(name string, arity int, data []float32, shape ...int) node {
	*n++
	o := node{id: int(*n), name: name, arity: arity, shape: shape, data: data}
	if len(shape) > 0 {
		o.out = dense(data, shape...)
	}
	return o
}

// dense wraps memory as a tensor.
func dense(data []float32, shape ...int) *tensor.Dense {
	return tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(shape...), tensor.WithBacking(data))
}

func (o *node) Arity() int { return o.arity }

// Type gives every operand a type of its own; 'a' and 'b' are Gorgonia's.
func (o *node) Type() hm.Type {
	types := make([]hm.Type, 0, o.arity+1)
	for i := range o.arity {
		types = append(types, hm.TypeVariable(rune('c'+i)))
	}
	if len(o.shape) == 0 {
		return hm.NewFnType(append(types, tensor.Float32)...)
	}
	return hm.NewFnType(append(types, gorgonia.TensorType{Dims: len(o.shape), Of: tensor.Float32})...)
}

func (o *node) InferShape(...gorgonia.DimSizer) (tensor.Shape, error) { return o.shape.Clone(), nil }

// With these two the machine takes Do's result, and allocates nothing.
func (o *node) ReturnsPtr() bool  { return true }
func (o *node) CallsExtern() bool { return false }

func (o *node) OverwritesInput() int { return -1 }

// Operations with equal hashes would be merged, so the hash of each includes its number.
func (o *node) WriteHash(h hash.Hash) { fmt.Fprintf(h, "%s#%d", o.name, o.id) }

func (o *node) Hashcode() uint32 {
	h := fnv.New32a()
	o.WriteHash(h)
	return h.Sum32()
}

func (o *node) String() string { return fmt.Sprintf("%s#%d", o.name, o.id) }

// computed returns a gradient that the operation before it has computed already.
type computed struct{ node }

func (o *computed) Do(...gorgonia.Value) (gorgonia.Value, error) { return o.out, nil }
