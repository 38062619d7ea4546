package commands

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"diskgnn/dataset"
	"diskgnn/featurestore/stores"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/train"
	"diskgnn/train/exact"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
	"diskgnn/train/trained"
)

const evalTeaches = `Scores a run's weights: exactly, where every node is computed from all of its
neighbours, layer by layer and within --memory, or on the validation and test batches
of a pack, from the neighbours that were sampled.

   diskgnn eval --run run --dataset graph --exact
   diskgnn eval --run run --dataset tomorrow --exact      another graph with these features
   diskgnn eval --run run --pack pack

With --exact, the features come from the dataset, whatever dtype the pack had. The outputs
of hidden layers lie in a scratch directory beside the run, or in --scratch, and are
removed at the end. After an interruption they stay, and the same command goes on from them.`

func evalCommand(list stores.List) command {
	o := trained.PackOptions{Stores: list, Weights: trained.WeightsBest, IO: "auto", BLAS: "auto"}
	x := exact.Options{StateDType: exact.StateFloat32, Engine: train.EngineAuto} // of --exact
	var exactly, plan bool
	return command{
		name:    "eval",
		usage:   "score a run's weights, exactly or on a pack",
		teaches: evalTeaches,
		flags: slices.Concat(flags{
			stringFlag("run", "DIR", "run, made by train", &o.Run),
			stringFlag("dataset", "DIR", "with --exact: dataset of the training graph or of another graph", &x.Dataset),
			boolFlag("exact", "compute every node from all of its neighbours", &exactly),
			stringFlag("pack", "DIR", "score on this pack's batches", &o.Pack),
		}, exactFlags(&x, &plan), weightsFlags(&o.Weights, &o.Memory, &o.Threads, &o.IO, &o.BLAS)),
		check: func(s *session) error {
			switch {
			case exactly == (o.Pack != ""):
				return fault.New(fault.ErrUsage, "give --dataset with --exact, or --pack")
			case !exactly && (x.Dataset != "" || x.Scratch != "" || len(x.Accept) > 0 || x.StateDType != exact.StateFloat32 || plan || x.MaxRead != nil ||
				slices.Contains(s.given, "engine") || slices.Contains(s.given, "gpu-memory")):
				return fault.New(fault.ErrUsage, "--dataset, --scratch, --accept, --state-dtype, --plan, --max-read, --engine and --gpu-memory go with --exact, not with --pack")
			case !exactly:
				return s.settle(&o, &o.Memory)
			}
			x.Run, x.Weights, x.Memory, x.Threads, x.IO, x.BLAS = o.Run, o.Weights, o.Memory, o.Threads, o.IO, o.BLAS
			return s.settle(&x, &x.Memory)
		},
		run: func(ctx context.Context, s *session) (outcome, error) {
			if !exactly {
				e, err := trained.EvaluatePack(ctx, s.disk, o, s.rep)
				out := evaluated(&e)
				out.next = usedBy(predicting(o.Run, someDataset), o.Weights, nil)
				return out, err
			}
			if plan {
				p, err := exact.PlanEvaluation(ctx, vfs.OS, x, s.rep)
				return inferencePlan(p, x.Memory), err
			}
			e, err := exact.Evaluate(ctx, s.disk, x, s.rep)
			out := evaluated(&e)
			out.next = usedBy(predicting(x.Run, x.Dataset), x.Weights, x.Accept)
			return out, err
		},
	}
}

// predicting returns the command that uses a run on a dataset.
func predicting(run, dataset string) string {
	return fmt.Sprintf("diskgnn predict --run %s --dataset %s --out logits.npy", units.ShellWord(run), units.ShellWord(dataset))
}

// usedBy adds the flags --weights and --accept to a command, if they differ from the defaults.
func usedBy(command, weights string, accept []string) string {
	if weights != trained.WeightsBest {
		command += " --weights " + weights
	}
	if len(accept) > 0 {
		command += " --accept " + strings.Join(accept, ",")
	}
	return command
}

// weightsFlags returns the flags of the commands that use a run's weights.
func weightsFlags(weights *string, memory *int64, threads *int, io, library *string) flags {
	return flags{
		nameFlag("weights", "NAME", "weights of the best validation epoch or of the last epoch: best, final", []string{trained.WeightsBest, trained.WeightsFinal}, weights),
		memoryFlag(memory),
		rowFlag(preference("threads", ""), threads),
		ioFlag(io),
		blasFlag(library),
	}
}

// exactFlags returns the flags of the commands that compute every node from all of its neighbours.
func exactFlags(x *exact.Options, plan *bool) flags {
	return flags{
		nameFlag("engine", "NAME", "engine: cpu, gpu, or auto: the gpu if the machine has one", exact.Engines(), &x.Engine),
		rowFlag(preference("gpu-memory", ""), &x.GPUMemory),
		flag("scratch", "DIR", "directory for the scratch directory of hidden layers", "beside the run", parsed(&x.Scratch, vfs.Destination)),
		stringsFlag("accept", "NAMES", "differences in preprocessing that the graph may have from the training graph: "+strings.Join(dataset.PreprocessingNames, ", ")+", or "+exact.AcceptAll, &x.Accept),
		nameFlag("state-dtype", "NAME", "type of hidden layers that wait for the next layer: float32, bf16", exact.StateDTypes(), &x.StateDType),
		boolFlag("plan", "compute nothing, and print the reads, memory and time that it would take", plan),
		sizeFlag("max-read", "limit of the bytes read: bytes, a multiple (50x) of the feature table, or unlimited; with less memory more is read", "100x", budget.UnitTimes, &x.MaxRead),
	}
}

func evaluated(e *trained.Evaluation) outcome {
	out := outcome{object: e}
	for _, split := range []struct {
		label string
		score score.Score
	}{{"train", e.TrainAccuracy}, {"validation", e.ValidAccuracy}, {"test", e.TestAccuracy}} {
		if split.score.Defined() {
			out.lines = append(out.lines, line{split.label, fmt.Sprintf("%s %s", e.Metric, percent(float64(split.score)))})
		}
	}
	out.lines = append(out.lines, classNameLines(e.ClassNames)...)
	out.lines = append(append(out.lines, sourceLines(&e.Outcome)...), line{"weights", e.Weights})
	out.lines = append(out.lines, costLines(&e.Outcome)...)
	return out
}

// sourceLines returns a line if the run is not finished, and one if the graph is not the graph of the run.
func sourceLines(o *score.Outcome) (lines []line) {
	if o.RunState != string(rundir.StateFinished) {
		lines = append(lines, line{"run", fmt.Sprintf("%s is not finished (%s)", o.Run, o.RunState)})
	}
	if o.OtherGraph {
		lines = append(lines, line{"graph", "not the one that " + o.Run + " was trained on"})
	}
	return lines
}

// costLines describes the engine, the times and the reads.
func costLines(o *score.Outcome) []line {
	lines := []line{engineLine(o.Engine, o.BLAS, o.SIMD, o.Threads)}
	if o.Device != "" {
		lines = []line{engineLine(o.Engine, o.Device, o.BLAS, o.Threads)}
	}
	for _, l := range o.Layers {
		lines = append(lines, line{fmt.Sprintf("layer %d", l.Layer), fmt.Sprintf("%s in %s, %s: waiting for rows %s, computing %s",
			units.Of(l.Nodes, "node"), exact.Passes(int64(l.Ranges)), units.Seconds(l.Seconds), units.Seconds(l.ReadSeconds), units.Seconds(l.ComputeSeconds))})
	}
	read := budget.FormatBytes(o.BytesRead)
	if o.BytesWritten > 0 {
		read += fmt.Sprintf(", %s of scratch written", budget.FormatBytes(o.BytesWritten))
	}
	return append(lines, line{"read", read}, line{"time", units.Seconds(o.Seconds)}, held(o.PeakAnonBytes, o.Memory))
}

// engineLine describes an engine by two names: the library and the SIMD of the CPU, or the GPU and the library.
func engineLine(engine, one, other string, threads int) line {
	return line{"engine", fmt.Sprintf("%s, %s, %s, %s", engine, one, other, units.Of(threads, "thread"))}
}

const predictTeaches = `Writes the predictions of a run's weights for all nodes, for a split, or for the nodes
that a file lists, one row per node in node order: logits, classes, or embeddings, the
outputs of the last hidden layer. Every node is computed from all of its neighbours, as
by eval --exact. The suffix of the output file sets its form: .npy, an array, with the
node ids in NAME.nodes.npy unless it has all nodes; .csv or .parquet, tables with the id as
first column. NAME.npy.lineage.json beside it records the weights and the graph.

   diskgnn predict --run run --dataset graph --out logits.npy
   diskgnn predict --run run --dataset graph --out classes.npy --output classes --nodes test
   diskgnn predict --run run --dataset tomorrow --out classes.csv --output classes

The graph may differ from the training graph. Its nodes need the same number of features,
with the same preprocessing by import. import --for predict makes a dataset without labels.

With --shard 1/4 it predicts the second quarter of the nodes, into the directory
logits.npy.shard-1-of-4, on any machine; diskgnn merge --out logits.npy combines all four.
Each shard computes the hidden layers of all nodes.`

func predictCommand() command {
	o := exact.PredictOptions{Output: exact.Logits, Nodes: exact.AllNodes}
	o.Weights, o.IO, o.BLAS, o.StateDType, o.Engine = trained.WeightsBest, "auto", "auto", exact.StateFloat32, train.EngineAuto
	var plan bool
	var part part
	return command{
		name:    "predict",
		usage:   "write logits, classes or embeddings of nodes",
		teaches: predictTeaches,
		flags: slices.Concat(flags{
			stringFlag("run", "DIR", "run, made by train", &o.Run),
			stringFlag("dataset", "DIR", "dataset of the training graph or of another graph", &o.Dataset),
			outAs("FILE", "file to make, like logits.npy, classes.csv or embeddings.parquet", &o.Out),
			nameFlag("output", "NAME", "output to write: logits, classes, embeddings", exact.Outputs(), &o.Output),
			stringFlag("nodes", "NAME", "nodes to predict: all, train, valid, test, or a file of ids, one per line", &o.Nodes),
		}, exactFlags(&o.Options, &plan), flags{
			shardFlag("predict one part of N, from 0, for diskgnn merge; auto or auto/N: the part that the scheduler assigns", &part),
			boolFlag("force", "replace an existing file", &o.Force)},
			weightsFlags(&o.Weights, &o.Memory, &o.Threads, &o.IO, &o.BLAS)),
		check: func(s *session) (err error) {
			if plan && o.Out == "" {
				o.Out = "logits.npy" // a plan without --out is for the default form and directory
			}
			if o.Shard, err = s.shard(part); err != nil {
				return err
			}
			return s.settle(&o, &o.Memory)
		},
		agrees:   func(context.Context) error { return o.Agrees(vfs.OS) },
		planning: &plan,
		plan: shows(func(ctx context.Context, s *session) (exact.Plan, error) {
			return exact.PlanPrediction(ctx, vfs.OS, o, s.rep)
		}, func(p exact.Plan) outcome { return inferencePlan(p, o.Memory) }),
		run: shows(func(ctx context.Context, s *session) (exact.Prediction, error) {
			return exact.Predict(ctx, s.disk, o, s.rep)
		}, func(p exact.Prediction) outcome { return predicted(o, p) }),
	}
}

func predicted(o exact.PredictOptions, p exact.Prediction) outcome {
	out := outcome{object: p}
	array := line{"array", fmt.Sprintf("%s of %s, %s × %s", p.Output, p.DType, units.Count(p.Rows), units.Count(p.Columns))}
	if o.Shard.Whole() {
		out.lines = []line{{"made", p.Out}, array, {"lineage", p.LineageFile}}
	} else {
		out.lines, out.next = []line{made(p.Out, p.Fingerprint, p.State), array}, mergeNext(o.Out, o.Shard)
	}
	out.lines = append(out.lines, sourceLines(&p.Outcome)...)
	if p.State != stage.StateDone.String() {
		out.lines = append(out.lines, costLines(&p.Outcome)...)
	}
	return out
}
