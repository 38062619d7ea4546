package commands

import (
	"slices"

	"diskgnn/internal/job"
	"diskgnn/internal/secret"
	"diskgnn/presample/sampler"
	"diskgnn/train"
	"diskgnn/train/recipe"
)

// training has the options of train.
type training struct {
	train.Options
	rank       job.Ask
	plan       bool
	secretFile string
}

// flags returns train's flags, by subject.
func (t *training) flags() []group {
	return []group{
		{"Batches and features", t.sources()},
		{"The run", t.output()},
		{"The model", t.recipe(recipe.Model)},
		{"Learning", t.recipe(recipe.Learning)},
		{"Drawing batches while training", append(t.recipe(recipe.Drawing), t.preferences("topology", "topology-memory", "topology-order")...)},
		{"Memory and caches", t.preferences("memory", "ram-cache", "gpu-cache", "gpu-memory", "slots", "cache-policy", "accumulator", "fault-threads", "page-cache")},
		{"Computing and reading", slices.Concat(t.engine(), t.recipe(recipe.Computing), t.preferences("io"), t.ranks())},
	}
}

func (t *training) sources() flags {
	return flags{
		stringFlag("pack", "DIR", "pack, made by pack", &t.Pack),
		stringFlag("dataset", "DIR", "instead of a pack, with --samples or --fanout, or beside it for --validate exact: dataset, made by generate or import", &t.Dataset),
		stringFlag("samples", "DIR", "instead of a pack, with --dataset: samples of the dataset, made by presample", &t.Samples),
		nameFlag("store", "NAME", t.Stores.Usage(), t.Stores.Names(), &t.Store),
	}
}

func (t *training) output() flags {
	return slices.Concat(flags{
		outFlag(&t.Out, "the run"),
		boolFlag("plan", "compute three batches, write nothing, and print the time, memory and reads of the run", &t.plan),
		boolFlag("resume", "continue the run in --out, if it exists", &t.Resume),
		boolFlag("force", "replace an existing run", &t.Force),
	}, t.preferences("checkpoint-every", "keep", "trace"), flags{
		outputFlag("record", "FILE", "write the reads and the computing times of the training batches to a new file: a trace for simulate drives", &t.Record),
		stringFlag("listen", "HOST:PORT", "serve the report and metrics of the run while it goes on; port 0: any free port; without a host, or with 127.0.0.1: to this machine alone", &t.Listen),
	})
}

func (t *training) engine() flags {
	return slices.Concat(flags{nameFlag("engine", "NAME", engineUsage, train.Engines(), &t.Engine)}, t.preferences("threads"), flags{blasFlag(&t.BLAS)})
}

// ranks are the flags of processes and devices that train together.
func (t *training) ranks() flags {
	return flags{
		flag("gpus", "N", "number of GPUs that this process trains on, or all; each is a rank", "1", parsed(&t.Replicas, gpus)),
		flag("rank", "R/W", "train with other processes: rank R of W, from 0; auto or auto/W: the rank that the scheduler or launcher assigned", "from the environment, or alone", parsed(&t.rank, job.ParseAsk)),
		nameFlag("reduce", "HOW", "where gradients of several ranks are summed: nccl, on their GPUs; host, on rank 0's, in the order of the batches; or auto: nccl where all ranks can", train.Reductions(), &t.Reduce),
		stringFlag("secret-file", "FILE", "file with the secret, a random word, that ranks on several hosts share, and that --listen requires from other hosts; instead of "+secret.Variable+" in the environment", &t.secretFile),
		boolFlag("insecure", "let other hosts take part and watch without a secret", &t.Insecure),
	}
}

// gpus reads a number of GPUs, or all.
func gpus(s string) (int, error) {
	if s == "all" {
		return train.AllGPUs, nil
	}
	n, err := parseInt(s, 1)
	return int(n), err
}

// recipe returns flags of the recipe.
func (t *training) recipe(list recipe.Options) (flags flags) {
	for _, o := range list {
		dst := t.Field(o.Name)
		switch o.Name {
		case "fanout":
			flags = append(flags, flag(o.Name, o.Takes, o.Help, "", parsed(&t.Fanout, fanout)))
			continue
		case "validate":
			flags = append(flags, flag(o.Name, "NAME", o.Help, o.Shown, parsed(&t.Validation, recipe.ParseValidation)))
			continue
		case "sampler":
			o.Names = sampler.Methods()
		case "init-from": // the option's field has the hash of the file
			dst = &t.WeightsPath
		}
		flags = append(flags, rowFlag(o, dst))
	}
	return flags
}

// fanout returns a list of fanouts in canonical form, which is compared with the run's.
func fanout(s string) (string, error) {
	list, err := sampler.ParseFanout(s)
	return sampler.FormatFanout(list), err
}

// preferences returns the flags of options that do not influence the result.
func (t *training) preferences(names ...string) (flags flags) {
	for _, name := range names {
		o, dst := t.Preference(name)
		switch name {
		case "cache-policy":
			o.Help = t.Stores.PolicyUsage(o.Help)
		case "topology-order":
			o.Shown = t.Stores.OrderUsage(o.Shown)
		}
		flags = append(flags, rowFlag(o, dst))
	}
	return flags
}
