package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"diskgnn/dataset"
	"diskgnn/dataset/export"
	"diskgnn/internal/budget"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
)

const exportTeaches = `Writes a dataset in a form that other tools read.

   diskgnn export --dataset graph --format graphbolt --out tree
   diskgnn export --dataset graph --format npy --out arrays

graphbolt is a source tree of GraphBolt's OnDiskDataset, which diskgnn import reads again;
npy is the dataset's arrays, as NumPy's files. docs/python/diskgnn.py opens datasets, samples
and packs from Python without a copy.`

func newExportCommand(g *globals) *cli.Command {
	var o export.Options
	var dir string
	var skipSpace bool
	return g.add(command{
		name:    "export",
		usage:   "write a dataset in a form that other tools read",
		teaches: exportTeaches,
		flags: []cli.Flag{
			stringFlag("dataset", "DIR", "what generate or import made", &dir),
			stringFlag("format", "NAME", "to write: "+strings.Join(export.Formats(), " or "), &o.Format),
			outFlag(&o.Out, "the directory that is written"),
			memoryFlag(&o.Memory),
			spaceFlag(&skipSpace),
		},
		run: func(ctx context.Context, s *session) (outcome, error) {
			for _, f := range []struct{ name, value string }{{"dataset", dir}, {"format", o.Format}, {"out", o.Out}} {
				if err := required(f.name, f.value); err != nil {
					return outcome{}, err
				}
			}
			if err := s.settle(&o, &o.Memory); err != nil {
				return outcome{}, err
			}
			d, err := dataset.Open(vfs.OS, dir)
			if err != nil {
				return outcome{}, err
			}
			r, err := export.Run(ctx, outputDisk(skipSpace), d, o, s.rep)
			if err != nil {
				return outcome{}, err
			}
			return outcome{object: r, lines: []line{
				{"exported", fmt.Sprintf("%s as %s", r.Out, r.Format)},
				{"graph", fmt.Sprintf("%s, %s", units.Of(r.Nodes, "node"), units.Of(r.Edges, "edge"))},
				{"disk", budget.FormatBytes(r.DiskBytes)},
				{"time", units.Seconds(r.Seconds)},
				held(r.PeakAnon, o.Memory),
			}}, nil
		},
	})
}
