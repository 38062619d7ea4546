package recipe

import (
	"slices"
	"strings"

	"diskgnn/internal/fault"
	"diskgnn/internal/kernel"
	"diskgnn/train/model"
)

// What is beyond these is a slip, and would overflow what is counted from it.
const (
	maxHidden = 1 << 24
	// MaxEpochs is of which run.json is still read. Earlier programs began runs of up to EarlierEpochs.
	MaxEpochs     = 1 << 20
	EarlierEpochs = 1 << 30
)

// Validate names the flag that makes no sense. It expects EnsureDefaults to have been
// called.
func (r *Recipe) Validate() error {
	usage := func(format string, args ...any) error { return fault.New(fault.ErrUsage, format, args...) }
	switch {
	case r.Hidden < 1 || r.Hidden > maxHidden:
		return usage("--hidden %d: give a width from 1 to %d", r.Hidden, maxHidden)
	case r.Heads < 1 || r.Heads > model.MaxHeads:
		return usage("--heads %d: give a number from 1 to %d", r.Heads, model.MaxHeads)
	case r.Epochs < 1 || r.Epochs > MaxEpochs:
		return usage("--epochs %d: give a number from 1 to %d", r.Epochs, MaxEpochs)
	case !(r.LR > 0 && r.LR < 1e6):
		return usage("--lr %v: give a learning rate above 0 and below a million", r.LR)
	case kernel.CheckDropout(r.Dropout) != nil:
		return usage("--dropout %v: %w", r.Dropout, kernel.CheckDropout(r.Dropout))
	case !(r.WeightDecay >= 0 && r.WeightDecay < 1e6):
		return usage("--weight-decay %v: give a number from 0 up, below a million", r.WeightDecay)
	case r.Accumulate < 0 || r.Accumulate > MaxAccumulate:
		return usage("--accumulate %d: give a number of batches from 1 to %d", r.Accumulate, MaxAccumulate)
	case !(r.LabelSmoothing >= 0 && r.LabelSmoothing < 1):
		return usage("--label-smoothing %v: give a share from 0 up to, not including, 1", r.LabelSmoothing)
	}
	for _, c := range r.named() {
		if known := Names(c.flag); !slices.Contains(known, c.value) {
			return usage("--%s %s: there are %s", c.flag, c.value, strings.Join(known, ", "))
		}
	}
	m := model.Model{Kind: model.Kind(r.Model), Aggregator: model.Aggregator(r.Aggregator), GCNNorm: model.GCNNorm(r.GCNNorm)} // heads have a default
	if o, value := m.Foreign(); o != "" {
		return usage("--%s %v is for --model %s, not %s", o, value, o.Kinds(), m.Kind)
	}
	switch {
	case r.Hidden%r.Heads != 0 && m.Kind.Has(model.HeadsOption):
		return usage("--heads %d: a hidden width of %d cannot be divided among them", r.Heads, r.Hidden)
	case r.Aggregator == string(model.Max) && r.LayerOrder == string(model.Multiply):
		return usage("--layer-order multiply: --aggregator max must come first")
	}
	if err := r.validateSampling(); err != nil {
		return err
	}
	return r.validateRate()
}

// Names returns what an option may be that is one of several names; nil for another option.
func Names(flag string) []string {
	switch flag {
	case "model":
		return namesOf(model.Kinds()...)
	case "layer-order":
		return namesOf(model.Auto, model.Aggregate, model.Multiply)
	case "norm":
		return namesOf(model.Norms...)
	case "activation":
		return append([]string{ActivationAuto}, namesOf(model.Activations...)...)
	case "aggregator":
		return namesOf(model.Aggregators...)
	case "gcn-norm":
		return namesOf(model.GCNNorms...)
	case "optimizer":
		return []string{OptimizerAdam, OptimizerAdamW}
	case "schedule":
		return []string{ScheduleConstant, ScheduleCosine, SchedulePlateau}
	case "loss":
		return []string{LossAuto, LossCrossEntropy, LossBinary}
	case "metric":
		return []string{MetricAuto, MetricAccuracy, MetricAUC, MetricF1}
	case "precision":
		return []string{PrecisionFloat32, PrecisionTF32, PrecisionBF16}
	}
	return nil
}

// option is an option of the recipe by its flag, and its value.
type option struct{ flag, value string }

// named returns the options that have Names.
func (r *Recipe) named() []option {
	return []option{
		{"layer-order", r.LayerOrder}, {"model", r.Model}, {"norm", r.Norm}, {"activation", r.Activation}, {"aggregator", r.Aggregator},
		{"gcn-norm", r.GCNNorm}, {"optimizer", r.Optimizer}, {"schedule", r.Schedule}, {"loss", r.Loss}, {"metric", r.Metric}, {"precision", r.Precision},
	}
}

// validateRate names the flag about the learning rate's schedule, or early stopping,
// that makes no sense.
func (r *Recipe) validateRate() error {
	usage := func(format string, args ...any) error { return fault.New(fault.ErrUsage, format, args...) }
	switch {
	case r.Warmup < 0 || r.Warmup > r.Epochs:
		return usage("--warmup %d: give a number from 0 to that of --epochs, %d", r.Warmup, r.Epochs)
	case !(r.MinLR >= 0 && r.MinLR <= r.LR):
		return usage("--min-lr %v: give a rate from 0 to that of --lr, %v", r.MinLR, r.LR)
	case r.MinLR > 0 && r.Schedule == ScheduleConstant:
		return usage("--min-lr is for --schedule cosine and plateau, not %s", r.Schedule)
	case !(r.PlateauFactor > 0 && r.PlateauFactor < 1):
		return usage("--plateau-factor %v: give a factor above 0 and below 1", r.PlateauFactor)
	case r.PlateauPatience < 0:
		return usage("--plateau-patience %d: give a number from 0 up", r.PlateauPatience)
	case r.Patience < 0:
		return usage("--patience %d: give a number from 0 up", r.Patience)
	case r.ValidateEvery < 1:
		return usage("--validate-every %d: give a number of epochs from 1 up", r.ValidateEvery)
	}
	return nil
}

func namesOf[T ~string](list ...T) []string {
	s := make([]string, len(list))
	for i, v := range list {
		s[i] = string(v)
	}
	return s
}
