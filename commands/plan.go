package commands

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/units"
	"diskgnn/pack"
	"diskgnn/pack/cut"
	"diskgnn/pack/packfile"
	"diskgnn/presample"
	"diskgnn/train"
	"diskgnn/train/decide"
	"diskgnn/train/exact"
)

// samplesPlan describes the predicted cost of samples.
func samplesPlan(p presample.Plan, memory int64) []line {
	lines := []line{
		{"batches", fmt.Sprintf("%s train in %s, %s validation, %s test",
			units.Count(p.TrainBatches), units.Of(p.Epochs, "epoch"), units.Count(p.ValidBatches), units.Count(p.TestBatches))},
		{"a batch", fmt.Sprintf("%s, %s, %s: mean of %s",
			units.Of(int64(p.InputNodes), "input node"), units.Of(int64(p.Edges), "edge"), budget.FormatBytes(int64(p.BatchBytes)), units.Count(p.Measured))},
		{"memory", fmt.Sprintf("up to %s of %s, by %s", budget.FormatBytes(p.MemoryBytes), budget.FormatBytes(memory), units.Of(p.Workers, "worker"))},
		{"", fmt.Sprintf("%s at least", budget.FormatNeed(p.LeastBytes))},
		{"disk", free(p.DiskBytes, p.FreeBytes)},
		{"an epoch", fmt.Sprintf("draws and writes %s in %s", budget.FormatBytes(p.EpochBytes), units.Seconds(p.EpochSeconds))},
		{"time", fmt.Sprintf("%s, of them %s to check the dataset", units.Seconds(p.Seconds), units.Seconds(p.VerifySeconds))},
	}
	if p.Measured == 0 {
		return slices.Delete(lines, 1, 2)
	}
	var parts []line
	for _, t := range p.TypeInputs {
		parts = append(parts, line{"", fmt.Sprintf("%s: %s", t.Name, units.Of(int64(t.Mean), "input node"))})
	}
	for _, t := range p.RelationEdges {
		parts = append(parts, line{"", fmt.Sprintf("%s: %s", t.Name, units.Of(int64(t.Mean), "edge"))})
	}
	return slices.Insert(lines, 2, parts...)
}

// runPlan describes the predicted cost of a run.
func runPlan(p train.Plan, memory int64) outcome {
	out := outcome{object: p, lines: []line{
		{"run", fmt.Sprintf("%s of %s, engine %s, store %s",
			units.Of(p.Epochs, "epoch"), units.Of(p.BatchesPerEpoch, "batch"), p.Engine, p.Store)},
		{"memory", fmt.Sprintf("%s of %s, with %s of cache and %s", budget.FormatBytes(p.MemoryBytes), budget.FormatBytes(memory),
			budget.FormatBytes(p.CacheBytes), units.Of(p.Slots, "slot"))},
	}}
	if p.GPUBytes > 0 {
		out.add("GPU memory", "%s", budget.FormatBytes(p.GPUBytes))
	}
	if p.DiskBytes > 0 {
		out.add("disk", "%s", free(p.DiskBytes, p.FreeBytes))
	}
	if d := p.Drawn; d != nil {
		counted := ""
		if d.Batches < p.BatchesPerEpoch {
			counted = fmt.Sprintf(", by the first %s", units.Of(d.Batches, "batch"))
		}
		out.add("rows", "%s an epoch, %.2f for each node of the dataset, %s%s", units.Count(d.InputNodes), d.Amplification, budget.FormatBytes(d.FeatureBytes), counted)
	}
	out.lines = append(out.lines, typeLines(p.Types, p.TypeInputs)...)
	if p.PreloadBytes > 0 {
		out.add("at first", "reads %s in %s, before the first epoch", budget.FormatBytes(p.PreloadBytes), units.Seconds(p.PreloadSeconds))
	}
	out.add("an epoch", "reads %s in %s, bound by %s", budget.FormatBytes(p.EpochBytes), units.Seconds(p.EpochSeconds), p.Bound)
	if p.EmptyCache {
		out.add("", "with an empty cache; later batches read less, as it fills")
	}
	if x := p.Exact; x != nil {
		out.add("validation", "exact, %s each time: reads %s", exactSeconds(x), exact.AgainstFeatures(x.BytesRead, x.FeatureBytes))
		out.add("", "holds %s; hidden states on disk %s", budget.FormatBytes(p.ExactBytes), free(x.DiskBytes, x.FreeBytes))
	} else if p.ValidSeconds > 0 {
		out.add("validation", "%s each time", units.Seconds(p.ValidSeconds))
	}
	var links []string
	for _, l := range p.Links {
		links = append(links, l.Link+" "+units.Seconds(l.Seconds))
	}
	label := "a batch"
	for _, text := range inLines(links, helpWidth-len("validation  ")) {
		out.add(label, "%s", text)
		label = ""
	}
	out.add("measured", "%s", units.Of(p.Measured, "batch"))
	out.add("time", "%s in all", units.Seconds(p.Seconds))
	return out
}

// inferencePlan describes the predicted cost of computing all layers of a graph.
func inferencePlan(p exact.Plan, memory int64) outcome {
	var lines []line
	for _, l := range p.Layers {
		lines = append(lines, line{fmt.Sprintf("layer %d", l.Layer), fmt.Sprintf("%s in %s: reads %s", units.Of(l.Nodes, "node"), exact.Passes(l.Ranges), budget.FormatBytes(l.BytesRead))})
		lines = append(lines, line{"", fmt.Sprintf("reading %s, computing %s%s", units.Seconds(l.ReadSeconds), units.Seconds(l.ComputeSeconds), writing(l.WriteSeconds))})
		text := "holds " + budget.FormatBytes(l.MemoryBytes)
		if l.GPUBytes > 0 {
			text += fmt.Sprintf(" and %s of the GPU", budget.FormatBytes(l.GPUBytes))
		}
		if l.StateBytes > 0 {
			text += fmt.Sprintf(", makes %s %s", budget.FormatBytes(l.StateBytes), map[bool]string{false: "on disk", true: "in memory"}[l.InMemory])
		}
		lines = append(lines, line{"", text})
	}
	lines = append(lines,
		line{"memory", fmt.Sprintf("up to %s of %s", budget.FormatBytes(p.MemoryBytes), budget.FormatBytes(memory))},
		line{"scratch", free(p.DiskBytes, p.FreeBytes)},
		line{"reads", exact.AgainstFeatures(p.BytesRead, p.FeatureBytes)})
	if p.ReadRate > 0 {
		lines = append(lines, line{"drive", fmt.Sprintf("reads %s, measured briefly; writes are taken to be as fast", units.BytesPerSecond(p.ReadRate))})
	}
	lines = append(lines, line{"time", exactSeconds(&p)})
	if p.Note != "" {
		lines = append(lines, line{"engine", p.Engine + ": " + p.Note})
	}
	for _, problem := range p.Problems {
		lines = append(lines, line{"problem", fault.Line(problem)})
	}
	return outcome{object: p, lines: lines}
}

// exactSeconds describes the time of a plan.
func exactSeconds(p *exact.Plan) string {
	text := units.Seconds(p.Seconds)
	if p.Engine == decide.EngineGPU {
		text += ", without the computing on the GPU"
	}
	return text
}

// writing describes the time of writing, if there is any.
func writing(seconds float64) string {
	if seconds == 0 {
		return ""
	}
	return ", writing " + units.Seconds(seconds)
}

// inLines joins items by commas into lines of at most width characters, without breaking an item.
func inLines(items []string, width int) []string {
	list := slices.Clone(items)
	for i := range len(list) - 1 {
		list[i] += ","
	}
	return filled(list, width)
}

// planned sets a missing --out to a name in the working directory, for the free space of its disk, and
// logs that.
func (s *session) planned(out *string, name string) {
	if *out == "" {
		*out = name
		s.rep.Logf("without --out, free disk space is measured in the working directory")
	}
}

// free compares the needed bytes with the free ones.
func free(need, free int64) string {
	if need > free {
		return fmt.Sprintf("%s, but only %s is free", budget.FormatBytes(need), budget.FormatBytes(free))
	}
	return fmt.Sprintf("%s; %s is free", budget.FormatBytes(need), budget.FormatBytes(free))
}

// packPlan describes the predicted cost of a pack: the choice of the flags, then all others.
func packPlan(o pack.Options, p cut.Plan) outcome {
	d, c := &p.Drive, &p.Chosen
	measured := fmt.Sprintf("briefly, for %s: a drive that was idle may exceed its sustained rate", units.Seconds(d.Seconds))
	if d.Drained > 0 {
		measured = fmt.Sprintf("for %s each, after %s of load", units.Seconds(d.Seconds), units.Seconds(d.Drained))
	}
	lines := []line{
		{"drive", fmt.Sprintf("reads %s (%s), writes %s, %s random pages/s",
			units.BytesPerSecond(d.Sequential), d.Backend, units.BytesPerSecond(d.Write), units.Count(int64(d.Pages)))},
		{"measured", measured},
	}
	if !d.Direct {
		lines = append(lines, line{"", "through the page cache, which may have served the reads"})
	}
	lines = append(lines,
		line{"disk", free(c.DiskBytes, p.FreeBytes)},
		line{"blow-up", fmt.Sprintf("%.2f times the features", c.Blowup)},
		line{"packing", fmt.Sprintf("%s: reads %s, writes %s", units.Seconds(c.Seconds), budget.FormatBytes(c.BytesRead), budget.FormatBytes(c.BytesWritten))},
		line{"an epoch", fmt.Sprintf("reads %s in %s, %.2f times the bytes used",
			budget.FormatBytes(c.EpochBytes), units.Seconds(c.EpochSeconds), c.Amplification)},
	)
	if c.EvalChunkBytes > 0 {
		lines = append(lines, line{"validation", fmt.Sprintf("reads %s from its chunks, unless memory holds rows of it", budget.FormatBytes(c.EvalChunkBytes))})
	}
	lines = append(lines,
		line{"memory", fmt.Sprintf("%s for a trainer with the smallest cache", budget.FormatBytes(c.RAMBytes))},
		line{"pays", pays(c) + ", against reading rows online"},
	)
	var t strings.Builder
	const row = "%3s %6s %8s %7s %10s %7s %10s %11s %10s\n"
	t.WriteString("\nChoices, by --cache, --dtype and the batches that share rows (--max-disk):\n\n")
	fmt.Fprintf(&t, row, "", "cache", "dtype", "batches", "disk", "blow-up", "an epoch", "in", "memory")
	for i := range p.Choices {
		c := &p.Choices[i]
		number := strconv.Itoa(i + 1)
		if i == p.Recommended {
			number = "*" + number
		}
		fmt.Fprintf(&t, row, number, shareOf(c.CacheRows, p.Nodes), c.DType, strconv.Itoa(c.Segment), budget.FormatBytes(c.DiskBytes),
			fmt.Sprintf("%.2fx", c.Blowup), budget.FormatBytes(c.EpochBytes), units.Seconds(c.EpochSeconds), budget.FormatBytes(c.RAMBytes))
	}
	out := outcome{object: p, lines: lines}
	if p.Recommended == cut.None {
		t.WriteString("\n" + wrap("None is recommended: "+p.Why+".", helpWidth) + "\n")
	} else {
		c := &p.Choices[p.Recommended]
		t.WriteString("\n" + wrap(fmt.Sprintf("Number %d is recommended: %s. It pays %s.", p.Recommended+1, p.Why, pays(c)), helpWidth) + "\n")
		out.next = packing(o, p, c)
	}
	out.table = t.String()
	return out
}

// shareOf formats rows as a share of all rows, in the form of --cache.
func shareOf(rows, of int64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", 100*float64(rows)/float64(max(of, 1))), "0"), ".") + "%"
}

// packing returns the command that makes the pack of a choice.
func packing(o pack.Options, p cut.Plan, c *cut.Choice) string {
	s := fmt.Sprintf("diskgnn pack --dataset %s --samples %s --out %s --cache %s",
		units.ShellWord(o.Dataset), units.ShellWord(o.Samples), units.ShellWord(o.Out), shareOf(c.CacheRows, p.Nodes))
	switch {
	case c.DType != p.Chosen.DType:
		s += " --dtype " + c.DType
	case o.DType != pack.DTypeSame:
		s += " --dtype " + o.DType
	}
	if c.Segment > 1 {
		const kib = 1 << 10
		s += fmt.Sprintf(" --max-disk %dKiB", (c.MaxDisk+kib-1)/kib)
	}
	if codec := p.Params.Codec; codec != packfile.CodecNone {
		s += " --compress-chunks " + codec
	}
	if p.Params.EvalChunks {
		s += " --eval-chunks"
	}
	return s
}

// pays returns as text the number of epochs after which packing has saved its own time.
func pays(c *cut.Choice) string {
	if c.BreakEven <= 0 {
		return "never"
	}
	if c.BreakEven < 0.05 {
		return "at once"
	}
	return fmt.Sprintf("after %.1f epochs", c.BreakEven)
}
