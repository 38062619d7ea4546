package commands

import (
	"context"
	"fmt"
	"strings"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/shard"
	"diskgnn/internal/stage"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/pack/packfile"
	"diskgnn/pack/slice"
	"diskgnn/presample/mbfile"
	"diskgnn/train/exact"
)

const mergeTeaches = `Combines all shards of a directory, which different machines may have made, into one
directory with the same bytes that a single machine would have made.

   diskgnn presample --dataset graph --out samples --shard 0/2    here
   diskgnn presample --dataset graph --out samples --shard 1/2    there
   diskgnn merge --out samples samples.shard-0-of-2 samples.shard-1-of-2

On the file system of the shards, large files are not copied: they get a second name
in the merged directory. Every byte is checked. The shards may be removed afterwards. The
next command is the same as without shards: diskgnn pack after samples, and diskgnn train
after a pack. Packs are made in shards and merged in the same way.

Shards of a prediction become its file:

   diskgnn merge --out logits.npy logits.npy.shard-0-of-2 logits.npy.shard-1-of-2`

// mergeNext is the advice after a shard was made.
func mergeNext(out string, s shard.Shard) string {
	return fmt.Sprintf("diskgnn merge --out %s SHARDS, when all %d are finished", units.ShellWord(out), s.Count)
}

// merges has the function that merges the shards of each format.
var merges = map[stage.Format]shard.Assemble{
	mbfile.Format:           mbfile.Merge,
	mbfile.MultiLabelFormat: mbfile.Merge,
	mbfile.TypedFormat:      mbfile.Merge,
}

// checks has the function that verifies a merged directory of each format.
var checks = map[stage.Format]shard.Check{
	mbfile.Format:           mbfile.Check,
	mbfile.MultiLabelFormat: mbfile.Check,
	mbfile.TypedFormat:      mbfile.Check,
}

func init() {
	for _, f := range packfile.Formats() {
		merges[f], checks[f] = packfile.Merge, packfile.Check
	}
}

func mergeCommand() command {
	o := shard.Options{Formats: merges, Checks: checks}
	return command{
		name:     "merge",
		resumes:  byItself,
		usage:    "combine all shards of a directory",
		teaches:  mergeTeaches,
		operands: []string{"SHARD..."},
		flags: flags{
			outFlag(&o.Out, "all shards combined"),
			spaceFlag(),
			forceFlag(&o.Force),
		},
		run: func(ctx context.Context, s *session) (outcome, error) {
			if err := required("out", o.Out); err != nil {
				return outcome{}, err
			}
			o.Shards = s.args
			if exact.IsShare(s.disk, s.args[0]) {
				r, err := exact.Merge(ctx, s.disk, exact.MergeOptions{Out: o.Out, Shards: o.Shards, Force: o.Force}, s.rep)
				return outcome{object: r, lines: []line{
					made(r.Out, r.Fingerprint, r.State),
					{"of", fmt.Sprintf("%s of a prediction", units.Of(r.Shards, "shard"))},
					{"disk", budget.FormatBytes(r.DiskBytes)},
					{"time", units.Seconds(r.Seconds)},
				}}, err
			}
			r, err := shard.Merge(ctx, s.disk, o, s.rep)
			if err != nil {
				return outcome{}, err
			}
			return outcome{object: r, lines: []line{
				made(r.Out, r.Fingerprint, r.State),
				{"of", fmt.Sprintf("%s of %s", units.Of(r.Shards, "shard"), r.Format)},
				{"disk", fmt.Sprintf("%s: %s shared with the shards, %s copied",
					budget.FormatBytes(r.DiskBytes), budget.FormatBytes(r.LinkedBytes), budget.FormatBytes(r.CopiedBytes))},
				{"time", units.Seconds(r.Seconds)},
			}, next: afterMerge(r)}, nil
		},
	}
}

// afterMerge is the advice after a merge: the same as without shards.
func afterMerge(r shard.Result) string {
	switch {
	case strings.Contains(r.Format, "samples"):
		return fmt.Sprintf("diskgnn pack --dataset %s --samples %s --out pack", someDataset, units.ShellWord(r.Out))
	case strings.Contains(r.Format, "pack"):
		return fmt.Sprintf("diskgnn train --pack %s --out run", units.ShellWord(r.Out))
	}
	return ""
}

const sliceTeaches = `Copies the part of a pack that one rank of a training needs: the chunks and graphs of the
batches that it computes, the hot rows, and the rows of evaluation. The files keep their
lengths, with holes in place of the rest, and the pack keeps its fingerprint. So ranks need
no shared disk, and no rank needs space for the whole pack.

   diskgnn slice --rank 0/2 pack /local/pack      for the first of two
   diskgnn slice --rank 1/2 pack /local/pack      for the second

Every byte is checked. diskgnn verify checks a slice by itself. Training refuses a slice
with another rank, another number of ranks, another --accumulate, or --shuffle-batches. The
next command is diskgnn train with this rank.`

func sliceCommand() command {
	var o slice.Options
	var given bool
	return command{
		name:     "slice",
		usage:    "copy the part of a pack that one rank needs",
		teaches:  sliceTeaches,
		operands: []string{"PACK", "DIR"},
		flags: flags{
			flag("rank", "R/W", "rank of the slice, and the number of ranks, such as 0/2", "", func(text string) error {
				s, err := shard.Parse(text)
				if err != nil {
					return fault.New(fault.ErrUsage, "%q is no rank: write 0/2 for the first of two", text)
				}
				o.Rank, o.World, given = s.Index, s.Count, true
				return nil
			}),
			intFlag("accumulate", "batches of a step, over all ranks: the --accumulate of train", "the number of ranks", &o.Accumulate, 1),
			spaceFlag(),
			forceFlag(&o.Force),
		},
		run: func(ctx context.Context, s *session) (outcome, error) {
			if !given {
				return outcome{}, fault.New(fault.ErrUsage, "--rank is missing: write 0/2 for the first of two ranks")
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
			r, err := slice.Run(ctx, s.disk, o, s.rep)
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
	}
}

// afterSlice is the command that trains the rank of a slice.
func afterSlice(r slice.Result) string {
	next := fmt.Sprintf("diskgnn train --pack %s --out run --rank %d/%d", units.ShellWord(r.Out), r.Rank, r.World)
	if r.Accumulate != r.World {
		next += fmt.Sprintf(" --accumulate %d", r.Accumulate)
	}
	return next
}
