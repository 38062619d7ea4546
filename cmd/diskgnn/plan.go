package main

import (
	"fmt"

	"diskgnn/internal/budget"
	"diskgnn/internal/units"
	"diskgnn/pack/cut"
)

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
