package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/train/gnn/model"
	"diskgnn/train/gpu"
)

// measureGPU times the GPU engine's step: on the device alone, the batch being there,
// and with its copies, one batch after the other.
func measureGPU(batch *graph.Batch, x []float32, m model.Model, sizes graph.Sizes, o options) error {
	precision, ok := gpu.ParsePrecision(o.precision)
	if !ok {
		return fmt.Errorf("--precision %s: there are float32, tf32, bf16", o.precision)
	}
	engine, err := gpu.New(gpu.Options{Model: m, Sizes: sizes, LR: 1e-3, Precision: precision, NoGraphs: !o.graphs})
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
	start := time.Now()
	if err := w.Prepare(batch); err != nil {
		return err
	}
	prepare := milliseconds(start)
	var device, whole []float64
	var last *gpu.Outcome
	for range o.warmup + o.steps {
		start := time.Now()
		if last, err = engine.Step(context.Background(), w, gpu.Rows(x)); err != nil {
			return err
		}
		whole = append(whole, milliseconds(start))
	}
	for range o.warmup + o.steps {
		took, err := engine.Again()
		if err != nil {
			return err
		}
		device = append(device, float64(took.Microseconds())/1e3)
	}
	device, whole = device[o.warmup:], whole[o.warmup:]
	info := engine.Info()
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"engine": "gpu", "model": o.model, "device": info.Device, "blas": info.BLAS, "precision": info.Precision.String(), "dropout": o.dropout,
		"layer_orders": info.Orders, "graphs": o.graphs, "pinned": o.pinned, "device_bytes": info.DeviceBytes, "prepare_ms": prepare,
		"median_ms": median(device), "min_ms": slices.Min(device), "max_ms": slices.Max(device),
		"with_copies_ms": median(whole), "steps": o.steps, "loss": last.Loss,
	})
}
