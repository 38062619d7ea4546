package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"diskgnn/internal/budget"
	"diskgnn/internal/shard"
	"diskgnn/internal/stage"
	"diskgnn/internal/units"
	"diskgnn/pack/packfile"
	"diskgnn/presample/mbfile"
)

const mergeTeaches = `Makes one directory of all its shards, which different machines may have made: the
same bytes that one machine alone would have made.

   diskgnn presample --dataset graph --out samples --shard 0/2    here
   diskgnn presample --dataset graph --out samples --shard 1/2    there
   diskgnn merge --out samples samples.shard-0-of-2 samples.shard-1-of-2

On the file system of the shards, large files are not copied: they get a second name
in the directory made. Every byte is checked on the way. The shards may be removed afterwards. The next command is
the one that would have followed without shards: diskgnn pack, of samples, and
diskgnn train, of a pack, whose shards are made and merged alike.`

// mergeNext is what follows the making of a shard.
func mergeNext(out string, s shard.Shard) string {
	return fmt.Sprintf("diskgnn merge --out %s SHARDS, when all %d are there", units.ShellWord(out), s.Count)
}

// merges says how the shards of each format are made one.
var merges = map[stage.Format]shard.Assemble{
	mbfile.Format:             mbfile.Merge,
	mbfile.MultiLabelFormat:   mbfile.Merge,
	packfile.Format:           packfile.Merge,
	packfile.MultiLabelFormat: packfile.Merge,
}

// checks says how the wholes are looked at.
var checks = map[stage.Format]shard.Check{
	mbfile.Format:             mbfile.Check,
	mbfile.MultiLabelFormat:   mbfile.Check,
	packfile.Format:           packfile.Check,
	packfile.MultiLabelFormat: packfile.Check,
}

func newMergeCommand(g *globals) *cli.Command {
	o := shard.Options{Formats: merges, Checks: checks}
	var skipSpace bool
	return g.add(command{
		name:     "merge",
		resumes:  byItself,
		usage:    "make one directory of its shards",
		teaches:  mergeTeaches,
		operands: []string{"SHARD..."},
		flags: []cli.Flag{
			outFlag(&o.Out, "the whole"),
			spaceFlag(&skipSpace),
			forceFlag(&o.Force),
		},
		run: func(ctx context.Context, s *session) (outcome, error) {
			if err := required("out", o.Out); err != nil {
				return outcome{}, err
			}
			o.Shards = s.args
			r, err := shard.Merge(ctx, outputDisk(skipSpace), o, s.rep)
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
	})
}

// afterMerge is what follows the whole: what follows it without shards.
func afterMerge(r shard.Result) string {
	switch {
	case strings.Contains(r.Format, "samples"):
		return fmt.Sprintf("diskgnn pack --dataset %s --samples %s --out pack", someDataset, units.ShellWord(r.Out))
	case strings.Contains(r.Format, "pack"):
		return fmt.Sprintf("diskgnn train --pack %s --out run", units.ShellWord(r.Out))
	}
	return ""
}
