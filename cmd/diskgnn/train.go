package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	stores "diskgnn/featurestore/all"
	"diskgnn/internal/budget"
	"diskgnn/internal/job"
	"diskgnn/internal/progress"
	"diskgnn/internal/secret"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/presample/sampler"
	"diskgnn/train"
	"diskgnn/train/decide"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
)

const trainTeaches = `Trains a graph neural network on the batches of a pack, of samples, or drawn while training: as deep as
the fanouts that were sampled, as wide as --hidden. Each epoch is validated; the test score is that of the epoch
which validated best. The run's directory holds metrics.jsonl, a line per epoch, and
the weights of the best and the last epoch as safetensors, and report.html, which a
browser shows, also while the run goes on.

   diskgnn train --pack pack --out run
   diskgnn train --pack pack --out run --hidden 128 --epochs 30 --ram-cache 10%
   diskgnn train --pack pack --out gcn --model gcn --norm batch --residual
   diskgnn train --pack pack --out long --epochs 300 --schedule cosine --warmup 5 --patience 40
   diskgnn train --pack pack --out io --engine none         only load the batches
   diskgnn train --dataset graph --samples samples --out run       all rows in RAM, no pack
   diskgnn train --store rows --dataset graph --samples samples --out run --ram-cache 10%
   diskgnn train --store mmap --dataset graph --samples samples --out run --ram-cache 10%
   diskgnn train --dataset graph --fanout 10,15,20 --out run       nor samples: fresh ones every epoch
   diskgnn train --out run --resume                         go on after an interruption
   diskgnn train --out run --resume --epochs 40             make it longer
   diskgnn train --pack new --out tuned --init-from run     begin with its weights

An interrupted run goes on from its latest checkpoint, with the flags it had, and ends
with the bytes of one that never was interrupted. A job that Slurm began again
(SLURM_RESTART_COUNT) resumes without --resume.

With --fanout batches are drawn while training, as presample would draw them for as many
epochs: the weights are the same to the last bit. Before the first epoch a dry pass draws
all evaluation batches and one epoch of training, to learn how large batches are.

--plan loads and computes three batches, writes nothing, and says what the run would take.

A larger --ram-cache reads less from disk; it never changes what is computed from
the same samples.`

func newTrainCommand(g *globals) *cli.Command {
	o := train.Defaults()
	o.Threads, o.Memory, o.PageCache = 0, 0, decide.PageCacheAuto
	var rank job.Ask
	var plan bool
	var secretFile string
	return g.add(command{
		name:    "train",
		resumes: byFlag,
		usage:   "train on a pack, or on samples",
		teaches: trainTeaches,
		flags: []cli.Flag{
			stringFlag("pack", "DIR", "what pack made", &o.Pack),
			stringFlag("dataset", "DIR", "instead of a pack, with --samples or --fanout: what generate or import made", &o.Dataset),
			stringFlag("samples", "DIR", "instead of a pack, with --dataset: what presample made of it", &o.Samples),
			nameFlag("store", "NAME", "what holds the rows: packed (of --pack), memory (all rows in RAM or on the GPU, of --dataset), rows, ginex, gnndrive, agnes, gids or hyperion (of --dataset, read while training), mmap (of --dataset, by page faults), marius (of --dataset, and --samples of some orders), or auto", stores.Names(), &o.Store),
			fanoutFlag(&o.Fanout),
			flag("eval-fanout", "LIST", "with --fanout, for validation and test: same, all, or a list", "same", text(&o.EvalFanout)),
			intFlag("batch-size", "with --fanout: seed nodes of a mini-batch", "1024", &o.BatchSize, 1),
			flag("train-ratio", "X", "with --fanout: share of the training nodes to use", "1", positive(&o.TrainRatio)),
			namedFlag("sampler", "NAME", "with --fanout: how nodes choose neighbours, uniform or labor", sampler.Uniform, sampler.Methods(), &o.Sampler),
			intFlag("batch-dependency", "with --sampler labor: successive batches over which the choices change", "1", &o.BatchDependency, 1),
			boolFlag("layer-dependency", "with --sampler labor: the same choices in all layers", &o.LayerDependency),
			intFlag("sample-seed", "with --fanout: of what is drawn", "", &o.SampleSeed, 0),
			flag("dry-epochs", "X", "with --fanout: epochs to draw before training, to learn how large batches are: a number, or all", "1, or all with --input-projection", text(&o.DryEpochs)),
			outFlag(&o.Out, "the run"),
			recipeFlag("model", modelUsage(), &o.Model),
			intFlag("hidden", "width of the hidden layers", "", &o.Hidden, 1),
			intFlag("heads", "of gat; the hidden width is divided among them", "", &o.Heads, 1),
			intFlag("epochs", "passes over the training nodes", "", &o.Epochs, 1),
			positiveFlag("lr", "Adam's learning rate", &o.LR),
			floatFlag("dropout", "rate after every layer but the last", &o.Dropout),
			recipeFlag("norm", "normalisation ahead of each activation: batch, layer, or none", &o.Norm),
			boolFlag("residual", "add a linear map of a layer's input to its output", &o.Residual),
			boolFlag("input-projection", "bring the features to the hidden width first, by a linear map", &o.InputProjection),
			recipeFlag("activation", "after every layer but the last: relu, elu, or auto: elu for gat, else relu", &o.Activation),
			recipeFlag("aggregator", "what sage takes of the neighbours: mean, sum or max", &o.Aggregator),
			recipeFlag("gcn-norm", "degrees that weigh gcn's edges: of the graph, or of the block", &o.GCNNorm),
			recipeFlag("optimizer", "adam, or adamw, whose weight decay is decoupled", &o.Optimizer),
			floatFlag("weight-decay", "of all parameters, as PyTorch's weight_decay", &o.WeightDecay),
			floatFlag("label-smoothing", "share of a label that is spread over all classes", &o.LabelSmoothing),
			recipeFlag("schedule", "of the learning rate: constant, cosine, or plateau: lower when scores do not improve", &o.Schedule),
			intFlag("warmup", "epochs in which the rate rises to --lr", "", &o.Warmup, 0),
			floatFlag("min-lr", "rate that cosine and plateau do not fall below", &o.MinLR),
			positiveFlag("plateau-factor", "by which plateau lowers the rate", &o.PlateauFactor),
			intFlag("plateau-patience", "epochs without a better score that plateau lets pass before it does", "", &o.PlateauPatience, 0),
			intFlag("patience", "epochs without a better validation score that end the run; 0: it goes on", "", &o.Patience, 0),
			intFlag("validate-every", "epochs from one validation to the next; the last epoch is validated", "", &o.ValidateEvery, 1),
			recipeFlag("loss", "cross-entropy, binary, or auto: by the labels", &o.Loss),
			recipeFlag("metric", "score: accuracy, auc (of two classes, or any number per node), f1, or auto: what the data suggests", &o.Metric),
			recipeFlag("layer-order", "what a layer does first: aggregate, multiply, or auto: what costs less", &o.LayerOrder),
			seedFlag(&o.Seed),
			stringFlag("init-from", "FILE|RUN", "begin with these weights, of a safetensors file or the best of a run, of the same shapes", &o.WeightsPath),
			intFlag("accumulate", "successive batches whose gradients a step sums; part of the result", "as many as there are ranks", &o.Accumulate, 1),
			rankFlag(&rank),
			stringFlag("secret-file", "FILE", "what ranks on several hosts, and those who watch by --listen from others, have to know: a random word; instead of "+secret.Variable+" in the environment", &secretFile),
			boolFlag("insecure", "let other hosts take part, and watch, without a secret", &o.Insecure),
			boolFlag("shuffle-batches", "visit each epoch's batches in another order", &o.ShuffleBatches),
			sizeFlag("gpu-cache", "rows held by the GPU: a share of them, or bytes", "as much as it has room for", budget.UnitPercent, &o.GPUCache),
			sizeFlag("ram-cache", "rows held in RAM: a share of them, or bytes; rounded down to a band edge", "as much as memory and the pack allow", budget.UnitPercent, &o.RAMCache),
			stringFlag("cache-policy", "NAME", "which rows the cache of --store rows holds: s3fifo (its default), lru, clock or sieve; ginex has belady, gnndrive standby, gids paper (its default) or script; other stores have none", &o.CachePolicy),
			intFlag("fault-threads", "threads on which --store mmap waits for page faults", "16", &o.FaultThreads, 1),
			trainLevelFlag(&o.Topology),
			topologyMemoryFlag("a quarter of --memory", &o.Topology),
			topologyOrderFlag("reach; with --store ginex: ginex", &o.Topology),
			nameFlag("page-cache", "HOW", "what holds the page cache of --store mmap to --memory: cgroup, one that the process makes and enters; drop, dropping pages; auto: cgroup where one was delegated", train.PageCaches(), &o.PageCache),
			memoryFlag(&o.Memory),
			bytesFlag("gpu-memory", "GPU memory to stay under", "all that is free but 512 MiB", &o.GPUMemory),
			intFlag("slots", "batches under way at a time; 1: nothing overlaps", "what memory allows, up to 6", &o.Slots, 0),
			parallelFlag("threads", "threads that compute; the result is the same for any number", &o.Threads),
			nameFlag("engine", "NAME", "what computes: cpu, gpu, none (load batches only), or auto: the gpu where there is one", train.Engines(), &o.Engine),
			flag("gpus", "N", "GPUs of this process to train on, a number or all, each as a rank", "1", gpus(&o.Replicas)),
			nameFlag("reduce", "HOW", "where gradients of several ranks are summed: nccl, on their GPUs; host, on rank 0's, in the order of the batches; or auto: nccl where all ranks can", train.Reductions(), &o.Reduce),
			recipeFlag("precision", "of the gpu's matrix products: float32, tf32 or bf16", &o.Precision),
			stringFlag("io", "NAME", "storage backend: uring, pread, cufile, nvme:TARGET, or auto", &o.IO),
			blasFlag(&o.BLAS),
			boolFlag("trace", "write trace.json, for chrome://tracing or Perfetto, and trace-1.json when the run is resumed", &o.Trace),
			outputFlag("record", "FILE", "write what the training batches read, and how long they compute, to a new file: a trace for simulate drives", &o.Record),
			stringFlag("listen", "HOST:PORT", "serve the report and metrics of the run while it goes on, port 0 at any that is free; without a host, and at 127.0.0.1, to this machine alone", &o.Listen),
			intervalFlag(&o.CheckpointEvery),
			intFlag("keep", "checkpoints to keep", "", &o.Keep, 1),
			boolFlag("plan", "compute three batches, write nothing, and say what the run would take", &plan),
			boolFlag("resume", "go on with the run that is there, if any", &o.Resume),
			boolFlag("force", "replace a run that is there", &o.Force),
		},
		check: func(s *session) error {
			o.Given, o.Command = s.given, g.args
			if o.Listen != "" && g.progressKind() == "none" {
				s.rep = asked{s.rep, g.stderr}
			}
			var err error
			if o.Secret, err = secret.Find(secretFile, os.LookupEnv); err != nil {
				return err
			}
			if n, by := job.Restarts(job.Environ); n > 0 && !o.Resume && !o.Force {
				s.rep.Logf("%s=%d: --resume", by, n)
				o.Resume = true
			}
			if plan {
				s.planned(&o.Out, "run")
				o.Job.Count = rank.Count // wherever the others are
				if err := o.Plannable(); err != nil {
					return err
				}
			}
			if err := s.rank(&o, rank); err != nil {
				return err
			}
			if o.Resume { // the run knows what is not given
				return nil
			}
			return s.settle(&o, &o.Memory)
		},
		agrees: func(context.Context) error { return train.Agrees(vfs.OS, o) },
		run: func(ctx context.Context, s *session) (outcome, error) {
			if plan {
				g.starts("train", "")
				p, err := train.MakePlan(ctx, vfs.OS, o, s.rep)
				return outcome{object: p, lines: runPlan(p, o.Memory)}, err
			}
			r, err := train.Run(ctx, vfs.OS, o, s.rep)
			if err != nil {
				return outcome{}, err
			}
			return trained(o, r), nil
		},
	})
}

// modelUsage is the help of --model.
func modelUsage() string { return "model: " + strings.Join(recipe.Names("model"), ", ") }

// recipeFlag takes one of the names that an option of the recipe may be.
func recipeFlag(name, usage string, dst *string) cli.Flag {
	return nameFlag(name, "NAME", usage, recipe.Names(name), dst)
}

// asked is a reporter that says, though nothing else is to be said, where the run is to be seen:
// that was asked for, and where port 0 was, nothing else says it.
type asked struct {
	progress.Reporter
	to io.Writer
}

// Record implements progress.Recorder.
func (a asked) Record(_ string, v any) {
	if at, ok := v.(train.Listening); ok {
		fmt.Fprintln(a.to, at)
	}
}

// rankFlag takes a rank like 0/4, auto, or auto/4.
func rankFlag(dst *job.Ask) cli.Flag {
	return flag("rank", "R/W", "train with other processes: rank R of W, from 0; auto or auto/W: as the scheduler or launcher says", "what the environment says, or alone", func(s string) (err error) {
		*dst, err = job.ParseAsk(s)
		return err
	})
}

// rank finds which rank this process is, and says so.
func (s *session) rank(o *train.Options, ask job.Ask) (err error) {
	if o.Job, err = job.Find(job.Replicas, ask, job.Environ); err != nil {
		return err
	}
	if !o.Job.Alone() || len(o.Job.Others) > 0 {
		s.rep.Logf("rank %s", o.Job)
	}
	if o.Job.Index > 0 { // rank 0 makes the run
		s.making.part(func(out string) string { return fmt.Sprintf("%s.rank-%d", out, o.Job.Index) })
	}
	// A link that the run is named by may lead elsewhere on each host.
	if err := o.Identify([]string{cmp.Or(s.out, o.Out), o.Pack, o.Dataset, o.Samples}, job.Environ); err != nil {
		return err
	}
	if o.DivideDefaults() {
		s.rep.Logf("%d processes train on this machine: of each of them %s and %s of memory, unless --threads and --memory say otherwise",
			o.Job.LocalCount, units.Of(o.Threads, "thread"), budget.FormatBytes(o.Memory))
	}
	return nil
}

// fanoutFlag takes a list of fanouts, and keeps it as it is compared with a run's.
func fanoutFlag(dst *string) cli.Flag {
	return flag("fanout", "LIST", "instead of --samples: draw batches while training, so many neighbours per layer, the seeds' last; all for every neighbour", "", func(s string) error {
		list, err := sampler.ParseFanout(s)
		*dst = sampler.FormatFanout(list)
		return err
	})
}

// intervalFlag takes a time or a number of batches.
func intervalFlag(dst *rundir.Interval) cli.Flag {
	return flag("checkpoint-every", "TIME|N", "time between checkpoints, or batches; 0: at the ends of epochs", dst.String(), func(s string) (err error) {
		*dst, err = rundir.ParseInterval(s)
		return err
	})
}

func trained(o train.Options, r rundir.Result) outcome {
	var read, useful int64
	var reading, computing, training float64
	for _, e := range r.Epochs {
		read, useful = read+e.BytesRead, useful+e.UsefulBytes
		reading, computing, training = reading+e.ReadSeconds, computing+e.ComputeSeconds, training+e.Seconds
	}
	if o.Job.Index > 0 {
		return outcome{object: r, lines: []line{{"trained", fmt.Sprintf("as rank %d of %d; the run is rank 0's", o.Job.Index, o.Job.Count)}}}
	}
	early := ""
	if r.StoppedEarly {
		early = ", stopped early"
	}
	out := outcome{object: r, lines: []line{
		{"made", o.Out + how(r.State)},
		{"epochs", fmt.Sprintf("%d in %s%s", len(r.Epochs), units.Seconds(training), early)},
	}}
	add := func(label, format string, args ...any) {
		out.lines = append(out.lines, line{label, fmt.Sprintf(format, args...)})
	}
	if r.Engine != train.EngineNone {
		if r.ValidAccuracy.Defined() {
			add("validation", "%s %s, at epoch %d", r.Metric, percent(float64(r.ValidAccuracy)), r.BestEpoch)
		}
		if r.TestAccuracy.Defined() {
			add("test", "%s %s", r.Metric, percent(float64(r.TestAccuracy)))
		}
		if r.Engine == train.EngineGPU {
			add("engine", "%s, %s, %s, products in %s", r.Engine, r.Device, r.BLAS, r.Precision)
		} else {
			add("engine", "%s, %s, %s, %s", r.Engine, r.BLAS, r.SIMD, units.Of(r.Threads, "thread"))
		}
	}
	add("cache", "%s", rows(r.CacheRows-r.GPUCacheRows, r.CacheSize))
	if r.Unchecked {
		add("unchecked", "the rows: no checksum was compared when they were read")
	}
	if r.GPUCacheRows > 0 {
		add("GPU cache", "%s", rows(r.GPUCacheRows, r.GPUCacheSize))
	}
	add("read", "%s into the cache, %s for the epochs, of them %s useful",
		budget.FormatBytes(r.PreloadBytes), budget.FormatBytes(read), budget.FormatBytes(useful))
	add("time", "%s: waiting for reads %s, computing %s", units.Seconds(r.Seconds), units.Seconds(reading), units.Seconds(computing))
	out.lines = append(out.lines, held(r.PeakAnonBytes, r.Memory))
	if r.Engine != train.EngineNone {
		add("weights", "%s", filepath.Join(o.Out, rundir.WeightsFile))
	}
	add("report", "%s", filepath.Join(o.Out, rundir.ReportFile))
	switch {
	case r.Engine == train.EngineNone: // which has no weights
	case o.Dataset != "":
		out.next = fmt.Sprintf("diskgnn eval --run %s --dataset %s --exact", units.ShellWord(o.Out), units.ShellWord(o.Dataset))
	case o.Pack != "":
		out.next = fmt.Sprintf("diskgnn eval --run %s --pack %s", units.ShellWord(o.Out), units.ShellWord(o.Pack))
	}
	return out
}

// gpus takes a number of GPUs, or all.
func gpus(dst *int) func(string) error {
	return func(s string) error {
		if s == "all" {
			*dst = train.AllGPUs
			return nil
		}
		n, err := parseInt(s, 1)
		*dst = int(n)
		return err
	}
}
