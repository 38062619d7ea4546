package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/safetensors"
)

// learningRate is Adam's, here and in peer.py.
const learningRate = 1e-3

// checked is the number of first steps with losses that another program must match: the first step checks
// its weights, the others check its gradients and Adam.
const checked = 3

// losses is the file with the reference losses for peer.py.
type losses struct {
	Model  string    `json:"model"`
	Hidden int       `json:"hidden"`
	Heads  int       `json:"heads"`
	LR     float64   `json:"lr"`
	Losses []float64 `json:"losses"` // of the first steps on the batch, without dropout
}

// saved writes the weights of an engine without dropout as the state_dict of a PyTorch module, and
// the losses of the first steps from them.
func (s *steps) saved(params []model.Param, e engine.Engine, step func() (*engine.Outcome, error)) error {
	weights, err := e.Snapshot(nil)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.save, 0o777); err != nil {
		return err
	}
	var tensors []safetensors.Tensor
	for _, p := range params {
		own := weights[:p.Len()]
		weights = weights[p.Len():]
		data := make([]float32, p.Len())
		for in := range p.Rows { // PyTorch keeps the transpose
			for out := range p.Cols {
				data[p.Place(in, out)] = own[in*p.Cols+out]
			}
		}
		tensors = append(tensors, safetensors.Tensor{Name: p.Name, Shape: p.Shape, Data: data})
	}
	if err := writeTensors(filepath.Join(s.save, s.model+".safetensors"), tensors); err != nil {
		return err
	}
	l := losses{Model: s.model, Hidden: s.hidden, Heads: s.heads, LR: learningRate}
	for range checked {
		o, err := step()
		if err != nil {
			return err
		}
		l.Losses = append(l.Losses, o.Loss)
	}
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.save, s.model+".json"), text, 0o666)
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
