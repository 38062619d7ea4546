package commands

import (
	"context"
	"fmt"
	"strings"

	"diskgnn/featurestore/stores"
	"diskgnn/internal/budget"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/train/comparison"
	"diskgnn/train/decide"
	"diskgnn/train/recipe"
)

const benchStoresTeaches = `Trains one model with several stores, on the same mini-batches and with the same memory,
and compares their reads and times, on your graph and your drive.

   diskgnn bench stores --dataset graph --out compared --memory 8GiB
   diskgnn bench stores --dataset graph --samples samples --out compared --stores packed,rows
   diskgnn bench stores --dataset graph --out compared --ablate no-pipeline,no-ram-cache
   diskgnn bench stores --dataset graph --out fresh --live --fanout 10,10
   diskgnn bench stores --dataset graph --out cpu --engine cpu

The drive is measured first, and an estimate says how long the reads will take. Then each
store trains once in a round, in a process of its own, with the files dropped from the
page cache. The row of a store that fails, for example for lack of memory, has the reason.
With --ablate, each store also trains without a part: its row is STORE.PART.

The directory keeps the samples, the pack, every run, and report.html, a page with all
results. After an interruption, the same command continues. With more --rounds or
--stores, it runs only the additional ones.`

func benchStoresCommand(list stores.List) command {
	o := comparison.Defaults(list)
	o.Train.Threads, o.Train.Memory, o.Train.PageCache = 0, 0, decide.PageCacheAuto
	return command{
		name:    "bench stores",
		resumes: byItself,
		usage:   "compare the stores in training",
		teaches: benchStoresTeaches,
		flags: flags{
			stringFlag("dataset", "DIR", "dataset, made by generate or import", &o.Dataset),
			stringFlag("samples", "DIR", "samples of the dataset, made by presample; without, the next four flags set the sampling", &o.Samples),
			intFlag("batch-size", "seed nodes of a mini-batch", "", &o.Sampling.BatchSize, 1),
			fanoutFlag(&o.Sampling.Fanout),
			stringFlag("eval-fanout", "LIST", "fanout for validation and test: same, all, or a list like --fanout", &o.Sampling.EvalFanout),
			intFlag("sample-epochs", "sample epochs to draw; training repeats them in turn", "", &o.Sampling.Epochs, 1),
			outFlag(&o.Out, "the comparison"),
			flag("stores", "LIST", "names of the stores, in the order in which they run", strings.Join(o.Stores, ","), func(s string) error {
				o.Stores = strings.Split(strings.ReplaceAll(s, " ", ""), ",")
				return nil
			}),
			intFlag("rounds", "runs of each store", "", &o.Rounds, 1),
			flag("ablate", "LIST", "more runs of each store, without a part: "+strings.Join(comparison.Ablations(), ", ")+"; a+b without both", "", func(s string) error {
				o.Ablations = strings.Split(strings.ReplaceAll(s, " ", ""), ",")
				return nil
			}),
			boolFlag("live", "draw batches while training, fresh ones every epoch", &o.Live),
			stringFlag("model", "NAME", recipe.Find("model").Help, &o.Train.Model),
			rowFlag(recipe.Find("hidden"), &o.Train.Hidden),
			rowFlag(recipe.Find("epochs"), &o.Train.Epochs),
			seedFlag(&o.Train.Seed),
			memoryFlag(&o.Train.Memory),
			rowFlag(o.Train.Preference("gpu-memory")),
			rowFlag(o.Train.Preference("slots")),
			rowFlag(o.Train.Preference("page-cache")),
			parallelFlag("threads", "threads that compute", &o.Train.Threads),
			stringFlag("engine", "NAME", engineUsage, &o.Train.Engine),
			ioFlag(&o.Train.IO),
			blasFlag(&o.Train.BLAS),
			positiveFlag("drive-seconds", "seconds of measuring the drive's sequential reads", &o.DriveSeconds),
		},
		run: func(ctx context.Context, s *session) (outcome, error) {
			if err := s.settle(&o, &o.Train.Memory); err != nil {
				return outcome{}, err
			}
			program, err := comparison.Self()
			if err != nil {
				return outcome{}, err
			}
			r, err := comparison.Run(ctx, vfs.OS, o, program, s.rep)
			if err != nil {
				return outcome{}, err
			}
			return compared(r), nil
		},
	}
}

func compared(r comparison.Result) outcome {
	drive := "direct"
	if !r.Drive.Direct {
		drive = "buffered: the figures may be rates of memory"
	}
	cold := "dropped ahead of each run"
	if r.Warm != "" {
		cold = "not dropped: " + r.Warm
	}
	batches := "of " + r.Samples
	if r.Live {
		batches = "drawn while training"
	}
	batches += fmt.Sprintf(", %s an epoch, of %s seed nodes, %.3g%% of the graph's", units.Count(int64(r.Batches)), units.Count(r.Seeds), 100*r.SeedFraction)
	o := outcome{object: r, lines: []line{
		{"made", r.Out},
		{"drive", fmt.Sprintf("%s in sequence, %s requests/s of 4 KiB at random; %s, %s", units.BytesPerSecond(r.Drive.Sequential),
			units.Count(int64(r.Drive.Random)), r.Drive.Backend, drive)},
		{"runs", fmt.Sprintf("%s of %s, %s of memory each", units.Of(r.Rounds, "round"), units.Of(r.Epochs, "epoch"), budget.FormatBytes(r.Memory))},
		{"batches", batches},
		{"sampling", prepared(r.Sampling, "the samples were given, or drawn while training")},
		{"checksums", prepared(r.Checksums, "no store reads single rows")},
		{"page cache", cold},
		{"time", fmt.Sprintf("%s; reads were estimated to take %s without caches", units.Seconds(r.Seconds), units.Seconds(r.EstimatedSeconds))},
	}}
	if r.Fastest != "" {
		o.lines = append(o.lines, line{"fastest", r.Fastest})
	} else {
		o.lines = append(o.lines, line{"fastest", "none is named: " + r.Undecided})
	}
	if r.Page != "" {
		o.lines = append(o.lines, line{"page", r.Page})
	}
	for i, table := range r.Tables() {
		o.lines = append(o.lines, line{"store", table.Heading})
		for k := range r.Stores {
			if s := &r.Stores[k]; s.Rounds > 0 || i == 0 {
				o.lines = append(o.lines, line{s.Label(), table.Lines[k]})
			}
		}
	}
	return o
}

// prepared returns the text for a preparation, or the reason why there was none.
func prepared(p comparison.Preparation, none string) string {
	if p == (comparison.Preparation{}) {
		return none
	}
	return units.Seconds(p.Seconds) + ", " + budget.FormatBytes(p.DiskBytes)
}
