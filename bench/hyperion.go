package main

import (
	"context"
	"flag"
	"log"

	"diskgnn/simulate/hyperion"
)

// hyperionCommand prints the figures of the technical report on Hyperion beside simulated ones, the figures
// that follow from its comparison with DistDGL, and the effect of each assumption.
func hyperionCommand(h *harness, f *flag.FlagSet) func(context.Context, []string) error {
	suggest := f.Bool("suggest", true, "compare the suggested number of drives with the best, by events")
	sensitivities := f.Bool("sensitivities", true, "change each assumption, one at a time")
	return func(ctx context.Context, _ []string) error {
		a := hyperion.Assumed()
		assumeHyperion(a)
		cells, err := hyperion.Simulate(ctx, a)
		if err != nil {
			return err
		}
		all := cells
		if *suggest {
			c, err := hyperion.Suggested(ctx, a)
			if err != nil {
				return err
			}
			all = append(all[:len(all):len(all)], c)
		}
		for _, c := range all {
			if err := h.report(row{{"cell", c.Name}, {"bound", c.Bound}, {"published", c.Published}, {"simulated", c.Simulated}, {"difference_percent", c.Difference()}, {"where", c.Where}}); err != nil {
				return err
			}
		}
		implied, err := hyperion.DistDGL()
		if err != nil {
			return err
		}
		for _, i := range implied {
			if err := h.report(row{{"DistDGL", i.Name}, {"tpc_ratio", i.PerCost}, {"throughput_percent", 100 * i.Throughput}, {"follows", i.Follows}}); err != nil {
				return err
			}
		}
		if !*sensitivities {
			return nil
		}
		return h.hyperionVariants(ctx, cells)
	}
}

// hyperionVariants reports the cells under each changed assumption. Costs are left out: nothing changes them.
func (h *harness) hyperionVariants(ctx context.Context, assumed []hyperion.Cell) error {
	report := func(name string, cells []hyperion.Cell, figure func(hyperion.Cell) float64) error {
		r := row{{"assumption", name}}
		for _, c := range cells[hyperion.Costs:] {
			r = append(r, field{c.Short, figure(c)})
		}
		return h.report(r)
	}
	simulated := func(c hyperion.Cell) float64 { return c.Simulated }
	if err := report("published", assumed, func(c hyperion.Cell) float64 { return c.Published }); err != nil {
		return err
	}
	if err := report("as assumed", assumed, simulated); err != nil {
		return err
	}
	for _, v := range hyperion.Variants() {
		a := hyperion.Assumed()
		v.Set(&a)
		cells, err := hyperion.Simulate(ctx, a)
		if err != nil {
			return err
		}
		if err := report(v.Name, cells, simulated); err != nil {
			return err
		}
	}
	return nil
}

// assumeHyperion prints the values that were fixed before comparing, with the source of each.
func assumeHyperion(a hyperion.Assumptions) {
	for _, name := range []string{"intel-p5510", "samsung-980pro"} {
		d := a.Presets.Drives[name]
		log.Printf("%s: %v µs, %d requests/s, %d bytes/s (%s)", name, d.LatencyMicros, d.Requests, d.Bytes, d.Source)
	}
	for _, name := range []string{"pcie4x16", "pcie5x16"} {
		log.Printf("%s: %d bytes/s (%s)", name, a.Presets.Links[name].Bytes, a.Presets.Links[name].Source)
	}
	log.Printf("sampling: %.0f ns for each input node (GIDS's publication, on an A100)", a.SampleNano)
	for _, name := range []string{"a", "b"} {
		log.Printf("training on machine %s: %.1f Tflop/s and %.3f TB/s (data sheets) at %.0f %% (assumed)", name, a.GPUs[name].Operations/1e12, a.GPUs[name].Bytes/1e12, 100*a.Efficiency)
	}
	log.Printf("caches: %d GB on the GPU (the report's studies); RAM without topology and %d GB (assumed)", a.GPUCache/1e9, a.Reserve/1e9)
	log.Printf("GIDS: %d GiB on the GPU, window %d (its script for IGB); the whole table in RAM if it fits (the report), else %.0f %% (its paper)", a.GIDSCache>>30, a.GIDSWindow, 100*a.GIDSBuffer)
	log.Printf("neighbours: a power of the rank, under which the hottest fifth gets %.0f %% of the accesses of GIDS's batches (its paper); drawn at a scale of 1/%d", 100*a.TopShare, a.Scale)
}
