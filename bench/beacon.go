package main

import (
	"context"
	"errors"
	"flag"
	"strings"

	"diskgnn/simulate/beacon"
)

// beaconCommand prints the results of the BeaconGNN authors' simulator beside this simulation's.
// `diskgnn simulate beacon --workload all` prints the published results as well, and with --set the
// effect of one rule.
func beaconCommand(h *harness, f *flag.FlagSet) func(context.Context, []string) error {
	batches := f.Int("batches", 10, "batches of each mean")
	return func(ctx context.Context, _ []string) error {
		b := beacons{h, ctx, *batches}
		vector := map[string]string{"as they are": "CC 4484, BG-1 1929, BG-DG 1756, BG-SP 332.9, BG-DGSP 267.2, BG-2 207.6"}
		err := b.table("golden vector, µs", golden, beacon.Faithful, "CC,BG-1,BG-DG,BG-SP,BG-DGSP,BG-2", [][]string{nil}, vector)
		return errors.Join(err, b.firmware(), b.authors())
	}
}

// beacons is the shared state of all tables.
type beacons struct {
	*harness
	ctx     context.Context
	batches int
}

// golden is the workload of the golden vector: every node has 300 neighbours.
var golden = beacon.Workload{Name: "golden", Degree: 300, Feature: 400}

// micros returns the mean time between batches on platforms, in µs.
func (b *beacons) micros(w beacon.Workload, m beacon.Mode, names string, settings ...string) ([]beacon.Outcome, error) {
	p := beacon.Defaults(m)
	platforms, err := beacon.FindPlatforms(names)
	if err != nil {
		return nil, err
	}
	if err := p.Set(settings...); err != nil {
		return nil, err
	}
	all, err := beacon.RunAll(b.ctx, []beacon.Study{{Source: beacon.Trees{Workload: w}, Params: p, Platforms: platforms}}, b.batches, 0, nil)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// table reports a row for each list of settings, with the result of the authors' simulator.
func (b *beacons) table(title string, w beacon.Workload, m beacon.Mode, platforms string, settings [][]string, authors map[string]string) error {
	for _, set := range settings {
		name := strings.Join(set, ", ")
		if set == nil {
			name = "as they are"
		}
		all, err := b.micros(w, m, platforms, set...)
		if err != nil {
			return err
		}
		r := row{{title, name}}
		for _, o := range all {
			r = append(r, field{o.Platform, 1e6 * o.Seconds})
		}
		if authors != nil {
			r = append(r, field{"authors' simulator", authors[name]})
		}
		if err := b.report(r); err != nil {
			return err
		}
	}
	return nil
}

// firmware reports BG-DGSP's time over BG-2's by the firmware's cost of a command.
func (b *beacons) firmware() error {
	for _, c := range []struct {
		cost string
		want float64
	}{{"0.1", 1.00}, {"0.2", 1.31}, {"0.4", 2.5}, {"1", 6.3}} {
		r := row{{"firmware's µs of a command, golden workload", c.cost}, {"authors", c.want}}
		for _, m := range []beacon.Mode{beacon.Faithful, beacon.Strict} {
			o, err := b.micros(golden, m, "BG-DGSP,BG-2", "firmware.command="+c.cost+"us")
			if err != nil {
				return err
			}
			r = append(r, field{string(m), o[0].Seconds / o[1].Seconds})
		}
		if err := b.report(r); err != nil {
			return err
		}
	}
	return nil
}

// authors reports the authors' results beside ours.
func (b *beacons) authors() error {
	amazon, err := beacon.FindWorkloads("amazon")
	if err != nil {
		return err
	}
	if err := b.table("DRAM at more channels, amazon, µs", amazon[0], beacon.Faithful, "BG-1,BG-2", [][]string{{"channels=16"}, {"channels=16", "dram.wait=true"}, {"channels=32"}, {"channels=32", "dram.wait=true"}},
		map[string]string{"channels=32": "BG-2 115", "channels=32, dram.wait=true": "BG-2 164, with a DRAM server"}); err != nil {
		return err
	}
	var all [][]string
	for _, l := range [][2]string{{"die.tr", "0us,3us,20us,50us"}, {"firmware.cores", "1,2,4,8"}, {"channel.rate", "333M,800M,1600M,2400M"}, {"dies", "2,4,8,16"}, {"page", "2048,4096,8192,16384"}, {"batch", "32,64,128,256"}} {
		for v := range strings.SplitSeq(l[1], ",") {
			all = append(all, []string{l[0] + "=" + v})
		}
	}
	return b.table("golden workload, faithful, µs", golden, beacon.Faithful, "BG-1,BG-DG,BG-SP,BG-DGSP,BG-2", all, map[string]string{
		"die.tr=20us": "BG-DGSP 1161.4, BG-2 1161.0", "die.tr=50us": "BG-DG 2905, BG-SP 3541",
		"firmware.cores=1": "BG-DGSP 1029, BG-2 205.5", "firmware.cores=2": "BG-DGSP 518, BG-2 205.5", "firmware.cores=4": "BG-DGSP 268, BG-2 205.5", "firmware.cores=8": "BG-DGSP 205, BG-2 205.5",
		"channel.rate=333M": "BG-2 424", "channel.rate=800M": "BG-2 206", "channel.rate=1600M": "BG-2 175", "channel.rate=2400M": "BG-2 175",
		"dies=2": "BG-2 568", "dies=4": "BG-2 301", "dies=8": "BG-2 206", "dies=16": "BG-2 190",
		"page=2048": "BG-1 954", "page=16384": "BG-1 7292", "batch=32": "BG-2 64.5", "batch=256": "BG-2 374",
	})
}
