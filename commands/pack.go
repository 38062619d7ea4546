package commands

import (
	"context"
	"fmt"

	"diskgnn/internal/budget"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/pack"
	"diskgnn/pack/cut"
	"diskgnn/pack/packfile"
)

const packTeaches = `Lays the features of every sampled mini-batch out on disk in the order in which
they will be read. The rows that most batches touch are kept apart, once, for
memory; the others lie next to each other, batch by batch. A pack has everything that
training needs: the dataset and the samples may be removed.

   diskgnn pack --dataset graph --samples samples --out pack
   diskgnn pack --dataset graph --samples samples --out small --cache 10% --dtype bf16

--cache is the smallest cache of a trainer; --bands are the larger caches that it may
choose, and each costs disk once. --plan packs nothing: it prints the costs and savings of
these and other choices:

   diskgnn pack --dataset graph --samples samples --out pack --plan

With --shard 1/4 it packs the second quarter of the batches, into pack.shard-1-of-4,
on any machine that has the dataset and all samples; diskgnn merge combines all four into
the pack. With --shard auto in a task of a Slurm array, or --shard auto/4 in a Kubernetes Job
of four, each process packs its own shard.

The next command is diskgnn train.`

func packCommand() command {
	var o pack.Options
	var part part
	o.EnsureDefaults()
	o.Workers, o.Memory, o.Bands = 0, 0, pack.DefaultBands() // which the help shows
	var plan bool
	c := command{
		name:    "pack",
		resumes: byItself,
		usage:   "lay the features out in the order in which they are read",
		teaches: packTeaches,
		flags: append(flags{
			stringFlag("dataset", "DIR", "dataset, made by generate or import", &o.Dataset),
			stringFlag("samples", "DIR", "samples of the dataset, made by presample", &o.Samples),
			outFlag(&o.Out, "the pack"),
			sizeFlag("cache", "smallest cache of a trainer: a share of the rows, or bytes", "", budget.UnitPercent, &o.Cache),
			floatsFlag("bands", "larger caches that a trainer may choose, in percent of the rows, or none", &o.Bands),
			sizeFlag("max-disk", "limit of the pack's size: bytes, or a multiple (3x) of the feature table", "", budget.UnitTimes, &o.MaxDisk),
			nameFlag("policy", "NAME", "policy of the cache: static, the most used rows, or min, the rows needed soonest", pack.Policies(), &o.Policy),
			stringFlag("dtype", "TYPE", "type of the packed features: same, bf16, fp16, int8 or int4", &o.DType),
			nameFlag("compress-chunks", "CODEC", "compression of chunks: none, s2, zstd, or auto, the one that loads fastest here", pack.Codecs(), &o.Compress),
			boolFlag("eval-chunks", "give validation batches chunks too, for trainers without memory for their rows", &o.EvalChunks),
			ioFlag(&o.IO),
			boolFlag("plan", "pack nothing: print the costs of this and other choices", &plan),
			shardFlag("pack one part of N, from 0, for diskgnn merge; auto or auto/N: the part that the scheduler assigns", &part),
			outputFlag("plan-file", "FILE", "with --plan, the file to write; without, the file with the choices made by measuring", &o.PlanFile),
		}, stageFlags(&o.Workers, &o.Memory, &o.Force)...),
		check: func(s *session) (err error) {
			if plan {
				s.planned(&o.Out, "pack")
			}
			if o.Shard, err = s.shard(part); err != nil {
				return err
			}
			return s.settle(&o, &o.Memory)
		},
		agrees:   func(ctx context.Context) error { return pack.Agrees(ctx, vfs.OS, o) },
		planning: &plan,
		plan: shows(func(ctx context.Context, s *session) (cut.Plan, error) {
			return pack.MakePlan(ctx, s.disk, o, s.rep)
		}, func(p cut.Plan) outcome { return packPlan(o, p) }),
		run: shows(func(ctx context.Context, s *session) (pack.Result, error) {
			return pack.Run(ctx, s.disk, o, s.rep)
		}, func(r pack.Result) outcome { return packed(o, r) }),
	}
	o.Bands = nil // unless the flag is given
	return c
}

// evaluationRows describes the rows for evaluation.
func evaluationRows(r pack.Result) string {
	s := rows(r.EvalRows, r.EvalBytes)
	if r.EvalChunkBytes > 0 {
		s += "; chunks of validation batches, " + budget.FormatBytes(r.EvalChunkBytes)
	}
	return s
}

func packed(o pack.Options, r pack.Result) outcome {
	next, noPack := fmt.Sprintf("diskgnn train --pack %s --out run", units.ShellWord(r.Out)), withoutPack(r.FeatureBytes, o.Memory, o.Dataset, o.Samples)
	if !o.Shard.Whole() {
		next, noPack = mergeNext(o.Out, o.Shard), ""
	}
	decided := "deciding"
	if o.Policy == packfile.PolicyMin && r.State == "new" {
		decided = "simulating the cache"
	}
	return outcome{
		object: r,
		lines: []line{
			made(r.Out, r.Fingerprint, r.State),
			{"batches", fmt.Sprintf("%s of %s rows", units.Count(r.Batches), r.DType)},
			{"hot", rows(r.HotRows, r.HotBytes)},
			{"cold", rows(r.ColdRows, r.ColdBytes)},
			{"evaluation", evaluationRows(r)},
			{"graphs", budget.FormatBytes(r.GraphBytes)},
			{"disk", fmt.Sprintf("%s, %.2f times the features", budget.FormatBytes(r.DiskBytes), r.Blowup)},
			{"caches", join(r.CacheRows, " or ", units.Count) + " rows"},
			{"time", fmt.Sprintf("%s: %s %s, graphs %s, rows %s", units.Seconds(r.Seconds), decided, units.Seconds(r.DecideSeconds), units.Seconds(r.GraphSeconds), units.Seconds(r.RowSeconds))},
			held(r.PeakAnon, o.Memory),
		},
		next:   next,
		noPack: noPack,
	}
}
