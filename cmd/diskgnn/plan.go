package main

import (
	"fmt"
	"slices"
	"strings"

	"diskgnn/internal/budget"
	"diskgnn/internal/units"
	"diskgnn/pack/cut"
	"diskgnn/presample"
	"diskgnn/train"
)

// samplesPlan shows what samples would take.
func samplesPlan(p presample.Plan, memory int64) []line {
	lines := []line{
		{"batches", fmt.Sprintf("%s train in %s, %s validation, %s test",
			units.Count(p.TrainBatches), units.Of(p.Epochs, "epoch"), units.Count(p.ValidBatches), units.Count(p.TestBatches))},
		{"a batch", fmt.Sprintf("%s, %s, %s: mean of %s",
			units.Of(int64(p.InputNodes), "input node"), units.Of(int64(p.Edges), "edge"), budget.FormatBytes(int64(p.BatchBytes)), units.Count(p.Measured))},
		{"memory", fmt.Sprintf("up to %s of %s, by %s", budget.FormatBytes(p.MemoryBytes), budget.FormatBytes(memory), units.Of(p.Workers, "worker"))},
		{"disk", free(p.DiskBytes, p.FreeBytes)},
		{"an epoch", fmt.Sprintf("draws and writes %s in %s", budget.FormatBytes(p.EpochBytes), units.Seconds(p.EpochSeconds))},
		{"time", fmt.Sprintf("%s, of them %s to check the dataset", units.Seconds(p.Seconds), units.Seconds(p.VerifySeconds))},
	}
	if p.Measured == 0 {
		return slices.Delete(lines, 1, 2)
	}
	return lines
}

// runPlan shows what a run would take.
func runPlan(p train.Plan, memory int64) []line {
	lines := []line{
		{"run", fmt.Sprintf("%s of %s, by the %s engine, from the store %s",
			units.Of(p.Epochs, "epoch"), units.Of(p.BatchesPerEpoch, "batch"), p.Engine, p.Store)},
		{"memory", fmt.Sprintf("%s of %s, with %s of cache and %s", budget.FormatBytes(p.MemoryBytes), budget.FormatBytes(memory),
			budget.FormatBytes(p.CacheBytes), units.Of(p.Slots, "slot"))},
	}
	add := func(label, format string, args ...any) {
		lines = append(lines, line{label, fmt.Sprintf(format, args...)})
	}
	if p.GPUBytes > 0 {
		add("GPU memory", "%s", budget.FormatBytes(p.GPUBytes))
	}
	add("disk", "%s", free(p.DiskBytes, p.FreeBytes))
	if p.PreloadBytes > 0 {
		add("cache", "reads %s in %s, before the first epoch", budget.FormatBytes(p.PreloadBytes), units.Seconds(p.PreloadSeconds))
	}
	add("an epoch", "reads %s in %s: bound by %s, from %s", budget.FormatBytes(p.EpochBytes), units.Seconds(p.EpochSeconds), p.Bound, units.Of(p.Measured, "batch"))
	if p.ValidSeconds > 0 {
		add("validation", "%s each time", units.Seconds(p.ValidSeconds))
	}
	var links []string
	for _, l := range p.Links {
		links = append(links, l.Link+" "+units.Seconds(l.Seconds))
	}
	add("a batch", "%s", strings.Join(links, ", "))
	add("time", "%s in all", units.Seconds(p.Seconds))
	return lines
}

// free sets the bytes that something takes against those that are free.
func free(need, free int64) string {
	if need > free {
		return fmt.Sprintf("%s, but only %s is free", budget.FormatBytes(need), budget.FormatBytes(free))
	}
	return fmt.Sprintf("%s; %s is free", budget.FormatBytes(need), budget.FormatBytes(free))
}

// planLines shows a plan to people: first the choice that the flags make, then the others.
func planLines(p cut.Plan) []line {
	d, c := &p.Drive, &p.Chosen
	lines := []line{
		{"drive", fmt.Sprintf("reads %s/s in sequence (%s), writes %s/s, reads %s pages/s at random",
			budget.FormatBytes(int64(d.Sequential)), d.Backend, budget.FormatBytes(int64(d.Write)), units.Count(int64(d.Pages)))},
		{"disk", fmt.Sprintf("%s, %.2f times the features", budget.FormatBytes(c.DiskBytes), c.Blowup)},
		{"packing", fmt.Sprintf("%s: reads %s, writes %s", units.Seconds(c.Seconds), budget.FormatBytes(c.BytesRead), budget.FormatBytes(c.BytesWritten))},
		{"an epoch", fmt.Sprintf("reads %s in %s, %.2f times what it uses, with %s of memory",
			budget.FormatBytes(c.EpochBytes), units.Seconds(c.EpochSeconds), c.Amplification, budget.FormatBytes(c.RAMBytes))},
		{"pays", pays(c) + " of reading rows online"},
	}
	if d.Drained > 0 {
		lines[0].text += fmt.Sprintf("; each measured for %s after %s of load", units.Seconds(d.Seconds), units.Seconds(d.Drained))
	} else {
		lines[0].text += fmt.Sprintf("; measured briefly, %s: a drive that was idle may be faster than it keeps up", units.Seconds(d.Seconds))
	}
	if !d.Direct {
		lines[0].text += "; the reads went through the page cache, which may have answered them"
	}
	lines = append(lines, line{"choices", fmt.Sprintf("%8s %7s %8s  %10s %6s  %10s %8s %6s  %10s  %s", "cache", "segment", "dtype", "disk", "blowup", "epoch", "", "amplif", "memory", "pays")})
	for i := range p.Choices {
		c := &p.Choices[i]
		lines = append(lines, line{"", fmt.Sprintf("%8s %7d %8s  %10s %5.2fx  %10s %8s %5.2fx  %10s  %s",
			percent(float64(c.CacheRows)/float64(max(p.Nodes, 1))), c.Segment, c.DType,
			budget.FormatBytes(c.DiskBytes), c.Blowup, budget.FormatBytes(c.EpochBytes), units.Seconds(c.EpochSeconds), c.Amplification, budget.FormatBytes(c.RAMBytes), pays(c))})
	}
	return lines
}

// pays says when packing has paid.
func pays(c *cut.Choice) string {
	if c.BreakEven <= 0 {
		return "never"
	}
	return fmt.Sprintf("after %.1f epochs", c.BreakEven)
}
