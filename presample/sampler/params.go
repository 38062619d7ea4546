package sampler

import (
	"slices"
	"strconv"
	"strings"

	"diskgnn/graph/batchcodec"
	"diskgnn/internal/fault"
	"diskgnn/presample/mbfile"
)

// Version is the version of the sampler, one of the content parameters. It changes whenever the same
// parameters give other batches.
const Version = 1

// Words that stand for fanouts.
const (
	EvalSame       = "same" // of validation and test: training's
	EveryNeighbour = "all"
)

const (
	// maxBatchSize keeps counts of a batch within 32 bits with room to spare.
	maxBatchSize = 1 << 28
	// MaxFanout is the largest number in a fanout; it keeps the neighbours of one destination a small
	// part of memory.
	MaxFanout = 1 << 16
	// maxEpochs keeps the bytes of all batches within 64 bits.
	maxEpochs = 1 << 20
)

// Check returns an error of kind fault.ErrUsage that names the first invalid flag among batch size, epochs,
// training ratio, order and fanout, or nil. It does not check the other parameters.
func Check(p *mbfile.Params) error {
	usage := func(format string, args ...any) error { return fault.New(fault.ErrUsage, format, args...) }
	switch {
	case p.BatchSize < 1 || p.BatchSize > maxBatchSize:
		return usage("--batch-size %d: needs 1 to %d", p.BatchSize, maxBatchSize)
	case p.Epochs < 1 || p.Epochs > maxEpochs:
		return usage("--epochs %d: needs 1 to %d", p.Epochs, maxEpochs)
	case !(p.TrainRatio > 0 && p.TrainRatio <= 1):
		return usage("--train-ratio %g: needs a share of the training nodes, above 0 and up to 1", p.TrainRatio)
	case !slices.Contains(Orders(), p.Order):
		return usage("--order %s is not one of %s", p.Order, strings.Join(Orders(), ", "))
	}
	return checkFanout("--fanout", p.Fanout)
}

// Uniform is the name of the method "" of mbfile.Params.
const Uniform = "uniform"

// Methods returns the values that --sampler accepts.
func Methods() []string { return []string{Uniform, mbfile.Labor} }

// Orders returns the values that --order accepts.
func Orders() []string { return []string{Random, Overlap, Dispersed, Sequential} }

// SetMethod sets the fields of p for the sampling method: name is one of Methods, batches is
// mbfile.Params.BatchDependency with 1 for none, and layers is LayerDependency. Invalid values are
// errors of kind fault.ErrUsage. For uniform sampling all fields stay zero, so that samples from
// before LABOR keep their fingerprint.
func SetMethod(p *mbfile.Params, name string, batches int, layers bool) error {
	usage := func(format string, args ...any) error { return fault.New(fault.ErrUsage, format, args...) }
	switch {
	case !slices.Contains(Methods(), name):
		return usage("--sampler %s is not one of %s", name, strings.Join(Methods(), ", "))
	case batches < 1 || batches > mbfile.MaxBatchDependency:
		return usage("--batch-dependency %d: needs 1 to %d", batches, mbfile.MaxBatchDependency)
	case batches > 1 && name != mbfile.Labor:
		return usage("--batch-dependency %d: needs --sampler labor", batches)
	case layers && name != mbfile.Labor:
		return usage("--layer-dependency: needs --sampler labor")
	}
	p.Method, p.BatchDependency, p.LayerDependency = "", 0, layers
	if name == mbfile.Labor {
		p.Method = name
	}
	if batches > 1 {
		p.BatchDependency = batches
	}
	return nil
}

func checkFanout(flag string, fanout []int) error {
	if len(fanout) < 1 || len(fanout) > batchcodec.MaxLayers {
		return fault.New(fault.ErrUsage, "%s: %d layers; needs 1 to %d, like 10,15,20", flag, len(fanout), batchcodec.MaxLayers)
	}
	for _, f := range fanout {
		if f != mbfile.AllNeighbours && (f < 1 || f > MaxFanout) {
			return fault.New(fault.ErrUsage, "%s: %d neighbours; needs 1 to %d, or all", flag, f, MaxFanout)
		}
	}
	return nil
}

// EvalFanout parses the fanout of validation and test batches: "same" as fanout, "all", or a list with
// the length of fanout.
func EvalFanout(text string, fanout []int) ([]int, error) {
	switch text {
	case EvalSame:
		return fanout, nil
	case EveryNeighbour:
		return slices.Repeat([]int{mbfile.AllNeighbours}, len(fanout)), nil
	}
	eval, err := ParseFanout(text)
	if err != nil {
		return nil, fault.New(fault.ErrUsage, "--eval-fanout %s: needs same, all, or a list like 10,15,20", text)
	}
	if err := checkFanout("--eval-fanout", eval); err != nil {
		return nil, err
	}
	if len(eval) != len(fanout) {
		return nil, fault.New(fault.ErrUsage, "--eval-fanout %s has %d layers, but --fanout has %d", text, len(eval), len(fanout))
	}
	return eval, nil
}

// ParseFanout parses a fanout as flags have it: numbers, or "all" for every neighbour, separated by
// commas, input side first.
func ParseFanout(text string) ([]int, error) {
	var fanout []int
	for s := range strings.SplitSeq(text, ",") {
		s = strings.TrimSpace(s)
		if s == EveryNeighbour {
			fanout = append(fanout, mbfile.AllNeighbours)
			continue
		}
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return nil, fault.New(fault.ErrUsage, "%q is not a list of fanouts: needs numbers from 1, or all, like 10,15,20", text)
		}
		fanout = append(fanout, n)
	}
	return fanout, nil
}

// FormatFanout writes a list of fanouts as ParseFanout reads it.
func FormatFanout(fanout []int) string {
	words := make([]string, len(fanout))
	for i, n := range fanout {
		if words[i] = strconv.Itoa(n); n == mbfile.AllNeighbours {
			words[i] = EveryNeighbour
		}
	}
	return strings.Join(words, ",")
}
