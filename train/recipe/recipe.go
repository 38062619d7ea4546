// Package recipe is the list of the options that decide a run's weights: what is
// trained, by which steps, judged by what. Each option stands here once, with its name,
// its default and what it may be; `diskgnn train` has a flag for it, run.json a key.
//
//	flags ─► Recipe ─ Validate ─► Resolve ─► run.json, report, engines
//	                               │ Data      ▲
//	                               └─ Network  └─ Recall, by a run that is resumed
//
// What does not decide the weights (threads, memory, caches, storage) is none of it.
package recipe

import (
	"diskgnn/train/model"
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

// Losses, as --loss names them.
const (
	LossAuto         = "auto" // what suits the labels
	LossCrossEntropy = string(model.CrossEntropy)
	LossBinary       = string(model.Binary)
)

// Schedules of the learning rate, as --schedule names them.
const (
	ScheduleConstant = "constant"
	ScheduleCosine   = "cosine"  // from LR down to MinLR, by half a cosine over the epochs
	SchedulePlateau  = "plateau" // lower whenever scores do not become better
)

// Precisions of the gpu engine's matrix products, as --precision names them.
const (
	PrecisionFloat32 = "float32" // changes nothing
	PrecisionTF32    = "tf32"
	PrecisionBF16    = "bf16"
)

// Recipe holds the options that decide the weights. The JSON name of an option is its
// flag's, with underscores. Start from Defaults: a zero Dropout means no dropout, a zero
// PlateauPatience none.
//
// The order of the fields is part of what a checkpoint is checked by: new ones go to the
// end, and are left out of the JSON where they are zero.
type Recipe struct {
	Model          string  `json:"model"`           // sage, gcn or gat
	Hidden         int     `json:"hidden"`          // width of the hidden layers; 0 means 256
	Dims           []int   `json:"dims"`            // no option: the widths that Resolve found, from features to classes
	Epochs         int     `json:"epochs"`          // 0 means 10
	LR             float64 `json:"lr"`              // Adam's learning rate; 0 means 0.003
	Dropout        float64 `json:"dropout"`         // rate after every layer but the last, from 0 to 1 − 2⁻³²
	Metric         string  `json:"metric"`          // "" means auto
	LayerOrder     string  `json:"layer_order"`     // auto, aggregate or multiply; "" means auto
	Seed           uint64  `json:"seed"`            // of weights, dropout and shuffling
	ShuffleBatches bool    `json:"shuffle_batches"` // permute each epoch's batches; else they come as they were sampled

	Heads           int    `json:"heads"`            // of gat, side by side in the hidden width; 0 means 8
	Norm            string `json:"norm"`             // between a hidden layer and its activation: none, batch or layer; "" means none
	Residual        bool   `json:"residual"`         // add a linear map of a layer's input to its output
	InputProjection bool   `json:"input_projection"` // bring the features to Hidden first, by a linear map
	Activation      string `json:"activation"`       // relu, elu or auto, which is elu for gat, else relu; "" means auto
	Aggregator      string `json:"aggregator"`       // of sage: mean, sum or max; "" means mean
	GCNNorm         string `json:"gcn_norm"`         // of gcn, by the degrees in the graph or the block; "" means graph

	Optimizer      string  `json:"optimizer"`       // adam, or adamw, whose decay is decoupled; "" means adam
	WeightDecay    float64 `json:"weight_decay"`    // PyTorch's weight_decay, over all parameters
	LabelSmoothing float64 `json:"label_smoothing"` // share of a label that is spread over all classes, in [0, 1)
	Loss           string  `json:"loss"`            // cross-entropy, binary or auto, by the labels; "" means auto

	Schedule        string  `json:"schedule"`         // of the learning rate: constant, cosine or plateau; "" means constant
	Warmup          int     `json:"warmup"`           // epochs in which it rises to LR, in equal steps
	MinLR           float64 `json:"min_lr"`           // which cosine and plateau do not fall below
	PlateauFactor   float64 `json:"plateau_factor"`   // by which plateau lowers it; 0 means 0.5
	PlateauPatience int     `json:"plateau_patience"` // epochs without a better score that plateau lets pass before
	Patience        int     `json:"patience"`         // epochs without a better validation score that end the run; 0: it goes on
	ValidateEvery   int     `json:"validate_every"`   // epochs from one validation to the next; the last one is validated. 0 means 1

	// Precision of the gpu engine's matrix products; "" means float32. Runs of the other
	// engines have none.
	Precision string `json:"precision,omitempty"`

	// Options of batches that are drawn while training. Without a Fanout they were drawn
	// before, and all of these are zero.
	Fanout     string  `json:"fanout,omitempty"`      // input side first, such as 10,15,all
	EvalFanout string  `json:"eval_fanout,omitempty"` // same, all, or as Fanout; "" means same
	BatchSize  int     `json:"batch_size,omitempty"`  // seed nodes; 0 means 1024
	TrainRatio float64 `json:"train_ratio,omitempty"` // share of the training nodes to use; 0 means 1
	SampleSeed uint64  `json:"sample_seed,omitempty"` // of what is drawn
	Sampler    string  `json:"sampler,omitempty"`     // uniform or labor; "" means uniform
	// BatchDependency and LayerDependency are of labor: over how many batches its choices
	// change, 0 meaning 1, and whether they are the same in all layers.
	BatchDependency int  `json:"batch_dependency,omitempty"`
	LayerDependency bool `json:"layer_dependency,omitempty"`
	// DryEpochs are those that are drawn before training, for sizes, means and ranks: a
	// number, all, or auto: 1, but all with an input projection, whose numbers depend on
	// ranks. "" means auto.
	DryEpochs string `json:"dry_epochs,omitempty"`

	// Accumulate is the number of successive batches whose gradients a step sums; an epoch's
	// last step has what is left. 0 means as many as there are ranks.
	Accumulate int `json:"accumulate,omitempty"`

	// InitFrom is the SHA-256 of the file of weights that training begins with, in hexadecimal; ""
	// where Seed draws them.
	InitFrom string `json:"init_from,omitempty"`
}

// MaxAccumulate bounds Accumulate: what is beyond it is a slip.
const MaxAccumulate = 1 << 12

// Defaults returns the recipe of a run of which nothing is said.
func Defaults() Recipe {
	r := Recipe{Dropout: 0.5, PlateauPatience: 10}
	r.EnsureDefaults()
	return r
}

// EnsureDefaults replaces zero values that mean a default.
func (r *Recipe) EnsureDefaults() {
	setDefault(&r.Model, string(model.Kinds()[0]))
	setDefault(&r.Hidden, 256)
	setDefault(&r.Heads, 8)
	setDefault(&r.Epochs, 10)
	setDefault(&r.LR, 0.003)
	setDefault(&r.Metric, MetricAuto)
	setDefault(&r.LayerOrder, string(model.Auto))
	setDefault(&r.Norm, string(model.NoNorm))
	setDefault(&r.Activation, ActivationAuto)
	setDefault(&r.Aggregator, string(model.Mean))
	setDefault(&r.GCNNorm, string(model.GraphNorm))
	setDefault(&r.Optimizer, OptimizerAdam)
	setDefault(&r.Schedule, ScheduleConstant)
	setDefault(&r.PlateauFactor, 0.5)
	setDefault(&r.Loss, LossAuto)
	setDefault(&r.ValidateEvery, 1)
	setDefault(&r.Precision, PrecisionFloat32)
	r.ensureSampling()
}

func setDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// Validates tells whether an epoch is one that is validated.
func (r *Recipe) Validates(epoch int) bool {
	return (epoch+1)%max(1, r.ValidateEvery) == 0 || epoch == r.Epochs-1
}

// Bound says why the steps of a run depend on how many epochs it has in all, "" if they do not: a run
// can go on to more epochs then, as if it had been begun with them.
func (r *Recipe) Bound() string {
	if r.Schedule == ScheduleCosine {
		return "--schedule cosine lowers the learning rate over all epochs together"
	}
	return ""
}

// RateVaries tells whether epochs may have different learning rates.
func (r *Recipe) RateVaries() bool { return r.Schedule != ScheduleConstant || r.Warmup > 0 }
