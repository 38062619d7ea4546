package metamorphic

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Option is an option of a command, with the values that programs have. A value of "" means that the
// flag is not given, "yes" that a flag without a value is.
//
// Some flags of Options are no flags of the program: shards is the number of shards that are made and
// merged, interrupt the number of operations after which the command is interrupted and resumed, resume tells
// whether it is resumed with other threads, slots and checkpoints, longer whether the run first has one epoch,
// ranks is the number of processes that train as ranks, peers tells whether the emulated GPUs reach each other's
// memory, and slice whether slices of the pack are made.
type Option struct {
	Command string
	Flag    string
	Values  []string
	Free    bool // no value changes the content
	// When reports whether the option has an effect in a program with the settings before it in
	// Options; else it is "". If it is nil, the option always has one.
	When func(p *Program) bool
}

// is returns a condition: the content option has one of the values.
func is(command, flag string, values ...string) func(p *Program) bool {
	return func(p *Program) bool { return slices.Contains(values, p.Value(command, flag)) }
}

func isNot(command, flag string, values ...string) func(p *Program) bool {
	return func(p *Program) bool { return !slices.Contains(values, p.Value(command, flag)) }
}

// both returns a condition: a and b hold.
func both(a, b func(p *Program) bool) func(p *Program) bool {
	return func(p *Program) bool { return a(p) && b(p) }
}

// Conditions: presample's sampler is labor, and has its flags; the graph has node types, or none.
var (
	labor = is("presample", "sampler", "labor")
	typed = isNot("generate", "types", "")
	plain = is("generate", "types", "")
)

// Options are all options that programs draw, in the order of their draws. An option with other values for typed
// graphs is there twice.
var Options = []Option{
	{Command: "generate", Flag: "types", Values: []string{"", "3", "5"}},
	{Command: "generate", Flag: "featureless", Values: []string{"1", "", "2"}, When: typed},
	{Command: "generate", Flag: "nodes", Values: []string{"40", "61", "150", "300"}, When: plain},
	{Command: "generate", Flag: "nodes", Values: []string{"300", "150"}, When: typed},
	{Command: "generate", Flag: "avg-degree", Values: []string{"4", "1", "9"}},
	{Command: "generate", Flag: "dim", Values: []string{"6", "1", "17", "1030"}},
	{Command: "generate", Flag: "classes", Values: []string{"3", "2", "9"}},
	{Command: "generate", Flag: "dtype", Values: []string{"", "float16", "bfloat16"}},
	{Command: "generate", Flag: "compress", Values: []string{"", "yes"}},
	{Command: "generate", Flag: "multi-label", Values: []string{"", "yes"}, When: plain},
	{Command: "generate", Flag: "train-ratio", Values: []string{"0.3", "0.1"}},
	{Command: "generate", Flag: "seed", Values: []string{"", "7"}},
	// The graph is generated; exported and imported; or was written by an older program.
	{Command: "generate", Flag: "by", Values: []string{"", "import", "185f982", "557d02b"}, When: plain},
	{Command: "generate", Flag: "by", Values: []string{"", "import", "50d5c641-typed"}, When: typed},
	{Command: "generate", Flag: "fill", Values: []string{"", "mean"}, When: both(isNot("generate", "featureless", ""), isNot("generate", "by", "50d5c641-typed"))},

	{Command: "presample", Flag: "fanout", Values: []string{"2,3", "4", "99,99", "1,2,2"}},
	{Command: "presample", Flag: "batch-size", Values: []string{"16", "7", "500"}},
	{Command: "presample", Flag: "epochs", Values: []string{"2", "", "3"}},
	{Command: "presample", Flag: "eval-fanout", Values: []string{"", "all"}},
	{Command: "presample", Flag: "train-ratio", Values: []string{"", "0.6"}},
	{Command: "presample", Flag: "order", Values: []string{"", "overlap", "dispersed", "sequential"}, When: plain},
	{Command: "presample", Flag: "partitions", Values: []string{"4", "8"}, When: is("presample", "order", "dispersed", "sequential")},
	{Command: "presample", Flag: "buffer", Values: []string{"2", "3"}, When: is("presample", "order", "dispersed", "sequential")},
	{Command: "presample", Flag: "walk", Values: []string{"", "beta", "comet"}, When: is("presample", "order", "dispersed")},
	{Command: "presample", Flag: "sampler", Values: []string{"", "labor"}, When: both(plain, isNot("presample", "order", "dispersed", "sequential", "overlap"))},
	{Command: "presample", Flag: "batch-dependency", Values: []string{"", "3"}, When: labor},
	{Command: "presample", Flag: "layer-dependency", Values: []string{"", "yes"}, When: labor},
	{Command: "presample", Flag: "merge-relations", Values: []string{"", "yes"}, When: typed},
	{Command: "presample", Flag: "relation-fanout", Values: []string{"", "type1:to:type0=1,4;type0:to:type0=all,1"}, When: both(typed, both(is("presample", "fanout", "2,3"), is("presample", "merge-relations", "")))},
	{Command: "presample", Flag: "seed", Values: []string{"", "5"}},

	{Command: "pack", Flag: "policy", Values: []string{"", "min"}},
	{Command: "pack", Flag: "cache", Values: []string{"10%", "5%", "40%"}},
	{Command: "pack", Flag: "bands", Values: []string{"", "none", "60,30"}, When: isNot("pack", "policy", "min")},
	{Command: "pack", Flag: "max-disk", Values: []string{"", "30x", "90x"}, When: isNot("pack", "policy", "min")},
	{Command: "pack", Flag: "dtype", Values: []string{"", "bf16", "fp16", "int8", "int4"}},
	{Command: "pack", Flag: "compress-chunks", Values: []string{"", "s2", "zstd"}},
	{Command: "pack", Flag: "eval-chunks", Values: []string{"", "yes"}},

	{Command: "train", Flag: "model", Values: []string{"", "gcn", "gat"}, When: plain},
	{Command: "train", Flag: "model", Values: []string{"rsage", "rgcn", "rgat"}, When: typed},
	{Command: "train", Flag: "bases", Values: []string{"", "1", "3"}, When: is("train", "model", "rgcn")},
	{Command: "train", Flag: "hidden", Values: []string{"4", "9", "16"}},
	{Command: "train", Flag: "heads", Values: []string{"1", "2"}, When: is("train", "model", "gat", "rgat")},
	{Command: "train", Flag: "aggregator", Values: []string{"", "sum", "max"}, When: both(plain, is("train", "model", ""))},
	{Command: "train", Flag: "gcn-norm", Values: []string{"", "block"}, When: is("train", "model", "gcn")},
	{Command: "train", Flag: "layer-order", Values: []string{"aggregate", "multiply", ""}, When: both(plain, isNot("train", "aggregator", "max"))},
	{Command: "train", Flag: "norm", Values: []string{"", "batch", "layer"}, When: plain},
	{Command: "train", Flag: "residual", Values: []string{"", "yes"}, When: plain},
	{Command: "train", Flag: "input-projection", Values: []string{"", "yes"}, When: plain},
	{Command: "train", Flag: "activation", Values: []string{"", "relu", "elu"}},
	{Command: "train", Flag: "dropout", Values: []string{"", "0"}},
	{Command: "train", Flag: "epochs", Values: []string{"3", "1", "4"}},
	{Command: "train", Flag: "optimizer", Values: []string{"", "adamw"}},
	{Command: "train", Flag: "weight-decay", Values: []string{"", "0.01"}},
	{Command: "train", Flag: "label-smoothing", Values: []string{"", "0.1"}, When: isNot("generate", "multi-label", "yes")},
	{Command: "train", Flag: "schedule", Values: []string{"", "cosine", "plateau"}},
	{Command: "train", Flag: "metric", Values: []string{"", "f1"}},
	{Command: "train", Flag: "validate-every", Values: []string{"", "2"}},
	{Command: "train", Flag: "patience", Values: []string{"", "1"}},
	{Command: "train", Flag: "accumulate", Values: []string{"2", "1", "3", "4", "6"}},
	{Command: "train", Flag: "shuffle-batches", Values: []string{"", "yes"}, When: isNot("pack", "policy", "min")},
	{Command: "train", Flag: "seed", Values: []string{"", "3"}},
	{Command: "train", Flag: "init-from", Values: []string{"", "yes"}}, // the weights of another run
	{Command: "predict", Flag: "output", Values: []string{"", "classes", "embeddings"}},
	{Command: "predict", Flag: "nodes", Values: []string{"", "test", "valid"}},
	{Command: "predict", Flag: "engine", Values: []string{"", "cpu"}}, // "": auto, the emulated GPU

	{Command: "generate", Flag: "workers", Values: []string{"", "1", "3"}, Free: true},
	{Command: "generate", Flag: "memory", Values: []string{"", "160MiB"}, Free: true},
	{Command: "presample", Flag: "workers", Values: []string{"", "1", "3"}, Free: true},
	{Command: "presample", Flag: "memory", Values: []string{"", "160MiB"}, Free: true},
	{Command: "presample", Flag: "topology", Values: []string{"", "cached"}, Free: true, When: plain},
	{Command: "presample", Flag: "topology-memory", Values: []string{"", "30%"}, Free: true},
	{Command: "presample", Flag: "shards", Values: []string{"", "2", "3"}, Free: true},
	{Command: "pack", Flag: "workers", Values: []string{"", "1", "3"}, Free: true},
	{Command: "pack", Flag: "memory", Values: []string{"", "160MiB"}, Free: true},
	{Command: "pack", Flag: "io", Values: []string{"pread", "uring"}, Free: true},
	{Command: "pack", Flag: "shards", Values: []string{"", "2", "3"}, Free: true},
	{Command: "train", Flag: "store", Values: []string{"packed", "memory", "rows", "ginex", "gnndrive", "agnes", "gids", "hyperion", "mmap", "marius"}, Free: true},
	{Command: "train", Flag: "batches", Values: []string{"", "live"}, Free: true, When: plain},
	{Command: "train", Flag: "gpus", Values: []string{"", "2", "3"}, Free: true},
	{Command: "train", Flag: "peers", Values: []string{"", "none"}, Free: true},
	{Command: "train", Flag: "engine", Values: []string{"", "gpu", "none"}, Free: true}, // "": cpu
	{Command: "train", Flag: "gpu-cache", Values: []string{"", "12%"}, Free: true},
	{Command: "train", Flag: "threads", Values: []string{"", "1", "3"}, Free: true},
	{Command: "train", Flag: "memory", Values: []string{"", "256MiB"}, Free: true},
	{Command: "train", Flag: "ram-cache", Values: []string{"", "12%", "25%", "50%"}, Free: true},        // "": all rows fit
	{Command: "train", Flag: "cache-policy", Values: []string{"", "lru", "clock", "sieve"}, Free: true}, // of the store rows
	{Command: "train", Flag: "slots", Values: []string{"", "1", "3"}, Free: true},
	{Command: "train", Flag: "io", Values: []string{"pread", "uring", "nvme"}, Free: true},
	{Command: "train", Flag: "checkpoint-every", Values: []string{"", "0", "2"}, Free: true},
	{Command: "train", Flag: "keep", Values: []string{"", "1"}, Free: true},
	{Command: "train", Flag: "trace", Values: []string{"", "yes"}, Free: true},
	{Command: "train", Flag: "interrupt", Values: []string{"", "9", "40"}, Free: true},
	{Command: "train", Flag: "resume", Values: []string{"", "yes"}, Free: true},
	{Command: "train", Flag: "longer", Values: []string{"", "yes"}, Free: true},
	{Command: "train", Flag: "ranks", Values: []string{"", "2"}, Free: true},
	{Command: "train", Flag: "slice", Values: []string{"", "yes"}, Free: true},
	{Command: "predict", Flag: "threads", Values: []string{"", "1", "3"}, Free: true},
	{Command: "predict", Flag: "memory", Values: []string{"", "96MiB", "1GiB"}, Free: true},
	{Command: "predict", Flag: "io", Values: []string{"pread", "uring"}, Free: true},
	{Command: "predict", Flag: "shards", Values: []string{"", "2", "3"}, Free: true},
}

// Store returns the store of a variant.
func (p *Program) Store(variant int) string {
	return cmp.Or(p.Free(variant, "train", "store"), "packed")
}

// Typed reports whether the graph has node types.
func (p *Program) Typed() bool { return typed(p) }

// Live reports whether a variant draws its batches while training.
func (p *Program) Live(variant int) bool {
	return p.Store(variant) != "packed" && p.Free(variant, "train", "batches") == "live"
}

// AllNeighbours reports whether the fanouts exceed every degree.
func (p *Program) AllNeighbours() bool { return p.Value("presample", "fanout") == "99,99" }

// divides reports whether a step's batches can be divided among a number of ranks.
func (p *Program) divides(ranks string) bool {
	n, err := strconv.Atoi(ranks)
	step, _ := strconv.Atoi(p.Value("train", "accumulate"))
	return err != nil || step%n == 0
}

// mostlyRefused reports whether a setting of a variant would be refused with the settings before it:
// most programs leave it out, so that refusals do not end them.
func (p *Program) mostlyRefused(variant int, s Setting) bool {
	ordered := slices.Contains([]string{"dispersed", "sequential"}, p.Value("presample", "order"))
	online := slices.Contains([]string{"rows", "ginex", "gnndrive", "agnes", "gids"}, p.Store(variant))
	switch s.Flag {
	case "nodes", "avg-degree": // the smallest of five types is an eighth of the smallest's half
		return p.Value("generate", "types") == "5" && (s.Value == "150" || s.Value == "9")
	case "output":
		return s.Value == "embeddings" && !strings.Contains(p.Value("presample", "fanout"), ",")
	case "memory": // the GPU's driver takes more
		return s.Command == "predict" && s.Value == "96MiB" && p.Value("predict", "engine") != "cpu"
	case "heads":
		return s.Value == "2" && p.Value("train", "hidden") == "9"
	case "store":
		singly := !slices.Contains([]string{"packed", "memory", "marius"}, s.Value)
		return s.Value == "marius" && !ordered || singly && p.Value("generate", "compress") != "" ||
			p.Value("train", "shuffle-batches") != "" && slices.Contains([]string{"rows", "gnndrive", "agnes", "gids", "marius"}, s.Value)
	case "batches":
		return p.Store(variant) == "marius"
	case "ranks":
		return !p.divides(s.Value) || p.Value("pack", "policy") == "min" && p.Store(variant) == "packed" || online || s.Value != "" && p.Free(variant, "train", "gpus") != ""
	case "gpus":
		return !p.divides(s.Value) || p.Value("pack", "policy") == "min" || p.Store(variant) != "packed"
	case "engine":
		return s.Command == "train" && s.Value != "gpu" && p.Free(variant, "train", "gpus") != ""
	case "ram-cache":
		return p.Value("pack", "cache") == "40%" && (s.Value == "12%" || s.Value == "25%")
	}
	return false
}
