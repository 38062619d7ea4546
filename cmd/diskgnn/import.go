package main

import (
	"context"
	"strings"

	"github.com/urfave/cli/v2"

	"diskgnn/dataset/importer"
	formats "diskgnn/dataset/importer/all"
)

const importTeaches = `Makes a dataset of a graph in another format, in bounded memory: edges are sorted on
disk, features are streamed.

   diskgnn import --format graphbolt --out graph path/to/tree
   diskgnn import --format gnn-benchmark --binarize --row-normalize --out computers amazon-computers.npz

graphbolt is GraphBolt's OnDiskDataset: a directory with metadata.yaml, and numpy, csv or torch
files. pyg is a graph that PyTorch Geometric saved, such as processed/data.pt. gnn-benchmark is
an npz file with a sparse adjacency and attributes, and its NAME_split.npz beside it; such graphs
are undirected. The next command is diskgnn presample.`

func newImportCommand(g *globals) *cli.Command {
	var out, format string
	var skipSpace bool
	var o importer.Options
	return g.add(command{
		name:     "import",
		usage:    "make a dataset of a graph in another format",
		teaches:  importTeaches,
		operands: []string{"SOURCE"},
		flags: []cli.Flag{
			stringFlag("format", "NAME", "of the source: "+strings.Join(formats.Names(), " or "), &format),
			outFlag(&out, "the dataset"),
			boolFlag("binarize", "make features above zero one, and others zero", &o.Binarize),
			boolFlag("row-normalize", "scale every feature row to the sum 1, after --binarize", &o.RowNormalize),
			boolFlag("symmetrize", "store every edge in both directions, once, without self-loops", &o.Symmetrize),
			dtypeFlag("of the features: float32, float16 or bfloat16", "float32, or the source's if that is float16 or bfloat16", &o.DType),
			boolFlag("compress", "store the features compressed", &o.Compress),
			workersFlag(&o.Workers),
			memoryFlag(&o.Memory),
			spaceFlag(&skipSpace),
			forceFlag(&o.Force),
		},
		run: func(ctx context.Context, s *session) (outcome, error) {
			if err := required("format", format); err != nil {
				return outcome{}, err
			}
			if err := required("out", out); err != nil {
				return outcome{}, err
			}
			o.Sources = s.args
			if err := s.settle(&o, &o.Memory); err != nil {
				return outcome{}, err
			}
			r, err := formats.Import(ctx, outputDisk(skipSpace), out, format, o, s.rep)
			if err != nil {
				return outcome{}, err
			}
			return datasetMade(r, o.Memory), nil
		},
	})
}
