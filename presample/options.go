package presample

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"diskgnn/graph/batchcodec"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/shard"
	"diskgnn/internal/stage"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
	"diskgnn/presample/walk"
)

// Orders of visiting the training batches.
const (
	OrderRandom  = sampler.Random
	OrderOverlap = sampler.Overlap // neighbouring batches share input nodes
	// Batches of what a buffer of partitions holds, which changes during an epoch, or does not.
	OrderDispersed  = sampler.Dispersed
	OrderSequential = sampler.Sequential
)

// Samplers: how a destination chooses among its in-neighbours.
const (
	SamplerUniform = "uniform"    // by itself, each set of them as likely
	SamplerLabor   = mbfile.Labor // the same ones as other destinations, wherever it can
)

// Words that stand for fanouts.
const (
	evalSame       = "same"
	everyNeighbour = "all"
)

// samplerVersion is part of the content parameters: it changes whenever the same
// options give other batches.
const samplerVersion = 1

// Options of a sampling. The zero value of a field means its default.
type Options struct {
	Dataset, Out string

	BatchSize int // seed nodes of a batch; 0: 1024
	// Fanout lists the neighbours to draw per destination, input side first as in
	// DGL: the last entry is for the seed nodes. mbfile.AllNeighbours takes all.
	// Nil: 10, 15, 20.
	Fanout []int
	// EvalFanout is that of validation and test batches: "same", "all", or a
	// list like Fanout's, of numbers and "all". "": same.
	EvalFanout string
	Epochs     int     // different epochs to draw; 0: 1
	TrainRatio float64 // share of the training nodes to use, up to 1; 0: 1
	Order      string  // of the batches: "random", "overlap", "dispersed" or "sequential". "": random
	// Partitions of the graph, and how many of them the buffer holds that the orders
	// dispersed and sequential draw from.
	Partitions, Buffer int
	// Walk is how dispersed changes the buffer during an epoch: walk.Sweep, walk.Beta or
	// walk.Comet. "": sweep
	Walk    string
	Seed    uint64
	Sampler string // "uniform" or "labor", of evaluation batches too. "": uniform
	// BatchDependency is over how many successive batches the choices of labor change,
	// little by little, so that these batches share input nodes. 1: every batch's are its
	// own. 0: 1
	BatchDependency int
	LayerDependency bool // the choices of labor are the same in all hops
	// Shard is the part of the samples to draw, into a directory of its own beside
	// Out; all parts merged are the samples. The zero value: all.
	Shard shard.Shard

	Workers int   // goroutines that sample; 0: as many as processors
	Memory  int64 // bytes of anonymous memory to stay under; 0: budget.Default
	Force   bool  // replace samples made with other parameters

	// batchesPerFile, if not 0, cuts files early; tests resume small runs by it.
	batchesPerFile int
}

// EnsureDefaults fills in what was left zero.
func (o *Options) EnsureDefaults() {
	if o.BatchSize == 0 {
		o.BatchSize = 1024
	}
	if o.Fanout == nil {
		o.Fanout = []int{10, 15, 20}
	}
	if o.EvalFanout == "" {
		o.EvalFanout = evalSame
	}
	if o.Epochs == 0 {
		o.Epochs = 1
	}
	if o.TrainRatio == 0 {
		o.TrainRatio = 1
	}
	if o.Order == "" {
		o.Order = OrderRandom
	}
	if o.Walk == "" && o.Order == OrderDispersed {
		o.Walk = walk.Sweep
	}
	if o.Sampler == "" {
		o.Sampler = SamplerUniform
	}
	if o.BatchDependency == 0 {
		o.BatchDependency = 1
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Memory == 0 {
		o.Memory, _ = budget.Default()
	}
}

const (
	// maxBatchSize keeps counts of a batch within 32 bits with room to spare.
	maxBatchSize = 1 << 28
	// maxFanout keeps what is drawn for one destination a small part of memory.
	maxFanout = 1 << 16
	// maxEpochs keeps what all batches take, counted in bytes, within 64 bits.
	maxEpochs = 1 << 20
)

// Validate names the flag that makes no sense.
func (o *Options) Validate() error {
	usage := func(format string, args ...any) error { return fault.New(fault.ErrUsage, format, args...) }
	switch {
	case o.Dataset == "":
		return usage("--dataset: which dataset?")
	case o.Out == "":
		return usage("--out: where to write the samples?")
	case o.BatchSize < 1 || o.BatchSize > maxBatchSize:
		return usage("--batch-size %d: needs 1 to %d", o.BatchSize, maxBatchSize)
	case o.Epochs < 1 || o.Epochs > maxEpochs:
		return usage("--epochs %d: needs 1 to %d", o.Epochs, maxEpochs)
	case !(o.TrainRatio > 0 && o.TrainRatio <= 1):
		return usage("--train-ratio %g: a share of the training nodes, above 0 and up to 1", o.TrainRatio)
	case o.Order != OrderRandom && o.Order != OrderOverlap && !o.partitioned():
		return usage("--order %s: unknown; use random, overlap, dispersed or sequential", o.Order)
	case o.Sampler != SamplerUniform && o.Sampler != SamplerLabor:
		return usage("--sampler %s: unknown; use uniform or labor", o.Sampler)
	case o.BatchDependency < 1 || o.BatchDependency > mbfile.MaxBatchDependency:
		return usage("--batch-dependency %d: needs 1 to %d", o.BatchDependency, mbfile.MaxBatchDependency)
	case o.BatchDependency > 1 && o.Sampler != SamplerLabor:
		return usage("--batch-dependency %d: only batches of --sampler labor depend on each other", o.BatchDependency)
	case o.LayerDependency && o.Sampler != SamplerLabor:
		return usage("--layer-dependency: only layers of --sampler labor depend on each other")
	case o.Workers < 1:
		return usage("--workers %d: at least 1", o.Workers)
	case o.Memory < 0:
		return usage("--memory: negative")
	}
	if err := o.checkPartitions(); err != nil {
		return err
	}
	if err := o.Shard.Validate(); err != nil {
		return fmt.Errorf("--shard: %w", err)
	}
	if err := checkFanout("--fanout", o.Fanout); err != nil {
		return err
	}
	_, err := o.evalFanout()
	return err
}

// partitioned reports whether batches are drawn from a buffer of partitions.
func (o *Options) partitioned() bool {
	return o.Order == OrderDispersed || o.Order == OrderSequential
}

// checkPartitions names the flag of the partitions, their buffer and its walk that makes no
// sense.
func (o *Options) checkPartitions() error {
	usage := func(format string, args ...any) error { return fault.New(fault.ErrUsage, format, args...) }
	switch {
	case !o.partitioned() && o.Partitions != 0:
		return usage("--partitions %d: only --order dispersed and sequential have partitions", o.Partitions)
	case !o.partitioned() && o.Buffer != 0:
		return usage("--buffer %d: only --order dispersed and sequential have a buffer of partitions", o.Buffer)
	case o.Order != OrderDispersed && o.Walk != "":
		return usage("--walk %s: only --order dispersed changes its buffer during an epoch", o.Walk)
	case !o.partitioned():
		return nil
	case o.Partitions < 2 || o.Partitions > walk.MaxPartitions:
		return usage("--partitions %d: --order %s needs 2 to %d", o.Partitions, o.Order, walk.MaxPartitions)
	case o.Buffer < 2 || o.Buffer > o.Partitions:
		return usage("--buffer %d: --order %s needs 2 to all %d partitions", o.Buffer, o.Order, o.Partitions)
	case o.Order == OrderDispersed && o.Walk != walk.Sweep && o.Walk != walk.Beta && o.Walk != walk.Comet:
		return usage("--walk %s: unknown; use sweep, beta or comet", o.Walk)
	case o.Sampler != SamplerUniform:
		return usage("--sampler %s: --order %s is drawn with uniform alone", o.Sampler, o.Order)
	}
	return nil
}

func checkFanout(flag string, fanout []int) error {
	if len(fanout) < 1 || len(fanout) > batchcodec.MaxLayers {
		return fault.New(fault.ErrUsage, "%s: %d layers; needs 1 to %d, like 10,15,20", flag, len(fanout), batchcodec.MaxLayers)
	}
	for _, f := range fanout {
		if f != mbfile.AllNeighbours && (f < 1 || f > maxFanout) {
			return fault.New(fault.ErrUsage, "%s: %d neighbours; needs 1 to %d, or all", flag, f, maxFanout)
		}
	}
	return nil
}

// evalFanout returns the fanout of validation and test batches.
func (o *Options) evalFanout() ([]int, error) {
	switch o.EvalFanout {
	case evalSame:
		return o.Fanout, nil
	case everyNeighbour:
		return slices.Repeat([]int{mbfile.AllNeighbours}, len(o.Fanout)), nil
	}
	fanout, err := ParseFanout(o.EvalFanout)
	if err != nil {
		return nil, fault.New(fault.ErrUsage, "--eval-fanout %s: write same, all, or a list like 10,15,20", o.EvalFanout)
	}
	if err := checkFanout("--eval-fanout", fanout); err != nil {
		return nil, err
	}
	if len(fanout) != len(o.Fanout) {
		return nil, fault.New(fault.ErrUsage, "--eval-fanout %s has %d layers, --fanout has %d", o.EvalFanout, len(fanout), len(o.Fanout))
	}
	return fanout, nil
}

// ParseFanout reads a list of fanouts as the command line spells it: numbers, or
// "all" for every neighbour, separated by commas, input side first.
func ParseFanout(text string) ([]int, error) {
	var fanout []int
	for _, s := range strings.Split(text, ",") {
		s = strings.TrimSpace(s)
		if s == everyNeighbour {
			fanout = append(fanout, mbfile.AllNeighbours)
			continue
		}
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return nil, fault.New(fault.ErrUsage, "%q is no list of fanouts: write numbers from 1, or all, like 10,15,20", text)
		}
		fanout = append(fanout, n)
	}
	return fanout, nil
}

// words says how a user gives a content parameter.
func words(param string, value json.RawMessage) (name, text string) {
	name, text = stage.Plain(param, value)
	switch param {
	case "sampler":
		return "the version of the sampling", text
	case "method":
		if len(value) == 0 {
			text = SamplerUniform
		}
		return "--sampler", text
	case "fanout", "eval_fanout":
		return name, strings.ReplaceAll(text, strconv.Itoa(mbfile.AllNeighbours), everyNeighbour)
	}
	return name, text
}

// params returns the content parameters.
func (o *Options) params() (mbfile.Params, error) {
	eval, err := o.evalFanout()
	p := mbfile.Params{
		BatchSize: o.BatchSize, Fanout: o.Fanout, EvalFanout: eval, Epochs: o.Epochs,
		TrainRatio: o.TrainRatio, Order: o.Order, Seed: o.Seed, Sampler: samplerVersion,
		Partitions: o.Partitions, Buffer: o.Buffer, Walk: o.Walk,
	}
	// What is uniform has none of the fields: samples of before there were others stay
	// what they are.
	if o.Sampler == SamplerLabor {
		p.Method, p.LayerDependency = mbfile.Labor, o.LayerDependency
		if o.BatchDependency > 1 {
			p.BatchDependency = o.BatchDependency
		}
	}
	return p, err
}
