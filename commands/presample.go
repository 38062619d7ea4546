package commands

import (
	"context"
	"fmt"

	"diskgnn/internal/budget"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/presample"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/topology"
	"diskgnn/presample/walk"
)

const presampleTeaches = `Draws every mini-batch of the training in advance, so that all its reads are known
before the first one happens: seed nodes, the neighbours they draw hop by hop, and
how often each node is needed. Validation and test batches are drawn once.

   diskgnn presample --dataset graph --out samples
   diskgnn presample --dataset graph --out samples --fanout 10,10 --epochs 5 --eval-fanout all

A model has one layer for each fanout. With --epochs 1 every training epoch repeats the
same samples; more epochs need more disk, and repeat less. The next command is diskgnn
pack.

With --shard 1/4 it draws the second quarter of the batches, into samples.shard-1-of-4, on
any machine; diskgnn merge combines all four. With --shard auto in a task of a Slurm array,
or --shard auto/4 in a Kubernetes Job of four, each process draws its own shard.

--plan draws only a few batches, and prints the estimated cost of all.`

func presampleCommand() command {
	var o presample.Options
	var part part
	var plan bool
	o.EnsureDefaults()
	o.Workers, o.Memory = 0, 0
	return command{
		name:    "presample",
		resumes: byItself,
		usage:   "draw every mini-batch in advance",
		teaches: presampleTeaches,
		groups: []group{
			{"Sampling", flags{
				stringFlag("dataset", "DIR", "dataset, made by generate or import", &o.Dataset),
				outFlag(&o.Out, "the samples"),
				intFlag("batch-size", "seed nodes of a mini-batch", "", &o.BatchSize, 1),
				fanoutFlag(&o.Fanout),
				flag("relation-fanout", "LIST", "in a typed graph: fanouts of relations that differ, like author:writes:paper=5,10;paper:cites:paper=20,20", "", parsed(&o.RelationFanout, presample.ParseRelationFanout)),
				boolFlag("merge-relations", "in a typed graph: a fanout counts the neighbours of all relations together, not of each", &o.Merged),
				stringFlag("eval-fanout", "LIST", "fanout for validation and test: same, all, or a list like --fanout", &o.EvalFanout),
				intFlag("epochs", "sample epochs to draw; training repeats them in turn", "", &o.Epochs, 1),
				positiveFlag("train-ratio", "share of the training nodes to use", &o.TrainRatio),
				nameFlag("order", "NAME", "order of the batches: random; overlap: those that share input nodes follow each other; dispersed or sequential: drawn from some partitions at a time", sampler.Orders(), &o.Order),
				intFlag("partitions", "partitions of the graph, with dispersed and sequential", "", &o.Partitions, 0),
				intFlag("buffer", "partitions that batches are drawn from at a time", "", &o.Buffer, 0),
				nameFlag("walk", "NAME", "how dispersed changes partitions: sweep, beta or comet", walk.Names(), &o.Walk),
				nameFlag("sampler", "NAME", "choice of neighbours: uniform, each node by itself; labor, the same neighbours for several nodes, so that batches are smaller", sampler.Methods(), &o.Sampler),
				intFlag("batch-dependency", "with labor: successive batches over which the choices change; 1: each batch chooses anew", "", &o.BatchDependency, 1),
				boolFlag("layer-dependency", "with labor: the same choices in all layers", &o.LayerDependency),
				seedFlag(&o.Seed),
			}},
			{"Execution", append(flags{
				boolFlag("plan", "draw a few batches, write nothing, and print the estimated cost of the samples", &plan),
				shardFlag("draw one part of N, from 0, for diskgnn merge; auto or auto/N: the part that the scheduler assigns", &part),
				nameFlag("topology", "NAME", "access to neighbours: mapped, or cached: some in memory, the others read while drawing", topology.Levels(), &o.Topology.Level),
				rowFlag(preference("topology-memory", "the rest of --memory"), &o.Topology.Memory),
				rowFlag(preference("topology-order", "reach"), &o.Topology.Order),
			}, stageFlags(&o.Workers, &o.Memory, &o.Force)...)},
		},
		check: func(s *session) (err error) {
			if plan {
				s.planned(&o.Out, "samples")
			}
			if o.Shard, err = s.shard(part); err != nil {
				return err
			}
			return s.settle(&o, &o.Memory)
		},
		agrees:   func(ctx context.Context) error { return presample.Agrees(ctx, vfs.OS, o) },
		planning: &plan,
		plan: shows(func(ctx context.Context, s *session) (presample.Plan, error) {
			return presample.MakePlan(ctx, s.disk, o, s.rep)
		}, func(p presample.Plan) outcome { return outcome{object: p, lines: samplesPlan(p, o.Memory)} }),
		run: shows(func(ctx context.Context, s *session) (presample.Result, error) {
			return presample.Run(ctx, s.disk, o, s.rep)
		}, func(r presample.Result) outcome { return sampled(o, r) }),
	}
}

func sampled(o presample.Options, r presample.Result) outcome {
	lines := []line{
		made(r.Out, r.Fingerprint, r.State),
		{"batches", fmt.Sprintf("%s train in %s, %s validation, %s test",
			units.Count(r.TrainBatches), units.Of(r.Epochs, "epoch"), units.Count(r.ValidBatches), units.Count(r.TestBatches))},
		{"nodes", fmt.Sprintf("%s, %s", units.Of(r.SeedNodes, "seed node"), units.Of(r.InputNodes, "input node"))},
		{"edges", units.Count(r.Edges)},
		{"disk", budget.FormatBytes(r.DiskBytes)},
		{"time", fmt.Sprintf("%s: verifying %s, sampling %s", units.Seconds(r.Seconds), units.Seconds(r.VerifySeconds), units.Seconds(r.SampleSeconds))},
	}
	if r.EdgesPerSecond > 0 {
		lines = append(lines, line{"rate", fmt.Sprintf("%s edges/s, %.1f batches/s", units.Count(int64(r.EdgesPerSecond)), r.BatchesPerSecond)})
	}
	out := outcome{object: r, lines: append(lines, held(r.PeakAnon, o.Memory)), next: mergeNext(o.Out, o.Shard)}
	if o.Shard.Whole() {
		out.next = fmt.Sprintf("diskgnn pack --dataset %s --samples %s --out pack", units.ShellWord(o.Dataset), units.ShellWord(r.Out))
		out.noPack = withoutPack(r.FeatureBytes, o.Memory, o.Dataset, r.Out)
	}
	return out
}
