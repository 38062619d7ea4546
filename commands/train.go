package commands

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"diskgnn/featurestore/stores"
	"diskgnn/internal/budget"
	"diskgnn/internal/job"
	"diskgnn/internal/progress"
	"diskgnn/internal/secret"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/train"
	"diskgnn/train/decide"
	"diskgnn/train/rundir"
)

const trainTeaches = `Trains a graph neural network on the batches of a pack, of samples, or drawn while training.
The network has one layer for each sampled fanout, and hidden layers of width --hidden. Each
epoch is validated; the test score belongs to the epoch with the best validation score. The
run's directory has metrics.jsonl, one line per epoch, the weights of the best and the last
epoch as safetensors, and report.html, a page for browsers, also while the run goes on.

   diskgnn train --pack pack --out run
   diskgnn train --pack pack --out run --hidden 128 --epochs 30 --ram-cache 10%
   diskgnn train --pack pack --out gcn --model gcn --norm batch --residual
   diskgnn train --pack pack --out long --epochs 300 --schedule cosine --warmup 5 --patience 40
   diskgnn train --pack pack --out io --engine none         only load the batches
   diskgnn train --dataset graph --samples samples --out run       all rows in RAM, no pack
   diskgnn train --store rows --dataset graph --samples samples --out run --ram-cache 10%
   diskgnn train --store mmap --dataset graph --samples samples --out run --ram-cache 10%
   diskgnn train --dataset graph --fanout 10,15,20 --out run       no samples: fresh ones every epoch
   diskgnn train --out run --resume                         continue after an interruption
   diskgnn train --out run --resume --epochs 40             make it longer
   diskgnn train --pack new --out tuned --init-from run     begin with its weights

An interrupted run continues from its latest checkpoint, with its previous flags, and ends
with the same bytes as an uninterrupted run. A job that Slurm restarted
(SLURM_RESTART_COUNT) resumes without --resume.

With --fanout, batches are drawn while training. They equal the batches that presample draws
for the same number of epochs, and give the same weights to the last bit. Before the first
epoch a dry pass draws all evaluation batches and one epoch of training, to measure the sizes
of batches.

--plan loads and computes three batches, writes nothing, and prints the time, the memory and
the reads of the run.

Validation and test nodes are scored from sampled neighbours. With --validate exact they are
scored from all neighbours, after each validated epoch and at the end, on the dataset: give
--dataset, also beside --pack.

With a larger --ram-cache less is read from disk; the results from the same samples stay the
same.`

func trainCommand(list stores.List) command {
	t := training{Options: train.Defaults()}
	t.Stores = list
	t.Threads, t.Memory, t.PageCache = 0, 0, decide.PageCacheAuto
	return command{
		name:     "train",
		resumes:  byFlag,
		usage:    "train on a pack, or on samples",
		teaches:  trainTeaches,
		groups:   t.flags(),
		check:    t.check,
		agrees:   func(context.Context) error { return train.Agrees(vfs.OS, t.Options) },
		planning: &t.plan,
		plan: shows(func(ctx context.Context, s *session) (train.Plan, error) {
			return train.MakePlan(ctx, vfs.OS, t.Options, s.rep)
		}, func(p train.Plan) outcome { return runPlan(p, t.Memory) }),
		run: shows(func(ctx context.Context, s *session) (rundir.Result, error) {
			return train.Run(ctx, s.disk, t.Options, s.rep)
		}, func(r rundir.Result) outcome { return trainedLines(t.Options, r) }),
	}
}

// check completes the options, and refuses invalid ones.
func (t *training) check(s *session) (err error) {
	t.Given, t.Command = s.given, s.g.args
	if t.Listen != "" && s.g.progressKind() == "none" {
		s.rep = asked{s.rep, s.g.stderr}
	}
	if t.Secret, err = secret.Find(t.secretFile, os.LookupEnv); err != nil {
		return err
	}
	if n, by := job.Restarts(job.Environ); n > 0 && !t.Resume && !t.Force {
		s.rep.Logf("%s=%d: --resume", by, n)
		t.Resume = true
	}
	if t.plan {
		s.planned(&t.Out, "run")
		t.Job.Count = t.rank.Count // a plan needs no address of the other processes
		if err := t.Plannable(); err != nil {
			return err
		}
	}
	if err := t.place(s); err != nil {
		return err
	}
	if t.Resume { // missing flags come from the run
		return nil
	}
	return s.settle(&t.Options, &t.Memory)
}

// asked is a quiet reporter that still reports the address of the run's page: the user gave --listen, and
// with port 0 only the report has the address.
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

// place finds this process's rank, and reports it.
func (t *training) place(s *session) (err error) {
	if t.Job, err = job.Find(job.Replicas, t.rank, job.Environ); err != nil {
		return err
	}
	if !t.Job.Alone() || len(t.Job.Others) > 0 {
		s.rep.Logf("rank %s", t.Job)
	}
	if t.Job.Index > 0 { // rank 0 makes the run
		s.making.part(func(out string) string { return fmt.Sprintf("%s.rank-%d", out, t.Job.Index) })
	}
	// A symbolic link in the run's path may lead elsewhere on each host.
	if err := t.Identify([]string{cmp.Or(s.out, t.Out), t.Pack, t.Dataset, t.Samples}, job.Environ); err != nil {
		return err
	}
	if t.DivideDefaults() {
		s.rep.Logf("%d processes train on this machine: each uses %s and %s of memory, unless --threads and --memory set other values",
			t.Job.LocalCount, units.Of(t.Threads, "thread"), budget.FormatBytes(t.Memory))
	}
	return nil
}

func trainedLines(o train.Options, r rundir.Result) outcome {
	var read, useful int64
	var reading, computing, training float64
	for _, e := range r.Epochs {
		read, useful = read+e.BytesRead, useful+e.UsefulBytes
		reading, computing, training = reading+e.ReadSeconds, computing+e.ComputeSeconds, training+e.Seconds
	}
	if o.Job.Index > 0 {
		return outcome{object: r, lines: []line{{"trained", fmt.Sprintf("as rank %d of %d; rank 0 writes the run", o.Job.Index, o.Job.Count)}}}
	}
	early := ""
	if r.StoppedEarly {
		early = ", stopped early"
	}
	out := outcome{object: r, lines: []line{
		{"made", o.Out + how(r.State)},
		{"epochs", fmt.Sprintf("%d in %s%s", len(r.Epochs), units.Seconds(training), early)},
	}}
	if r.Engine != train.EngineNone {
		exactly := ""
		if r.Exact() {
			exactly = ", exact"
		}
		if r.ValidAccuracy.Defined() {
			out.add("validation", "%s %s, at epoch %d%s", r.Metric, percent(float64(r.ValidAccuracy)), r.BestEpoch, exactly)
		}
		if r.TestAccuracy.Defined() {
			out.add("test", "%s %s%s", r.Metric, percent(float64(r.TestAccuracy)), exactly)
		}
		if r.Engine == train.EngineGPU {
			out.add("engine", "%s, %s, %s, products in %s", r.Engine, r.Device, r.BLAS, r.Precision)
		} else {
			out.lines = append(out.lines, engineLine(r.Engine, r.BLAS, r.SIMD, r.Threads))
		}
	}
	out.add("cache", "%s", rows(r.CacheRows-r.GPUCacheRows, r.CacheSize))
	if r.Unchecked {
		out.add("unchecked", "the rows: no checksum was compared when they were read")
	}
	if r.GPUCacheRows > 0 {
		out.add("GPU cache", "%s", rows(r.GPUCacheRows, r.GPUCacheSize))
	}
	out.add("read", "%s into the cache, %s for the epochs, of them %s useful",
		budget.FormatBytes(r.PreloadBytes), budget.FormatBytes(read), budget.FormatBytes(useful))
	out.add("time", "%s: waiting for reads %s, computing %s", units.Seconds(r.Seconds), units.Seconds(reading), units.Seconds(computing))
	out.lines = append(out.lines, held(r.PeakAnonBytes, r.Memory))
	if r.Engine != train.EngineNone {
		out.add("weights", "%s", filepath.Join(o.Out, rundir.WeightsFile))
	}
	out.add("report", "%s", filepath.Join(o.Out, rundir.ReportFile))
	if o.Pack == "" && o.Dataset == "" { // of a resumed run, run.json names them
		if f, err := rundir.Read(vfs.OS, o.Out); err == nil {
			o.Pack, o.Dataset = f.PackPath, f.DatasetPath
		}
	}
	switch {
	case r.Engine == train.EngineNone: // which has no weights
	case r.Exact():
		out.next = predicting(o.Out, o.Dataset)
	case o.Dataset != "":
		out.next = fmt.Sprintf("diskgnn eval --run %s --dataset %s --exact", units.ShellWord(o.Out), units.ShellWord(o.Dataset))
	case o.Pack != "":
		out.next = fmt.Sprintf("diskgnn eval --run %s --pack %s", units.ShellWord(o.Out), units.ShellWord(o.Pack))
	}
	return out
}
