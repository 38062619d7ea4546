package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/train"
	"diskgnn/train/exact"
)

const predictTeaches = `Writes what a run's weights make of every node, of a split's, or of those that a file
names, a row for each in node order: logits, classes, or embeddings, which are what the
last hidden layer puts out. Every node is computed from all of its neighbours, as eval
--exact does it. The file's suffix says its form: .npy, an array, beside which NAME.nodes.npy
has the nodes' ids where it is not of all; .csv or .parquet, tables that begin with the id.
NAME.npy.lineage.json beside says which weights and which graph it was made of.

   diskgnn predict --run run --dataset graph --out logits.npy
   diskgnn predict --run run --dataset graph --out classes.npy --output classes --nodes test
   diskgnn predict --run run --dataset tomorrow --out classes.csv --output classes

The graph may be another than the one that was trained on, with as many features a node, which
import preprocessed likewise; import --for predict makes one without labels.`

func newPredictCommand(g *globals) *cli.Command {
	o := exact.PredictOptions{Output: exact.Logits, Nodes: exact.AllNodes}
	o.Weights, o.IO, o.BLAS = train.WeightsBest, "auto", "auto"
	var plan bool
	return g.add(command{
		name:    "predict",
		usage:   "write logits, classes or embeddings of nodes",
		teaches: predictTeaches,
		flags: slices.Concat([]cli.Flag{
			stringFlag("run", "DIR", "what train made", &o.Run),
			stringFlag("dataset", "DIR", "what generate or import made, of the graph that was trained on or of another", &o.Dataset),
			outAs("FILE", "file to make, like logits.npy, classes.csv or embeddings.parquet", &o.Out),
			nameFlag("output", "NAME", "what to write: logits, classes, embeddings", exact.Outputs(), &o.Output),
			stringFlag("nodes", "NAME", "which nodes: all, train, valid, test, or a file of ids, one a line", &o.Nodes),
		}, exactFlags(&o.Options, &plan), []cli.Flag{boolFlag("force", "replace a file that is there", &o.Force)},
			weightsFlags(&o.Weights, &o.Memory, &o.Threads, &o.IO, &o.BLAS)),
		check: func(s *session) error {
			if plan && o.Out == "" {
				o.Out = "logits.npy" // whose form and place are the usual ones
			}
			return s.settle(&o, &o.Memory)
		},
		agrees:   func(context.Context) error { return o.Agrees(vfs.OS) },
		planning: &plan,
		plan: shows(func(ctx context.Context, s *session) (exact.Plan, error) {
			return exact.PlanPrediction(ctx, vfs.OS, o, s.rep)
		}, func(p exact.Plan) outcome { return inferencePlan(p, o.Memory) }),
		run: shows(func(ctx context.Context, s *session) (exact.Prediction, error) {
			return exact.Predict(ctx, vfs.OS, o, s.rep)
		}, predicted),
	})
}

func predicted(p exact.Prediction) outcome {
	lines := []line{
		{"made", p.Out},
		{"array", fmt.Sprintf("%s of %s, %s × %s", p.Output, p.DType, units.Count(p.Rows), units.Count(p.Columns))},
		{"lineage", p.LineageFile},
	}
	return outcome{object: p, lines: slices.Concat(lines, graphLines(&p.Outcome), costLines(&p.Outcome))}
}
