// Package recipe is the list of the options that decide a run's weights: the model, the steps and
// the metric. Each option stands here once, with its name, default and permitted values; `diskgnn
// train` has a flag for it, run.json a key.
//
//	flags ─► Recipe ─ Validate ─► Resolve ─► run.json, report, engines
//	                               │ Data      ▲
//	                               └─ Network  └─ Recall, by a run that is resumed
//
// Options that do not decide the weights (threads, memory, caches, storage) are not part of it.
package recipe

import (
	"math"
	"strconv"

	"diskgnn/train/model"
)

// Metrics, as --metric names them.
const (
	MetricAuto     = "auto" // the dataset's usual metric, else accuracy
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
	LossAuto         = "auto" // chosen by the labels
	LossCrossEntropy = string(model.CrossEntropy)
	LossBinary       = string(model.Binary)
)

// Schedules of the learning rate, as --schedule names them.
const (
	ScheduleConstant = "constant"
	ScheduleCosine   = "cosine"  // from LR towards MinLR, by half a cosine over the epochs after Warmup
	SchedulePlateau  = "plateau" // lower whenever scores do not become better
)

// Precisions of the gpu engine's matrix products, as --precision names them.
const (
	PrecisionFloat32 = "float32" // changes nothing
	PrecisionTF32    = "tf32"
	PrecisionBF16    = "bf16"
)

// Recipe holds the options that decide the weights. Each has a row in Model, Learning, Drawing or
// Computing, with its meaning, permitted values and default. A zero value stands for the default
// unless the row has Zero. Start from Defaults.
//
// A checkpoint is checked against a hash that depends on the order of the fields: new ones go to
// the end, and the JSON omits them where they are zero.
type Recipe struct {
	Model          string  `json:"model"`
	Hidden         int     `json:"hidden"`
	Dims           []int   `json:"dims"` // no option: the widths that Resolve found, from features to classes
	Epochs         int     `json:"epochs"`
	LR             float64 `json:"lr"`
	Dropout        float64 `json:"dropout"` // from 0 to 1 − 2⁻³²
	Metric         string  `json:"metric"`
	LayerOrder     string  `json:"layer_order"`
	Seed           uint64  `json:"seed"`            // of weights, dropout and shuffling
	ShuffleBatches bool    `json:"shuffle_batches"` // else they come as they were sampled

	Heads           int    `json:"heads"` // side by side in the hidden width
	Norm            string `json:"norm"`
	Residual        bool   `json:"residual"`
	InputProjection bool   `json:"input_projection"`
	Activation      string `json:"activation"`
	Aggregator      string `json:"aggregator"`
	GCNNorm         string `json:"gcn_norm"`

	Optimizer      string  `json:"optimizer"`
	WeightDecay    float64 `json:"weight_decay"`
	LabelSmoothing float64 `json:"label_smoothing"`
	Loss           string  `json:"loss"`

	Schedule        string  `json:"schedule"`
	Warmup          int     `json:"warmup"` // the rate rises in equal steps
	MinLR           float64 `json:"min_lr"`
	PlateauFactor   float64 `json:"plateau_factor"`
	PlateauPatience int     `json:"plateau_patience"`
	Patience        int     `json:"patience"`
	ValidateEvery   int     `json:"validate_every"`

	Precision string `json:"precision,omitempty"` // runs of other engines than the gpu's have none

	// Options of batches that are drawn while training. Without a Fanout batches were drawn before,
	// and all of these are zero.
	Fanout     string  `json:"fanout,omitempty"`      // input side first, such as 10,15,all
	EvalFanout string  `json:"eval_fanout,omitempty"` // same, all, or as Fanout
	BatchSize  int     `json:"batch_size,omitempty"`
	TrainRatio float64 `json:"train_ratio,omitempty"`
	SampleSeed uint64  `json:"sample_seed,omitempty"`
	Sampler    string  `json:"sampler,omitempty"`

	BatchDependency int  `json:"batch_dependency,omitempty"`
	LayerDependency bool `json:"layer_dependency,omitempty"`
	// DryEpochs is a number, all, or auto: 1, but all with an input projection, since its last bits
	// depend on ranks. The epochs drawn before training give sizes, means and ranks.
	DryEpochs string `json:"dry_epochs,omitempty"`

	Accumulate int `json:"accumulate,omitempty"` // batches of a step; an epoch's last step has the remaining ones

	// InitFrom is the SHA-256 of the file of weights that training begins with, in hexadecimal; ""
	// where Seed draws them.
	InitFrom string `json:"init_from,omitempty"`

	// Validation decides the best epoch, the end of the run and, on a plateau, the rate.
	Validation Validation `json:"validate,omitempty"`

	Bases int          `json:"bases,omitempty"` // of a typed model's weights
	Types *model.Types `json:"types,omitempty"` // no option: the node types that Resolve found, for a typed model
}

// Larger values are slips, and counts that are computed from them would overflow.
const (
	maxHidden     = 1 << 24
	MaxAccumulate = 1 << 12
	// MaxEpochs is the most epochs of a run. Earlier programs began runs of up to EarlierEpochs,
	// which are still read.
	MaxEpochs     = 1 << 20
	EarlierEpochs = 1 << 30
)

// Validates reports whether an epoch is validated.
func (r *Recipe) Validates(epoch int) bool {
	return (epoch+1)%max(1, r.ValidateEvery) == 0 || epoch == r.Epochs-1
}

// Bound returns why the steps of a run depend on its total number of epochs, "" if they do not: the
// run can then be extended, as if it had been begun with more epochs.
func (r *Recipe) Bound() string {
	if r.Schedule == ScheduleCosine {
		return "--schedule cosine lowers the learning rate over all epochs together"
	}
	return ""
}

// RateVaries reports whether epochs may have different learning rates.
func (r *Recipe) RateVaries() bool { return r.Schedule != ScheduleConstant || r.Warmup > 0 }

// Live reports whether batches are drawn while training.
func (r *Recipe) Live() bool { return r.Fanout != "" }

// Values of DryEpochs that are not numbers.
const (
	DryAuto = "auto"
	DryAll  = "all"
)

// Dry returns the number of epochs drawn before training: infinity for all. The recipe is one that
// Validate accepts.
func (r *Recipe) Dry() float64 {
	switch {
	case r.DryEpochs == DryAll || r.DryEpochs == DryAuto && r.InputProjection:
		return math.Inf(1)
	case r.DryEpochs == DryAuto:
		return 1
	}
	n, err := strconv.ParseFloat(r.DryEpochs, 64)
	if err != nil {
		return math.NaN()
	}
	return n
}
