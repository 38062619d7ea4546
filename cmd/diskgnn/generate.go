package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"diskgnn/dataset"
	"diskgnn/internal/budget"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
)

const generateTeaches = `Makes a graph to try things on: degrees follow a power law, most edges stay inside
communities, and a node's label can be told from its neighbourhood but hardly from
its own features. It is streamed to disk, so that it may be far larger than memory.

   diskgnn generate --out graph
   diskgnn generate --out big --nodes 50000000 --dim 256 --dtype bfloat16

The next command is diskgnn presample.`

func newGenerateCommand(g *globals) *cli.Command {
	var out string
	var skipSpace bool
	var o dataset.GenerateOptions
	o.EnsureDefaults()
	o.Workers, o.Memory = 0, 0
	return g.add(command{
		name:    "generate",
		resumes: byItself,
		usage:   "make a synthetic graph",
		teaches: generateTeaches,
		flags: []cli.Flag{
			outFlag(&out, "the dataset"),
			intFlag("nodes", "number of nodes", "", &o.Nodes, 1),
			positiveFlag("avg-degree", "stored directed edges per node", &o.AvgDegree),
			intFlag("dim", "elements of a feature row", "", &o.Dim, 1),
			intFlag("classes", "number of classes", "", &o.Classes, 2),
			dtypeFlag("of the features: float32, float16 or bfloat16", string(o.DType), &o.DType),
			boolFlag("compress", "store the features compressed", &o.Compress),
			boolFlag("multi-label", "give nodes any number of classes", &o.MultiLabel),
			positiveFlag("train-ratio", "share of the nodes to train on; a fifth of it each validates and tests", &o.TrainRatio),
			seedFlag(&o.Seed),
			workersFlag(&o.Workers),
			memoryFlag(&o.Memory),
			spaceFlag(&skipSpace),
			forceFlag(&o.Force),
		},
		check: func(s *session) error {
			if err := required("out", out); err != nil {
				return err
			}
			return s.settle(&o, &o.Memory)
		},
		agrees: func(ctx context.Context) error { return dataset.GenerateAgrees(ctx, vfs.OS, out, o) },
		run: shows(func(ctx context.Context, s *session) (dataset.Result, error) {
			return dataset.Generate(ctx, outputDisk(skipSpace), out, o, s.rep)
		}, func(r dataset.Result) outcome { return datasetMade(r, o.Memory) }),
	})
}

// ofLabels says after the number of classes that a node may have several.
func ofLabels(kind string) string {
	if kind == "class" {
		return ""
	}
	return ", any number per node"
}

// labelLines says which labels and splits a dataset has.
func labelLines(kind string, classes int, unlabelled, train, valid, test int64) []line {
	if kind == dataset.NoLabels {
		return []line{{"labels", "none, and no splits: it is one to predict on"}}
	}
	return []line{
		{"labels", fmt.Sprintf("%s%s, %s unlabelled", units.Of(classes, "class"), ofLabels(kind), units.Of(unlabelled, "node"))},
		{"splits", fmt.Sprintf("%s train, %s validation, %s test", units.Count(train), units.Count(valid), units.Count(test))},
	}
}

// datasetMade describes what generate and import made.
func datasetMade(r dataset.Result, memory int64) outcome {
	lines := []line{
		made(r.Out, r.Fingerprint, r.State),
		{"graph", fmt.Sprintf("%s, %s", units.Of(r.Nodes, "node"), units.Of(r.Edges, "edge"))},
		{"features", fmt.Sprintf("%d × %s", r.Dim, r.DType)},
	}
	lines = append(lines, labelLines(r.LabelKind, r.Classes, r.Unlabelled, r.Train, r.Valid, r.Test)...)
	if r.Compression != "" {
		table := float64(r.Nodes) * float64(r.Dim*r.DType.Size())
		lines = append(lines, line{"compressed", fmt.Sprintf("features to %s (%.2fx)", budget.FormatBytes(r.FeatureBytes), table/float64(r.FeatureBytes))})
	}
	if r.FeaturesAlone != nil {
		lines = append(lines, line{"baseline", fmt.Sprintf("features alone score %s", percent(*r.FeaturesAlone))})
	}
	next := fmt.Sprintf("diskgnn presample --dataset %s --out samples", units.ShellWord(r.Out))
	if r.LabelKind == dataset.NoLabels {
		next = predicting(someRun, r.Out)
	}
	return outcome{
		object: r,
		lines: append(lines,
			line{"disk", budget.FormatBytes(r.DiskBytes)},
			line{"time", units.Seconds(r.Seconds)},
			held(r.PeakAnon, memory)),
		next: next,
	}
}
