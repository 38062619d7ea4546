package main

import (
	"context"
	"flag"
	"log"

	"diskgnn/simulate/gids"
)

// gidsCommand prints the published figures of GIDS on drives beside simulated ones, for 100
// iterations, and the effect of each assumption. Sampling and training times are taken from the
// publication.
func gidsCommand(h *harness, f *flag.FlagSet) func(context.Context, []string) error {
	sensitivities := f.Bool("sensitivities", true, "change each assumption, one at a time")
	return func(ctx context.Context, _ []string) error {
		assume(gids.Assumed())
		got, err := gids.Simulate(ctx, gids.Assumed())
		if err != nil {
			return err
		}
		for i, c := range gids.Published() {
			g := got[i]
			r := row{{"column", c.Name}}
			r = beside(r, "aggregation_seconds", c.Aggregation, g.Aggregation)
			r = beside(r, "end_to_end_seconds", c.End, g.End)
			r = beside(r, "gigabytes_per_second", c.Bandwidth/1e9, g.Bandwidth/1e9)
			if err := h.report(beside(r, "million_requests_per_second", c.Requests/1e6, g.Requests/1e6)); err != nil {
				return err
			}
		}
		asked, have := gids.Compare(gids.Published()), gids.Compare(got)
		for _, r := range []struct {
			name       string
			asked, got float64
		}{
			{"aggregation, mmap over 4 drives", asked.Four, have.Four},
			{"aggregation, mmap over 1 drive", asked.One, have.One},
			{"aggregation, 1 drive over 4", asked.Scaling, have.Scaling},
			{"end to end, mmap over 4 drives", asked.EndFour, have.EndFour},
			{"end to end, mmap over 1 drive", asked.EndOne, have.EndOne},
		} {
			if err := h.report(beside(row{{"ratio", r.name}}, "times", r.asked, r.got)); err != nil {
				return err
			}
		}
		if !*sensitivities {
			return nil
		}
		return h.sensitivities(ctx, got)
	}
}

// beside appends two figures and the relative difference of the second from the first.
func beside(r row, name string, published, simulated float64) row {
	return append(r, field{name + "_published", published}, field{name + "_simulated", simulated}, field{name + "_difference_percent", 100 * (simulated/published - 1)})
}

// sensitivities reports the effect of each assumption.
func (h *harness) sensitivities(ctx context.Context, assumed []gids.Column) error {
	report := func(name string, c []gids.Column) error {
		r := gids.Compare(c)
		return h.report(row{{"assumption", name}, {"mmap_s", c[0].Aggregation}, {"1_drive_s", c[1].Aggregation}, {"2_drives_s", c[2].Aggregation}, {"4_drives_s", c[3].Aggregation},
			{"mmap/4", r.Four}, {"mmap/1", r.One}, {"1/4", r.Scaling}, {"end/4", r.EndFour}, {"end/1", r.EndOne}, {"mmap_hits_percent", 100 * c[0].Hits}, {"gids_hits_percent", 100 * c[1].Hits}})
	}
	if err := report("published", gids.Published()); err != nil {
		return err
	}
	if err := report("as assumed", assumed); err != nil {
		return err
	}
	for _, v := range gids.Variants() {
		a := gids.Assumed()
		v.Set(&a)
		c, err := gids.Simulate(ctx, a)
		if err != nil {
			return err
		}
		if err := report(v.Name, c); err != nil {
			return err
		}
	}
	return nil
}

// assume prints the values that were fixed before comparing, with the source of each.
func assume(a gids.Assumptions) {
	drive, link := a.Presets.Drives[a.Drive], a.Presets.Links[a.Link]
	log.Printf("%s: %v µs, %d requests/s, %d bytes/s (%s)", a.Drive, drive.LatencyMicros, drive.Requests, drive.Bytes, drive.Source)
	log.Printf("%s: %d bytes/s (%s)", a.Link, link.Bytes, link.Source)
	for _, store := range []string{"mmap", "gids"} {
		s := a.Presets.Software[store]
		log.Printf("%s: %d threads, %v µs a request, %v µs a cached page (%s)", store, s.Threads, s.CostMicros, s.TouchMicros, s.Source)
	}
	log.Printf("the hottest fifth gets %.0f %% of the accesses (GIDS's paper); GPU cache %d GiB, window %d (its script for IGB); page cache %d GiB, %d iterations before (assumed)",
		100*a.TopShare, a.GPUCache>>30, a.Window, a.PageCache>>30, a.Warmup)
}
