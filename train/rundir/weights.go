package rundir

import (
	"fmt"
	"slices"

	"diskgnn/train/model"
	"diskgnn/train/safetensors"
)

// Files of weights store a matrix as PyTorch does, (out, in); an engine's snapshot has all
// parameters one after the other, each (in, out).

// ToTensors returns a copy of a snapshot's parameters, with PyTorch's names and orientation.
func ToTensors(params []model.Param, weights []float32) []safetensors.Tensor {
	list := make([]safetensors.Tensor, len(params))
	for i, p := range params {
		t := &list[i]
		t.Name, t.Shape, t.Data = p.Name, p.Shape, make([]float32, p.Len())
		for in := range p.Rows {
			for out := range p.Cols {
				t.Data[out*p.Rows+in] = weights[in*p.Cols+out]
			}
		}
		weights = weights[p.Len():]
	}
	return list
}

// FromTensors returns tensors that fit in a snapshot's layout: the inverse of ToTensors.
func FromTensors(params []model.Param, list []safetensors.Tensor) []float32 {
	byName := make(map[string]*safetensors.Tensor, len(list))
	for i := range list {
		byName[list[i].Name] = &list[i]
	}
	var weights []float32
	for _, p := range params {
		t, at := byName[p.Name], len(weights)
		weights = append(weights, make([]float32, p.Len())...)
		for in := range p.Rows {
			for out := range p.Cols {
				weights[at+in*p.Cols+out] = t.Data[out*p.Rows+in]
			}
		}
	}
	return weights
}

// Fits checks that tensors are exactly the parameters, by name and shape.
func Fits(params []model.Param, tensors []safetensors.Tensor) error {
	byName := make(map[string]*safetensors.Tensor, len(tensors))
	for i := range tensors {
		byName[tensors[i].Name] = &tensors[i]
	}
	for _, p := range params {
		t, ok := byName[p.Name]
		if !ok {
			return fmt.Errorf("there is no %s", p.Name)
		}
		delete(byName, p.Name)
		if !slices.Equal(t.Shape, p.Shape) {
			return fmt.Errorf("%s has the shape %v, the model's is %v", p.Name, t.Shape, p.Shape)
		}
	}
	for _, t := range tensors {
		if byName[t.Name] != nil {
			return fmt.Errorf("the model has no %s", t.Name)
		}
	}
	return nil
}
