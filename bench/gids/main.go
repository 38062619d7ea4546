// Program gids prints the published figures of GIDS on drives beside what the simulation
// has for them, and how far each assumption moves that.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"diskgnn/simulate/gids"
)

func main() {
	sensitivities := flag.Bool("sensitivities", true, "change each assumption, one at a time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *sensitivities); err != nil {
		fmt.Fprintln(os.Stderr, "gids:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, sensitivities bool) error {
	got, err := gids.Simulate(ctx, gids.Assumed())
	if err != nil {
		return err
	}
	parameters(gids.Assumed())
	fmt.Println("\nPublished / simulated / difference, of 100 iterations. Sampling and training are taken from the publication.")
	fmt.Printf("\n%-16s %-26s %-26s %-24s %-24s\n", "", "aggregation, s", "end to end, s", "GB/s", "M requests/s")
	for i, c := range gids.Published() {
		g := got[i]
		fmt.Printf("%-16s %s %s %s %s\n", c.Name, beside(c.Aggregation, g.Aggregation), beside(c.End, g.End), beside(c.Bandwidth/1e9, g.Bandwidth/1e9), beside(c.Requests/1e6, g.Requests/1e6))
	}
	asked, have := gids.Compare(gids.Published()), gids.Compare(got)
	fmt.Println()
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
		fmt.Printf("%-32s %s\n", r.name, beside(r.asked, r.got))
	}
	if !sensitivities {
		return nil
	}
	fmt.Printf("\n%-26s %28s %38s %18s\n%-26s %8s %8s %8s %8s  %8s %8s %8s %8s %8s %8s %8s\n", "", "aggregation, s", "ratios", "hits, %", "", "mmap", "1", "2", "4", "mmap/4", "mmap/1", "1/4", "end /4", "end /1", "mmap", "GIDS")
	print := func(name string, c []gids.Column) {
		r := gids.Compare(c)
		fmt.Printf("%-26s %8.1f %8.2f %8.2f %8.2f  %8.1f %8.1f %8.2f %8.1f %8.1f %8.1f %8.1f\n", name, c[0].Aggregation, c[1].Aggregation, c[2].Aggregation, c[3].Aggregation, r.Four, r.One, r.Scaling, r.EndFour, r.EndOne, 100*c[0].Hits, 100*c[1].Hits)
	}
	print("published", gids.Published())
	print("as assumed", got)
	for _, v := range gids.Variants() {
		a := gids.Assumed()
		v.Set(&a)
		c, err := gids.Simulate(ctx, a)
		if err != nil {
			return err
		}
		print(v.Name, c)
	}
	return nil
}

// parameters prints what was fixed before comparing, and where each figure is from.
func parameters(a gids.Assumptions) {
	drive, link := a.Presets.Drives[a.Drive], a.Presets.Links[a.Link]
	fmt.Printf("%s: %v µs, %d requests/s, %d bytes/s (%s)\n", a.Drive, drive.LatencyMicros, drive.Requests, drive.Bytes, drive.Source)
	fmt.Printf("%s: %d bytes/s (%s)\n", a.Link, link.Bytes, link.Source)
	for _, store := range []string{"mmap", "gids"} {
		s := a.Presets.Software[store]
		fmt.Printf("%s: %d threads, %v µs a request, %v µs a cached page (%s)\n", store, s.Threads, s.CostMicros, s.TouchMicros, s.Source)
	}
	fmt.Printf("the hottest fifth gets %.0f %% of the accesses (GIDS's paper); GPU cache %d GiB, window %d (its script for IGB); page cache %d GiB, %d iterations before (assumed)\n",
		100*a.TopShare, a.GPUCache>>30, a.Window, a.PageCache>>30, a.Warmup)
}

// beside writes two figures and how far the second is from the first.
func beside(asked, got float64) string {
	return fmt.Sprintf("%8.4g %8.4g %+6.1f%%", asked, got, 100*(got/asked-1))
}
