package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"diskgnn/train/model"
	"diskgnn/train/safetensors"
)

// learningRate is Adam's, here and in peer.py.
const learningRate = 1e-3

// checked is how many steps another program is compared with: the first one's loss is that
// of equal weights, the others' show that its gradients and Adam are the same.
const checked = 3

// losses is what peer.py compares its own with.
type losses struct {
	Model  string    `json:"model"`
	Hidden int       `json:"hidden"`
	Heads  int       `json:"heads"`
	LR     float64   `json:"lr"`
	Losses []float64 `json:"losses"` // of the first steps on the batch, without dropout
}

// stepper is an engine without dropout, holding the batch.
type stepper struct {
	params  []model.Param
	weights []float32 // in the order of the parameters, as engines keep them
	step    func(ctx context.Context) (loss float64, err error)
}

// save writes the weights, as the state_dict of a PyTorch module, and the losses of the
// first steps from them.
func (s *stepper) save(ctx context.Context, dir string, o options) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	var tensors []safetensors.Tensor
	for _, p := range s.params {
		own := s.weights[:p.Len()]
		s.weights = s.weights[p.Len():]
		data := make([]float32, p.Len())
		for in := range p.Rows { // PyTorch keeps the transpose
			for out := range p.Cols {
				data[out*p.Rows+in] = own[in*p.Cols+out]
			}
		}
		tensors = append(tensors, safetensors.Tensor{Name: p.Name, Shape: p.Shape, Data: data})
	}
	if err := writeTensors(filepath.Join(dir, o.model+".safetensors"), tensors); err != nil {
		return err
	}
	l := losses{Model: o.model, Hidden: o.hidden, Heads: o.heads, LR: learningRate}
	for range checked {
		loss, err := s.step(ctx)
		if err != nil {
			return err
		}
		l.Losses = append(l.Losses, loss)
	}
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, o.model+".json"), text, 0o666)
}

func writeTensors(name string, tensors []safetensors.Tensor) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	if err := safetensors.Write(w, tensors, map[string]string{"format": "pt"}); err != nil {
		return err
	}
	return w.Flush()
}
