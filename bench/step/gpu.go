package main

import (
	"context"
	"slices"
	"time"

	"diskgnn/bench/internal/tool"
	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/graph"
	"diskgnn/train/engine"
	"diskgnn/train/gpu"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
)

// measureGPU times the GPU engine's step: on the device alone, the batch being there,
// and with its copies, one batch after the other.
func measureGPU(batch *graph.Batch, x []float32, m model.Model, sizes graph.Sizes, o options) error {
	if o.device == nil {
		d, err := kernels.Open(0, cuda.Options{})
		if err != nil {
			return err
		}
		defer d.Close()
		o.device = d
	}
	if o.save != "" {
		if err := saveGPU(batch, x, m, sizes, o); err != nil {
			return err
		}
	}
	e, err := gpu.New(engine.Config{Network: m, Sizes: sizes, NoGraphs: !o.graphs, Device: o.device, Recipe: recipe.Recipe{LR: learningRate, Precision: o.precision}})
	if err != nil {
		return err
	}
	defer e.Close()
	if !o.pinned {
		return timeGPU(e, batch, x, nil, o)
	}
	h, err := device.NewHost(4 * len(x))
	if err != nil {
		return err
	}
	defer h.Free()
	copy(h.Float32s(), x)
	return timeGPU(e, batch, h.Float32s(), h.Bytes(), o)
}

func timeGPU(e *gpu.Engine, batch *graph.Batch, x []float32, memory []byte, o options) error {
	w, err := e.NewWork(false, memory)
	if err != nil {
		return err
	}
	defer w.Close()
	var prepare, device, whole []float64
	for range o.warmup + o.steps {
		start := time.Now()
		if err := w.Prepare(batch); err != nil {
			return err
		}
		prepare = append(prepare, milliseconds(start))
	}
	for range o.warmup + o.steps {
		start := time.Now()
		if _, err := step(context.Background(), e, w, x); err != nil {
			return err
		}
		whole = append(whole, milliseconds(start))
	}
	last, err := e.Finish() // a step returns what the one before it found
	if err != nil {
		return err
	}
	for range o.warmup + o.steps {
		took, err := e.Again()
		if err != nil {
			return err
		}
		device = append(device, float64(took.Microseconds())/1e3)
	}
	prepare, device, whole = prepare[o.warmup:], device[o.warmup:], whole[o.warmup:]
	info := e.Info()
	held, _ := e.Device().Held()
	return tool.Print(map[string]any{
		"engine": "gpu", "model": o.model, "device": info.Device, "blas": info.BLAS, "precision": info.Precision, "dropout": o.dropout,
		"layer_orders": info.Orders, "graphs": o.graphs, "pinned": o.pinned, "device_bytes": held,
		"prepare_ms": median(prepare),
		"median_ms":  median(device), "min_ms": slices.Min(device), "max_ms": slices.Max(device),
		"with_copies_ms": median(whole), "steps": o.steps, "loss": last.Loss,
	})
}

// saveGPU saves the weights and losses of an engine without dropout, whose products are
// not rounded.
func saveGPU(batch *graph.Batch, x []float32, m model.Model, sizes graph.Sizes, o options) error {
	m.Dropout = 0
	e, err := gpu.New(engine.Config{Network: m, Sizes: sizes, Device: o.device, Recipe: recipe.Recipe{LR: learningRate}})
	if err != nil {
		return err
	}
	defer e.Close()
	w, err := e.NewWork(false, nil)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.Prepare(batch); err != nil {
		return err
	}
	weights, err := e.Snapshot(nil)
	if err != nil {
		return err
	}
	s := stepper{params: m.Params(), weights: weights, step: func(ctx context.Context) (float64, error) {
		if _, err := step(ctx, e, w, x); err != nil {
			return 0, err
		}
		r, err := e.Finish()
		if err != nil {
			return 0, err
		}
		return r.Loss, nil
	}}
	return s.save(context.Background(), o.save, o)
}
