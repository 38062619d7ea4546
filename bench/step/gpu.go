package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/graph"
	"diskgnn/train/gpu"
	"diskgnn/train/model"
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
	precision, ok := gpu.ParsePrecision(o.precision)
	if !ok {
		return fmt.Errorf("--precision %s: there are float32, tf32, bf16", o.precision)
	}
	if o.save != "" {
		if err := saveGPU(batch, x, m, sizes, o); err != nil {
			return err
		}
	}
	engine, err := gpu.New(gpu.Options{Model: m, Sizes: sizes, LR: learningRate, Precision: precision, NoGraphs: !o.graphs, Device: o.device})
	if err != nil {
		return err
	}
	defer engine.Close()
	if !o.pinned {
		return timeGPU(engine, batch, x, nil, o)
	}
	h, err := device.NewHost(4 * len(x))
	if err != nil {
		return err
	}
	defer h.Free()
	copy(h.Float32s(), x)
	return timeGPU(engine, batch, h.Float32s(), h.Bytes(), o)
}

func timeGPU(engine *gpu.Engine, batch *graph.Batch, x []float32, memory []byte, o options) error {
	w, err := engine.NewWork(false, memory)
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
		if _, err := engine.Step(context.Background(), w, gpu.Rows(x)); err != nil {
			return err
		}
		whole = append(whole, milliseconds(start))
	}
	last, err := engine.Finish() // a step tells of the one before it
	if err != nil {
		return err
	}
	for range o.warmup + o.steps {
		took, err := engine.Again()
		if err != nil {
			return err
		}
		device = append(device, float64(took.Microseconds())/1e3)
	}
	prepare, device, whole = prepare[o.warmup:], device[o.warmup:], whole[o.warmup:]
	info := engine.Info()
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"engine": "gpu", "model": o.model, "device": info.Device, "blas": info.BLAS, "precision": info.Precision.String(), "dropout": o.dropout,
		"layer_orders": info.Orders, "graphs": o.graphs, "pinned": o.pinned, "device_bytes": info.DeviceBytes,
		"prepare_ms": median(prepare),
		"median_ms":  median(device), "min_ms": slices.Min(device), "max_ms": slices.Max(device),
		"with_copies_ms": median(whole), "steps": o.steps, "loss": last.Loss,
	})
}

// saveGPU saves the weights and losses of an engine without dropout, whose products are
// not rounded.
func saveGPU(batch *graph.Batch, x []float32, m model.Model, sizes graph.Sizes, o options) error {
	m.Dropout = 0
	engine, err := gpu.New(gpu.Options{Model: m, Sizes: sizes, LR: learningRate, Device: o.device})
	if err != nil {
		return err
	}
	defer engine.Close()
	w, err := engine.NewWork(false, nil)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.Prepare(batch); err != nil {
		return err
	}
	weights, err := engine.Snapshot(nil)
	if err != nil {
		return err
	}
	s := stepper{params: m.Params(), weights: weights, step: func(ctx context.Context) (float64, error) {
		if _, err := engine.Step(ctx, w, gpu.Rows(x)); err != nil {
			return 0, err
		}
		r, err := engine.Finish()
		if err != nil {
			return 0, err
		}
		return r.Loss, nil
	}}
	return s.save(context.Background(), o.save, o)
}
