package train

import (
	"runtime"
	"slices"
	"strings"
	"time"

	"diskgnn/featurestore"
	stores "diskgnn/featurestore/all"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/kernel"
	"diskgnn/iostack/all"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/model"
)

// Engines, as --engine names them.
const (
	EngineAuto = "auto"
	EngineCPU  = "cpu"
	EngineGPU  = "gpu"
	EngineNone = "none" // the loader alone: batches are assembled and thrown away
)

// Metrics, as --metric names them.
const (
	MetricAuto     = "auto" // what the dataset is usually judged by, else accuracy
	MetricAccuracy = "accuracy"
	MetricAUC      = "auc" // area under the ROC curve, of two classes; of many per node, the classes' mean
	MetricF1       = "f1"  // micro-averaged; with one class per node it equals accuracy
)

// ActivationAuto is the activation that is usual for the model.
const ActivationAuto = "auto"

// Optimizers, as --optimizer names them.
const (
	OptimizerAdam  = "adam"  // weight decay is part of the gradient
	OptimizerAdamW = "adamw" // weight decay is a step of its own
)

// Options describe a training run. Start from Defaults: a zero Dropout means no
// dropout, a zero PlateauPatience none, a zero CheckpointEvery the ends of epochs.
type Options struct {
	Store   string // of the batches: a name that featurestore/all knows; "" means auto
	Pack    string // directory of a finished pack
	Dataset string // those that other stores take the batches from
	Samples string
	Out     string // directory of the run, to be made

	Model      string  // sage, gcn or gat
	Hidden     int     // width of the hidden layers; 0 means 256
	Heads      int     // of gat, side by side in the hidden width; 0 means 8
	Epochs     int     // 0 means 10
	LR         float64 // Adam's learning rate; 0 means 0.003
	Dropout    float64 // rate after every layer but the last, from 0 to 1 − 2⁻³²
	Metric     string  // "" means auto
	LayerOrder string  // auto, aggregate or multiply; "" means auto
	Seed       uint64  // of weights, dropout and shuffling

	Norm            string // between a hidden layer and its activation: none, batch or layer; "" means none
	Residual        bool   // add a linear map of a layer's input to its output
	InputProjection bool   // bring the features to Hidden first, by a linear map
	Activation      string // relu, elu or auto, which is elu for gat, else relu; "" means auto
	Aggregator      string // of sage: mean, sum or max; "" means mean
	GCNNorm         string // of gcn, by the degrees in the graph or the block; "" means graph

	Optimizer      string  // adam, or adamw, whose decay is decoupled; "" means adam
	WeightDecay    float64 // PyTorch's weight_decay
	LabelSmoothing float64 // share of a label that is spread over all classes, in [0, 1)
	Loss           string  // cross-entropy, binary or auto, by the labels; "" means auto

	Schedule        string  // of the learning rate: constant, cosine or plateau; "" means constant
	Warmup          int     // epochs in which it rises to LR, in equal steps
	MinLR           float64 // which cosine and plateau do not fall below
	PlateauFactor   float64 // by which plateau lowers it; 0 means 0.5
	PlateauPatience int     // epochs without a better score that plateau lets pass before
	Patience        int     // epochs without a better validation score that end the run; 0: it goes on
	ValidateEvery   int     // epochs from one validation to the next; the last one is validated. 0 means 1

	// ShuffleBatches permutes each epoch's batches; otherwise they come in the
	// order in which they were sampled.
	ShuffleBatches bool

	RAMCache *budget.Size // nil: as much of what the pack holds as hot as Memory allows
	GPUCache *budget.Size // held by the GPU; nil: as much as it has room for
	Memory   int64        // anonymous and locked bytes; 0 means budget.Default
	// GPUMemory is what the run may hold of the GPU's; 0 means all that is free, but for
	// what the driver may still need.
	GPUMemory int64
	Threads   int // of the engine; 0 means GOMAXPROCS
	// Slots is the number of batches under way; 0 means what memory allows, up to what
	// serves. With one, nothing overlaps.
	Slots int

	Engine string // auto, cpu, gpu or none; "" means auto
	// Precision of the gpu engine's matrix products: float32, tf32 or bf16; "" means
	// float32.
	Precision string
	IO        string // a kind that iostack/all knows; "" means auto
	BLAS      string // auto, openblas or gonum; "" means auto

	Trace bool // write trace.json
	Force bool // replace a run at Out

	CheckpointEvery Interval
	Keep            int // checkpoints at a time; 0 means 3
	// Resume goes on with the run at Out, if there is one. What decides its result is
	// taken from there, and so is what it was Given.
	Resume bool
	// Given names the flags that the user set: they must agree with a run that is
	// resumed, where they decide its result, and it keeps the others of them.
	Given []string
}

// Defaults returns the options of a run of which nothing is said.
func Defaults() Options {
	o := Options{Dropout: 0.5, PlateauPatience: 10, CheckpointEvery: Interval{Time: 10 * time.Minute}}
	o.EnsureDefaults()
	return o
}

// EnsureDefaults replaces zero values that mean a default.
func (o *Options) EnsureDefaults() {
	setDefault(&o.Store, stores.Auto)
	setDefault(&o.Model, string(model.SAGE))
	setDefault(&o.Hidden, 256)
	setDefault(&o.Heads, 8)
	setDefault(&o.Epochs, 10)
	setDefault(&o.LR, 0.003)
	setDefault(&o.Metric, MetricAuto)
	setDefault(&o.LayerOrder, string(model.Auto))
	setDefault(&o.Norm, string(model.NoNorm))
	setDefault(&o.Activation, ActivationAuto)
	setDefault(&o.Aggregator, string(model.Mean))
	setDefault(&o.GCNNorm, string(model.GraphNorm))
	setDefault(&o.Optimizer, OptimizerAdam)
	setDefault(&o.Schedule, ScheduleConstant)
	setDefault(&o.PlateauFactor, 0.5)
	setDefault(&o.Loss, LossAuto)
	setDefault(&o.ValidateEvery, 1)
	setDefault(&o.Threads, runtime.GOMAXPROCS(0))
	setDefault(&o.Engine, EngineAuto)
	setDefault(&o.Precision, PrecisionFloat32)
	setDefault(&o.IO, all.Auto)
	setDefault(&o.BLAS, blas.Auto)
	setDefault(&o.Keep, 3)
	if o.Memory == 0 {
		o.Memory, _ = budget.Default()
	}
}

func setDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// What is beyond these is a slip, and would overflow what is counted from it.
const (
	maxHidden  = 1 << 24
	maxEpochs  = 1 << 19 // of which run.json, with two thousand bytes for each, is still read
	maxSlots   = 1 << 10
	maxThreads = 1 << 12
)

// Validate names the flag that makes no sense. It expects EnsureDefaults to have
// been called.
func (o *Options) Validate() error {
	usage := func(format string, args ...any) error { return fault.New(fault.ErrUsage, format, args...) }
	_, knownOrder := model.ParseOrder(o.LayerOrder)
	if _, err := stores.Choose(o.Store, o.places()); err != nil {
		return err
	}
	switch {
	case o.Out == "":
		return usage("--out is missing: name the directory to make for this run")
	case o.Resume && o.Force:
		return usage("--resume and --force: go on with the run, or replace it")
	case o.Keep < 1 || o.CheckpointEvery.Batches < 0 || o.CheckpointEvery.Time < 0:
		return usage("--keep %d, --checkpoint-every %s: give a positive number", o.Keep, o.CheckpointEvery)
	case o.Hidden < 1 || o.Hidden > maxHidden:
		return usage("--hidden %d: give a width from 1 to %d", o.Hidden, maxHidden)
	case o.Heads < 1 || o.Heads > model.MaxHeads:
		return usage("--heads %d: give a number from 1 to %d", o.Heads, model.MaxHeads)
	case o.Epochs < 1 || o.Epochs > maxEpochs:
		return usage("--epochs %d: give a number from 1 to %d", o.Epochs, maxEpochs)
	case !(o.LR > 0 && o.LR < 1e6):
		return usage("--lr %v: give a learning rate above 0 and below a million", o.LR)
	case kernel.CheckDropout(o.Dropout) != nil:
		return usage("--dropout %v: %w", o.Dropout, kernel.CheckDropout(o.Dropout))
	case !knownOrder:
		return usage("--layer-order %s: no such order (auto, aggregate, multiply)", o.LayerOrder)
	case !(o.WeightDecay >= 0 && o.WeightDecay < 1e6):
		return usage("--weight-decay %v: give a number from 0 up, below a million", o.WeightDecay)
	case !(o.LabelSmoothing >= 0 && o.LabelSmoothing < 1):
		return usage("--label-smoothing %v: give a share from 0 up to, not including, 1", o.LabelSmoothing)
	case o.Memory < 0:
		return usage("--memory %d: give a positive size", o.Memory)
	case o.Threads < 1 || o.Threads > maxThreads:
		return usage("--threads %d: give a number from 1 to %d", o.Threads, maxThreads)
	case o.Slots < 0 || o.Slots > maxSlots:
		return usage("--slots %d: give a number from 0 to %d", o.Slots, maxSlots)
	case o.RAMCache != nil && !isCache(*o.RAMCache):
		return usage("--ram-cache %s: give a share of the rows (10%%) or bytes (2GiB)", o.RAMCache)
	case o.GPUCache != nil && !isCache(*o.GPUCache):
		return usage("--gpu-cache %s: give a share of the rows (10%%) or bytes (2GiB)", o.GPUCache)
	case o.GPUMemory < 0:
		return usage("--gpu-memory %d: give a positive size", o.GPUMemory)
	case o.GPUMemory > 0 && o.Engine != EngineGPU && o.Engine != EngineAuto:
		return usage("--gpu-memory is for --engine %s", EngineGPU)
	case o.GPUCache != nil && o.GPUCache.Value != 0 && o.Engine == EngineNone:
		return usage("--gpu-cache is for --engine %s", EngineGPU)
	}
	for _, c := range []struct {
		flag, value string
		known       []string
	}{
		{"--model", o.Model, namesOf(model.SAGE, model.GCN, model.GAT)},
		{"--norm", o.Norm, namesOf(model.Norms...)},
		{"--activation", o.Activation, append([]string{ActivationAuto}, namesOf(model.Activations...)...)},
		{"--aggregator", o.Aggregator, namesOf(model.Aggregators...)},
		{"--gcn-norm", o.GCNNorm, namesOf(model.GCNNorms...)},
		{"--optimizer", o.Optimizer, []string{OptimizerAdam, OptimizerAdamW}},
		{"--schedule", o.Schedule, []string{ScheduleConstant, ScheduleCosine, SchedulePlateau}},
		{"--loss", o.Loss, []string{LossAuto, LossCrossEntropy, LossBinary}},
		{"--metric", o.Metric, []string{MetricAuto, MetricAccuracy, MetricAUC, MetricF1}},
		{"--engine", o.Engine, []string{EngineAuto, EngineCPU, EngineGPU, EngineNone}},
		{"--precision", o.Precision, precisions},
		{"--blas", o.BLAS, []string{blas.Auto, blas.OpenBLAS, blas.Gonum}},
	} {
		if !slices.Contains(c.known, c.value) {
			return usage("%s %s: there are %s", c.flag, c.value, strings.Join(c.known, ", "))
		}
	}
	switch {
	case o.Model != string(model.SAGE) && o.Aggregator != string(model.Mean):
		return usage("--aggregator %s is for --model sage, not %s", o.Aggregator, o.Model)
	case o.Model != string(model.GCN) && o.GCNNorm != string(model.GraphNorm):
		return usage("--gcn-norm %s is for --model gcn, not %s", o.GCNNorm, o.Model)
	case o.Model == string(model.GAT) && o.Hidden%o.Heads != 0:
		return usage("--heads %d: a hidden width of %d cannot be divided among them", o.Heads, o.Hidden)
	case o.Aggregator == string(model.Max) && o.LayerOrder == string(model.Multiply):
		return usage("--layer-order multiply: --aggregator max must come first")
	}
	return o.validateRate()
}

// isCache tells whether a cache can be so large.
func isCache(s budget.Size) bool {
	switch s.Unit {
	case budget.UnitPercent:
		return s.Value >= 0 && s.Value <= 100
	case budget.UnitBytes:
		return s.Value >= 0 && s.Value <= 1<<62
	}
	return s.Unit == budget.UnitUnlimited
}

func namesOf[T ~string](list ...T) []string {
	s := make([]string, len(list))
	for i, v := range list {
		s[i] = string(v)
	}
	return s
}

// resolve replaces every auto that the pack decides, and refuses what the pack
// cannot serve.
func (o *Options) resolve(f featurestore.Facts, inOrder bool) error {
	if err := o.resolveLabels(f); err != nil {
		return err
	}
	if o.ShuffleBatches && inOrder {
		return fault.New(fault.ErrUsage, "--shuffle-batches: %s has the policy min, whose cache follows the order of the batches", o.source())
	}
	if err := o.checkPatience(f); err != nil {
		return err
	}
	if f.Train == 0 || f.BatchesPerEpoch < 1 || f.Epochs < 1 || f.Train != f.BatchesPerEpoch*f.Epochs {
		return fault.New(fault.ErrCorrupt, "%s: %d training batches in %d epochs of %d", o.source(), f.Train, f.Epochs, f.BatchesPerEpoch)
	}
	return nil
}

// network returns the model that the options and the pack describe: one layer for
// every fanout sampled.
func (o *Options) network(f featurestore.Facts) model.Model {
	m := model.Model{Kind: model.Kind(o.Model), Dims: []int{f.Dim}, Dropout: o.Dropout,
		Norm: model.Norm(o.Norm), Residual: o.Residual}
	if o.Activation != ActivationAuto {
		m.Activation = model.Activation(o.Activation)
	}
	m.Activation = m.Unit()
	switch m.Kind {
	case model.SAGE:
		m.Aggregator = model.Aggregator(o.Aggregator)
	case model.GAT:
		m.Heads = o.Heads
	case model.GCN:
		m.GCNNorm = model.GCNNorm(o.GCNNorm)
	}
	if o.InputProjection {
		m.InputProjection = o.Hidden
	}
	for range len(f.Fanout) - 1 {
		m.Dims = append(m.Dims, o.Hidden)
	}
	m.Dims = append(m.Dims, f.Classes)
	if order, _ := model.ParseOrder(o.LayerOrder); order != model.Auto {
		m.Orders = slices.Repeat([]model.Order{order}, m.Layers())
	}
	return m
}
