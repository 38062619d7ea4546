package main

import (
	"diskgnn/bench/internal/tool"
	"diskgnn/pipeline"
)

// training is what train reports, as far as it is needed.
type training struct {
	Device       string `json:"device"`
	GPUBytes     int64  `json:"gpu_bytes"`
	GPUCacheRows int64  `json:"gpu_cache_rows"`
	CacheRows    int64  `json:"cache_rows"`
	Memory       int64  `json:"memory_bytes"`
	Planned      int64  `json:"planned_bytes"`
	PeakAnon     int64  `json:"peak_anon_bytes"`
	Epochs       []struct {
		tool.Epoch
		BoundLink    string              `json:"bound_stage"`
		BoundSeconds float64             `json:"bound_seconds"`
		Links        []pipeline.LinkTime `json:"stages"`
	} `json:"epochs"`
}

// figures are those of a run, of its epochs' medians where they have some.
type figures struct {
	Round        int                `json:"round"`
	Kind         string             `json:"kind"`
	Device       string             `json:"device"`
	Rate         float64            `json:"sequential_bytes_per_second,omitempty"`
	CacheRows    int64              `json:"cache_rows"`
	GPUCacheRows int64              `json:"gpu_cache_rows"`
	Seconds      float64            `json:"epoch_seconds"`
	All          []float64          `json:"all_epochs"`
	UsefulBytes  int64              `json:"useful_bytes"`
	BytesRead    int64              `json:"bytes_read"`
	Busy         map[string]float64 `json:"busy_seconds"` // of each link, over its workers
	BoundLink    string             `json:"bound_stage"`
	OverBound    float64            `json:"epoch_over_slowest_stage"`
	GPUBusy      float64            `json:"gpu_busy_share"` // steps and gathers: what keeps its processors at work
	Processors   float64            `json:"processors_busy"`
	Memory       memory             `json:"memory"`
}

// memory is in bytes.
type memory struct {
	Allowed      int64 `json:"allowed"`
	Planned      int64 `json:"planned"`
	Anon         int64 `json:"peak_anonymous"`
	Locked       int64 `json:"peak_locked"`
	AnonGrowth   int64 `json:"anonymous_growth"` // after the first epoch
	LockedGrowth int64 `json:"locked_growth"`
	GPUHeld      int64 `json:"gpu_held"` // that the program took
	GPU          int64 `json:"peak_gpu"` // of the process, the driver's share included
	GPUGrowth    int64 `json:"gpu_growth"`
}

func (f *figures) take(t *training, w *watched) {
	f.Device, f.CacheRows, f.GPUCacheRows = t.Device, t.CacheRows, t.GPUCacheRows
	f.Processors = w.processors
	f.Memory = memory{Allowed: t.Memory, Planned: t.Planned, Anon: w.anon.most, Locked: w.locked.most, AnonGrowth: w.anon.growth(),
		LockedGrowth: w.locked.growth(), GPUHeld: t.GPUBytes, GPU: w.gpu.most, GPUGrowth: w.gpu.growth()}
	epochs := t.Epochs[min(1, len(t.Epochs)-1):]
	busy := make(map[string][]float64)
	var over, shares []float64
	for i := range epochs {
		e := &epochs[i]
		f.All = append(f.All, e.Seconds)
		f.UsefulBytes, f.BytesRead, f.BoundLink = e.UsefulBytes, e.BytesRead, e.BoundLink
		over = append(over, e.Seconds/e.BoundSeconds)
		share := 0.0
		for _, s := range e.Links {
			busy[s.Link] = append(busy[s.Link], s.Alone())
			if s.Link == "compute" || s.Link == "GPU gather" {
				share += s.Busy / e.Seconds
			}
		}
		shares = append(shares, share)
	}
	f.Seconds, f.OverBound, f.GPUBusy = tool.Median(f.All), tool.Median(over), tool.Median(shares)
	f.Busy = make(map[string]float64)
	for link, all := range busy {
		f.Busy[link] = tool.Median(all)
	}
}

// summary compares the medians; of what was measured, it has the least and the most too.
type summary struct {
	Rounds int `json:"rounds"`
	// Disk is what the drive needs for the useful bytes of an epoch, Compute what the GPU
	// needs for its steps: without anything beside them, or else while rows are streamed.
	Disk     tool.Spread  `json:"disk_seconds"`
	Compute  tool.Spread  `json:"compute_seconds"`
	Streamed tool.Spread  `json:"streamed_epoch"`
	Ratio    tool.Spread  `json:"ratio"` // of each round, Streamed over the larger of the two
	InMemory *tool.Spread `json:"in_memory_epoch,omitempty"`
	Serial   *tool.Spread `json:"serial_epoch,omitempty"`
	Speedup  float64      `json:"serial_over_streamed,omitempty"` // of the medians
}

func summarize(runs []figures) summary {
	of := func(kind string, value func(f *figures) float64) (all []float64) {
		for i := range runs {
			if runs[i].Kind == kind {
				all = append(all, value(&runs[i]))
			}
		}
		return all
	}
	seconds := func(f *figures) float64 { return f.Seconds }
	compute := func(f *figures) float64 { return f.Busy["compute"] }
	streaming := of(streamed, seconds)
	disk := of(streamed, func(f *figures) float64 { return float64(f.UsefulBytes) / f.Rate })
	computing := of(inMemory, compute)
	if computing == nil {
		computing = of(streamed, compute)
	}
	var ratios []float64
	for i, s := range streaming {
		ratios = append(ratios, s/max(disk[i], computing[i]))
	}
	s := summary{Rounds: len(streaming), Disk: tool.SpreadOf(disk), Compute: tool.SpreadOf(computing), Streamed: tool.SpreadOf(streaming), Ratio: tool.SpreadOf(ratios)}
	if all := of(inMemory, seconds); all != nil {
		spread := tool.SpreadOf(all)
		s.InMemory = &spread
	}
	if all := of(serially, seconds); all != nil {
		spread := tool.SpreadOf(all)
		s.Serial, s.Speedup = &spread, spread.Median/s.Streamed.Median
	}
	return s
}
