package presample

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/shard"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/topology"
	"diskgnn/presample/walk"
)

// Orders of visiting the training batches.
const (
	OrderRandom  = sampler.Random
	OrderOverlap = sampler.Overlap // neighbouring batches share input nodes
	// Batches from the partitions in a buffer, which changes during an epoch, or does not.
	OrderDispersed  = sampler.Dispersed
	OrderSequential = sampler.Sequential
)

// Samplers: how a destination chooses among its in-neighbours.
const (
	SamplerUniform = sampler.Uniform // by itself, each set of them as likely
	SamplerLabor   = mbfile.Labor    // the same neighbours as other destinations, where possible
)

// Options are the parameters of Run. The zero value of a field means its default.
type Options struct {
	Dataset, Out string

	BatchSize int // seed nodes of a batch; 0: 1024
	// Fanout has the number of neighbours that a destination draws, for each hop, input side first as
	// in DGL: the last entry is for the seed nodes. mbfile.AllNeighbours means all. Nil: 10, 15, 20.
	Fanout []int
	// EvalFanout is the fanout of validation and test batches: "same" as Fanout, "all", or a list like
	// 10,15,all. "": same.
	EvalFanout string
	// RelationFanout has fanouts of relations of a typed graph, like author:writes:paper, that differ from Fanout. It is
	// for evaluation, too, if EvalFanout is "same".
	RelationFanout map[string][]int
	// Merged makes a fanout the number of neighbours of all relations of a typed graph together. By default each relation
	// draws its own.
	Merged     bool
	Epochs     int     // number of sample epochs; 0: 1
	TrainRatio float64 // share of the training nodes to use, up to 1; 0: 1
	Order      string  // of the batches: "random", "overlap", "dispersed" or "sequential". "": random
	// Partitions is the number of partitions of the graph, and Buffer the number of them in the
	// buffer, for the orders dispersed and sequential.
	Partitions, Buffer int
	// Walk is the way in which the order dispersed changes the buffer during an epoch: walk.Sweep,
	// walk.Beta or walk.Comet. "": sweep
	Walk    string
	Seed    uint64
	Sampler string // "uniform" or "labor", also for evaluation batches. "": uniform
	// BatchDependency is the number of successive batches over which the random numbers of labor
	// change gradually, so that these batches share input nodes. 1: every batch has its own. 0: 1
	BatchDependency int
	LayerDependency bool // labor has the same random numbers in all hops of a batch
	// Shard is the part of the samples to draw. Its directory is beside Out; merging all shards makes
	// Out. The zero value: all.
	Shard shard.Shard

	// Topology says where the topology is held. By default, topology.Cached takes the memory that the
	// workers leave of Memory.
	Topology topology.Choice

	Workers int   // goroutines that sample; 0: one for each processor
	Memory  int64 // bytes of anonymous memory to stay under; 0: budget.Default
	Force   bool  // replace samples made with other parameters

	// batchesPerFile, if not 0, cuts files early; tests resume small runs by it.
	batchesPerFile int
	// degreesAbove, if not 0, is the number of nodes above which a table of degrees is held.
	degreesAbove int64
}

// EnsureDefaults fills in the fields that are zero.
func (o *Options) EnsureDefaults() {
	if o.BatchSize == 0 {
		o.BatchSize = 1024
	}
	if o.Fanout == nil {
		o.Fanout = []int{10, 15, 20}
	}
	if o.EvalFanout == "" {
		o.EvalFanout = sampler.EvalSame
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
	o.Topology.EnsureDefaults()
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Memory == 0 {
		o.Memory, _ = budget.Default()
	}
}

// Validate returns an error of kind fault.ErrUsage that names the first flag with an invalid value, or
// nil. Call EnsureDefaults before.
func (o *Options) Validate() error {
	usage := func(format string, args ...any) error { return fault.New(fault.ErrUsage, format, args...) }
	switch {
	case o.Dataset == "":
		return usage("--dataset is missing: name the dataset to sample")
	case o.Out == "":
		return usage("--out is missing: name a directory for the samples")
	case o.Workers < 1:
		return usage("--workers %d: needs at least 1", o.Workers)
	case o.Memory < 0:
		return usage("--memory %d: needs at least 0", o.Memory)
	}
	if err := o.checkPartitions(); err != nil {
		return err
	}
	if err := o.Topology.Validate(); err != nil {
		return err
	}
	if err := o.Shard.Validate(); err != nil {
		return fmt.Errorf("--shard: %w", err)
	}
	p, err := o.params()
	if err != nil {
		return err
	}
	for name, fanout := range o.RelationFanout {
		switch {
		case o.Merged:
			return usage("--relation-fanout: with --merge-relations all relations have one fanout")
		case len(fanout) != len(o.Fanout):
			return usage("--relation-fanout %s has %d layers, but --fanout has %d", name, len(fanout), len(o.Fanout))
		}
		q := p
		if q.Fanout = fanout; sampler.Check(&q) != nil {
			return fmt.Errorf("--relation-fanout %s: %w", name, sampler.Check(&q))
		}
	}
	return sampler.Check(&p)
}

// ParseFanout reads a list of fanouts: see sampler.ParseFanout.
func ParseFanout(text string) ([]int, error) { return sampler.ParseFanout(text) }

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
		return usage("--buffer %d: --order %s needs 2 to %d, the number of partitions", o.Buffer, o.Order, o.Partitions)
	case o.Order == OrderDispersed && !slices.Contains(walk.Names(), o.Walk):
		return usage("--walk %s is not one of %s", o.Walk, strings.Join(walk.Names(), ", "))
	case o.Sampler != SamplerUniform:
		return usage("--sampler %s: --order %s needs --sampler uniform", o.Sampler, o.Order)
	}
	return nil
}

// checkTyped names the first flag with a value that is not for typed graphs.
func (o *Options) checkTyped() error {
	usage := func(flag, value string) error {
		return fault.New(fault.ErrUsage, "--%s %s: this version does not sample typed graphs so", flag, value)
	}
	switch {
	case o.Order != OrderRandom:
		return usage("order", o.Order)
	case o.Sampler != SamplerUniform:
		return usage("sampler", o.Sampler)
	case o.Topology.Level != topology.Mapped:
		return usage("topology", o.Topology.Level)
	}
	return nil
}

// settle sets the parameters that depend on the graph's types.
func (o *Options) settle(p *mbfile.Params, t *graph.Types) error {
	usage := func(format string, args ...any) error { return fault.New(fault.ErrUsage, format, args...) }
	switch {
	case t == nil && len(o.RelationFanout) > 0:
		return usage("--relation-fanout: the graph of %s has one relation", o.Dataset)
	case t == nil && o.Merged:
		return usage("--merge-relations: the graph of %s has one relation", o.Dataset)
	case t == nil:
		return nil
	}
	if err := o.checkTyped(); err != nil {
		return err
	}
	p.Merged = o.Merged
	if len(o.RelationFanout) == 0 {
		return nil
	}
	by := map[string][]int{}
	for r := range t.Relations {
		by[t.Triple(r)] = p.Fanout
	}
	for name, fanout := range o.RelationFanout {
		if by[name] == nil {
			return usage("--relation-fanout %s: the graph has no such relation; it has %s", name, strings.Join(slices.Sorted(maps.Keys(by)), ", "))
		}
		by[name] = fanout
	}
	p.RelationFanout = by
	p.Fanout = mbfile.Most(slices.Collect(maps.Values(by)))
	if o.EvalFanout == sampler.EvalSame {
		p.EvalRelationFanout, p.EvalFanout = by, p.Fanout
	}
	return nil
}

// ParseRelationFanout reads fanouts of relations, like author:writes:paper=5,10;paper:cites:paper=10,all.
func ParseRelationFanout(text string) (map[string][]int, error) {
	by := map[string][]int{}
	for part := range strings.SplitSeq(text, ";") {
		at := strings.LastIndexByte(part, '=')
		if at < 0 {
			return nil, fault.New(fault.ErrUsage, "%q is not a relation and its fanout, like author:writes:paper=5,10", part)
		}
		fanout, err := sampler.ParseFanout(part[at+1:])
		if err != nil {
			return nil, err
		}
		by[strings.TrimSpace(part[:at])] = fanout
	}
	return by, nil
}

// words returns the name of a content parameter, as the user gives it, and its value as text.
func words(param string, value json.RawMessage) (name, text string) {
	name, text = stage.Plain(param, value)
	switch param {
	case "sampler":
		return "the version of the sampler", text
	case "method":
		if len(value) == 0 {
			text = SamplerUniform
		}
		return "--sampler", text
	case "fanout", "eval_fanout":
		return name, strings.ReplaceAll(text, strconv.Itoa(mbfile.AllNeighbours), sampler.EveryNeighbour)
	}
	return name, text
}

func (o *Options) params() (mbfile.Params, error) {
	eval, err := sampler.EvalFanout(o.EvalFanout, o.Fanout)
	if err != nil {
		return mbfile.Params{}, err
	}
	p := mbfile.Params{
		BatchSize: o.BatchSize, Fanout: o.Fanout, EvalFanout: eval, Epochs: o.Epochs,
		TrainRatio: o.TrainRatio, Order: o.Order, Seed: o.Seed, Sampler: sampler.Version,
		Partitions: o.Partitions, Buffer: o.Buffer, Walk: o.Walk,
	}
	return p, sampler.SetMethod(&p, o.Sampler, o.BatchDependency, o.LayerDependency)
}

// Agrees returns nil if Run would begin, resume, or find finished the samples, and else the error that
// Run would return because of existing files. If the dataset does not exist yet, existing samples
// count as samples of it. It changes nothing.
func Agrees(ctx context.Context, fsys vfs.FS, o Options) error {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return err
	}
	out := o.Shard.DirName(o.Out)
	if stage.Kind(fsys, o.Dataset) != "" {
		s, err := begin(fsys, o, progress.Discard)
		if err != nil {
			return err
		}
		spec, err := o.Shard.Spec(s.spec(ctx, mbfile.FormatFor(s.data.TargetBytes(), s.data.Facts().Types != nil), map[string]string{stage.RoleDataset: s.data.Fingerprint()}))
		if err != nil {
			return err
		}
		return stage.Agrees(fsys, out, spec, o.Force)
	}
	was, ok := stage.Made(fsys, out)
	if !ok || !o.Shard.Whole() || len(o.RelationFanout) > 0 || o.Merged { // the parameters depend on the graph's types
		return nil
	}
	s := &sampling{o: o, fs: fsys}
	var err error
	if s.params, err = o.params(); err != nil {
		return err
	}
	return stage.Agrees(fsys, out, s.spec(ctx, was.Format, was.Parents), o.Force)
}
