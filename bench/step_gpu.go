package main

import (
	"context"
	"slices"
	"time"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/graph/batchcodec"
	"diskgnn/train/engine"
	"diskgnn/train/gpu"
)

// measureGPU times the GPU engine's step: on the device alone, with the batch there, and with its
// copies, in consecutive batches.
func (s *steps) measureGPU(ctx context.Context) error {
	if s.device == nil {
		d, err := kernels.Open(0, cuda.Options{})
		if err != nil {
			return err
		}
		defer d.Close()
		s.device = d
	}
	if s.save != "" {
		if err := s.saveGPU(ctx); err != nil {
			return err
		}
	}
	c := s.config(s.dropout)
	c.NoGraphs, c.InBits, c.Recipe.Precision = !s.graphs, s.inBits, s.precision
	if s.inBits {
		s.batch = batchcodec.ToBits(s.batch)
	}
	e, err := gpu.New(c)
	if err != nil {
		return err
	}
	defer e.Close()
	if !s.pinned {
		return s.timeGPU(ctx, e, s.x, nil)
	}
	h, err := device.NewHost(4 * len(s.x))
	if err != nil {
		return err
	}
	defer h.Free()
	copy(h.Float32s(), s.x)
	return s.timeGPU(ctx, e, h.Float32s(), h.Bytes())
}

func (s *steps) timeGPU(ctx context.Context, e *gpu.Engine, x []float32, memory []byte) error {
	w, err := e.NewWork(false, memory)
	if err != nil {
		return err
	}
	defer w.Close()
	var prepare, device, whole []float64
	for range s.warmup + s.steps {
		start := time.Now()
		if err := w.Prepare(s.batch); err != nil {
			return err
		}
		prepare = append(prepare, milliseconds(start))
	}
	for range s.warmup + s.steps {
		start := time.Now()
		if _, err := train(ctx, e, w, x); err != nil {
			return err
		}
		whole = append(whole, milliseconds(start))
	}
	last, err := e.Finish() // a step returns the outcome of the step before it
	if err != nil {
		return err
	}
	for range s.warmup + s.steps {
		took, err := e.Again()
		if err != nil {
			return err
		}
		device = append(device, float64(took.Microseconds())/1e3)
	}
	device = device[s.warmup:]
	info := e.Info()
	held, _ := s.device.Held()
	return s.report(row{
		{"engine", "gpu"}, {"model", s.model}, {"device", info.Device}, {"blas", info.BLAS}, {"precision", info.Precision}, {"dropout", s.dropout},
		{"layer_orders", info.Orders}, {"graphs", s.graphs}, {"pinned", s.pinned}, {"in_bits", s.inBits}, {"device_bytes", held},
		{"prepare_ms", median(prepare[s.warmup:])},
		{"median_ms", median(device)}, {"min_ms", slices.Min(device)}, {"max_ms", slices.Max(device)},
		{"with_copies_ms", median(whole[s.warmup:])}, {"steps", s.steps}, {"loss", last.Loss},
	})
}

// saveGPU saves the weights and losses of an engine without dropout, and with unrounded products.
func (s *steps) saveGPU(ctx context.Context) error {
	c := s.config(0)
	e, err := gpu.New(c)
	if err != nil {
		return err
	}
	defer e.Close()
	w, err := e.NewWork(false, nil)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.Prepare(s.batch); err != nil {
		return err
	}
	return s.saved(c.Network.Params(), e, func() (*engine.Outcome, error) {
		if _, err := train(ctx, e, w, s.x); err != nil {
			return nil, err
		}
		return e.Finish()
	})
}
