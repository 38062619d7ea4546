package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/shard"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/pack/slice"
)

const sliceTeaches = `Copies of a pack what one rank of a training needs: the chunks and graphs of the batches
that it computes, and what every rank has, the hot rows and the rows of evaluation. The
files have their lengths and the pack its fingerprint; the rest are holes. So ranks need
no disk in common, and no rank room for all.

   diskgnn slice --rank 0/2 pack /local/pack      for the first of two
   diskgnn slice --rank 1/2 pack /local/pack      for the second

Every byte is checked on the way. diskgnn verify checks a slice by itself. Training
refuses a slice on another rank, in another world, with another --accumulate, and with
--shuffle-batches. The next command is diskgnn train, of that rank.`

func newSliceCommand(g *globals) *cli.Command {
	var o slice.Options
	var skipSpace, given bool
	return g.add(command{
		name:     "slice",
		usage:    "copy what one rank needs of a pack",
		teaches:  sliceTeaches,
		operands: []string{"PACK", "DIR"},
		flags: []cli.Flag{
			flag("rank", "R/W", "which of how many ranks the slice is for, such as 0/2", "", func(text string) error {
				s, err := shard.Parse(text)
				if err != nil {
					return fault.New(fault.ErrUsage, "%q is no rank: write 0/2 for the first of two", text)
				}
				o.Rank, o.World, given = s.Index, s.Count, true
				return nil
			}),
			intFlag("accumulate", "batches of a step, over all ranks, as train will have it", "as many as ranks", &o.Accumulate, 1),
			spaceFlag(&skipSpace),
			forceFlag(&o.Force),
		},
		run: func(ctx context.Context, s *session) (outcome, error) {
			if !given {
				return outcome{}, fault.New(fault.ErrUsage, "--rank is missing: which of how many ranks is the slice for, such as 0/2?")
			}
			if o.Accumulate == 0 {
				o.Accumulate = o.World
			}
			o.Pack = s.args[0]
			var err error
			if o.Out, err = vfs.Destination(s.args[1]); err != nil {
				return outcome{}, err
			}
			s.making.set(o.Out)
			r, err := slice.Run(ctx, outputDisk(skipSpace), o, s.rep)
			if err != nil {
				return outcome{}, err
			}
			return outcome{object: r, lines: []line{
				made(r.Out, r.Fingerprint, r.State),
				{"slice", fmt.Sprintf("rank %d of %d, steps of %s: %s of %s to train on", r.Rank, r.World, units.Of(r.Accumulate, "batch"), units.Count(r.Batches), units.Of(r.PackBatches, "batch"))},
				{"disk", fmt.Sprintf("%s of the pack's %s", budget.FormatBytes(r.SliceBytes), budget.FormatBytes(r.PackBytes))},
				{"written", budget.FormatBytes(r.Copied)},
				{"time", units.Seconds(r.Seconds)},
			}, next: afterSlice(r)}, nil
		},
	})
}

// afterSlice is the training of the rank that has it.
func afterSlice(r slice.Result) string {
	next := fmt.Sprintf("diskgnn train --pack %s --out run --rank %d/%d", units.ShellWord(r.Out), r.Rank, r.World)
	if r.Accumulate != r.World {
		next += fmt.Sprintf(" --accumulate %d", r.Accumulate)
	}
	return next
}
