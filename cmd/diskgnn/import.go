package main

import (
	"context"
	"strings"

	"github.com/urfave/cli/v2"

	"diskgnn/dataset"
	"diskgnn/internal/fault"
)

const importTeaches = `Makes a dataset of a graph in another format, in bounded memory: edges are sorted on
disk, features are streamed.

   diskgnn import --format graphbolt --out graph path/to/tree
   diskgnn import --format gnn-benchmark --binarize --row-normalize --out computers amazon-computers.npz

graphbolt is the source tree of GraphBolt's OnDiskDataset: a directory with
metadata.yaml, and numpy or csv files. gnn-benchmark is an npz file with a sparse
adjacency and attributes, and its NAME_split.npz beside it; such graphs are
undirected. The next command is diskgnn presample.`

func newImportCommand(g *globals) *cli.Command {
	var out string
	var skipSpace bool
	var o dataset.ImportOptions
	return g.add(command{
		name:     "import",
		resumes:  byItself,
		usage:    "make a dataset of a graph in another format",
		teaches:  importTeaches,
		operands: []string{"[SOURCE...]"},
		flags: []cli.Flag{
			stringFlag("source", "PATH", "in a configuration file: what the argument would be", &o.Source),
			stringFlag("format", "NAME", "of the source: "+strings.Join(dataset.Formats(), " or "), &o.Format),
			outFlag(&out, "the dataset"),
			boolFlag("binarize", "make features above zero one, and others zero", &o.Binarize),
			boolFlag("row-normalize", "scale every feature row to the sum 1, after --binarize", &o.RowNormalize),
			boolFlag("symmetrize", "store every edge in both directions, once, without self-loops", &o.Symmetrize),
			dtypeFlag("of the features: float32, float16 or bfloat16", "float32, or float16 if the source has that", &o.DType),
			boolFlag("compress", "store the features compressed", &o.Compress),
			workersFlag(&o.Workers),
			memoryFlag(&o.Memory),
			spaceFlag(&skipSpace),
			forceFlag(&o.Force),
		},
		run: func(ctx context.Context, s *session) (outcome, error) {
			if err := required("format", o.Format); err != nil {
				return outcome{}, err
			}
			if err := required("out", out); err != nil {
				return outcome{}, err
			}
			switch {
			case len(s.args) > 1:
				return outcome{}, fault.New(fault.ErrUsage, "unexpected argument %q: flags need two dashes, and values with spaces need quotes", s.args[1])
			case len(s.args) == 1:
				o.Source = s.args[0]
			case o.Source == "":
				return outcome{}, fault.New(fault.ErrUsage, "SOURCE is missing")
			}
			if err := s.settle(&o, &o.Memory); err != nil {
				return outcome{}, err
			}
			r, err := dataset.Import(ctx, outputDisk(skipSpace), out, o, s.rep)
			if err != nil {
				return outcome{}, err
			}
			return datasetMade(r, o.Memory), nil
		},
	})
}
