package rundir

import (
	"fmt"
	"slices"

	"diskgnn/train/model"
	"diskgnn/train/safetensors"
)

// Files of weights store a matrix as PyTorch does, usually (out, in); an engine's snapshot has all
// parameters one after the other, each (in, out).

// ToTensors returns a copy of a snapshot's parameters, with PyTorch's names and orientation.
func ToTensors(params []model.Param, weights []float32) []safetensors.Tensor {
	list := make([]safetensors.Tensor, len(params))
	for i, p := range params {
		t := &list[i]
		t.Name, t.Shape, t.Data = p.Name, p.Shape, make([]float32, p.Len())
		for in := range p.Rows {
			for out := range p.Cols {
				t.Data[p.Place(in, out)] = weights[in*p.Cols+out]
			}
		}
		weights = weights[p.Len():]
	}
	return list
}

// FromTensors returns tensors that Fits accepts as a snapshot: the inverse of ToTensors.
func FromTensors(params []model.Param, tensors []safetensors.Tensor) []float32 {
	total := 0
	for _, p := range params {
		total += p.Len()
	}
	weights := make([]float32, total)
	left := weights
	Fill(params, tensors, func(i int) []float32 {
		values := left
		left = left[params[i].Len():]
		return values
	})
	return weights
}

// Fill writes tensors that Fits accepts to the values of the parameters, in their order.
func Fill(params []model.Param, tensors []safetensors.Tensor, values func(i int) []float32) {
	named := byName(tensors)
	for i, p := range params {
		t, to := named[p.Name], values(i)
		for in := range p.Rows {
			for out := range p.Cols {
				to[in*p.Cols+out] = t.Data[p.Place(in, out)]
			}
		}
	}
}

func byName(tensors []safetensors.Tensor) map[string]*safetensors.Tensor {
	named := make(map[string]*safetensors.Tensor, len(tensors))
	for i := range tensors {
		named[tensors[i].Name] = &tensors[i]
	}
	return named
}

// Fits checks that tensors are exactly the parameters, by name and shape.
func Fits(params []model.Param, tensors []safetensors.Tensor) error {
	named := byName(tensors)
	for _, p := range params {
		t, ok := named[p.Name]
		if !ok {
			return fmt.Errorf("the parameter %s is missing", p.Name)
		}
		delete(named, p.Name)
		if !slices.Equal(t.Shape, p.Shape) {
			return fmt.Errorf("%s has the shape %v, but the model's has the shape %v", p.Name, t.Shape, p.Shape)
		}
	}
	for _, t := range tensors {
		if named[t.Name] != nil {
			return fmt.Errorf("the model has no parameter %s", t.Name)
		}
	}
	return nil
}
