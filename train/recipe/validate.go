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
	maxEpochs = 1 << 19 // of which run.json, with two thousand bytes for each, is still read
)

// Validate names the flag that makes no sense. It expects EnsureDefaults to have been
// called.
func (r *Recipe) Validate() error {
	usage := func(format string, args ...any) error { return fault.New(fault.ErrUsage, format, args...) }
	_, knownOrder := model.ParseOrder(r.LayerOrder)
	switch {
	case r.Hidden < 1 || r.Hidden > maxHidden:
		return usage("--hidden %d: give a width from 1 to %d", r.Hidden, maxHidden)
	case r.Heads < 1 || r.Heads > model.MaxHeads:
		return usage("--heads %d: give a number from 1 to %d", r.Heads, model.MaxHeads)
	case r.Epochs < 1 || r.Epochs > maxEpochs:
		return usage("--epochs %d: give a number from 1 to %d", r.Epochs, maxEpochs)
	case !(r.LR > 0 && r.LR < 1e6):
		return usage("--lr %v: give a learning rate above 0 and below a million", r.LR)
	case kernel.CheckDropout(r.Dropout) != nil:
		return usage("--dropout %v: %w", r.Dropout, kernel.CheckDropout(r.Dropout))
	case !knownOrder:
		return usage("--layer-order %s: no such order (auto, aggregate, multiply)", r.LayerOrder)
	case !(r.WeightDecay >= 0 && r.WeightDecay < 1e6):
		return usage("--weight-decay %v: give a number from 0 up, below a million", r.WeightDecay)
	case r.Accumulate < 0 || r.Accumulate > MaxAccumulate:
		return usage("--accumulate %d: give a number of batches from 1 to %d", r.Accumulate, MaxAccumulate)
	case !(r.LabelSmoothing >= 0 && r.LabelSmoothing < 1):
		return usage("--label-smoothing %v: give a share from 0 up to, not including, 1", r.LabelSmoothing)
	}
	for _, c := range []struct {
		flag, value string
		known       []string
	}{
		{"--model", r.Model, namesOf(model.SAGE, model.GCN, model.GAT)},
		{"--norm", r.Norm, namesOf(model.Norms...)},
		{"--activation", r.Activation, append([]string{ActivationAuto}, namesOf(model.Activations...)...)},
		{"--aggregator", r.Aggregator, namesOf(model.Aggregators...)},
		{"--gcn-norm", r.GCNNorm, namesOf(model.GCNNorms...)},
		{"--optimizer", r.Optimizer, []string{OptimizerAdam, OptimizerAdamW}},
		{"--schedule", r.Schedule, []string{ScheduleConstant, ScheduleCosine, SchedulePlateau}},
		{"--loss", r.Loss, []string{LossAuto, LossCrossEntropy, LossBinary}},
		{"--metric", r.Metric, []string{MetricAuto, MetricAccuracy, MetricAUC, MetricF1}},
		{"--precision", r.Precision, []string{PrecisionFloat32, PrecisionTF32, PrecisionBF16}},
	} {
		if !slices.Contains(c.known, c.value) {
			return usage("%s %s: there are %s", c.flag, c.value, strings.Join(c.known, ", "))
		}
	}
	switch {
	case r.Model != string(model.SAGE) && r.Aggregator != string(model.Mean):
		return usage("--aggregator %s is for --model sage, not %s", r.Aggregator, r.Model)
	case r.Model != string(model.GCN) && r.GCNNorm != string(model.GraphNorm):
		return usage("--gcn-norm %s is for --model gcn, not %s", r.GCNNorm, r.Model)
	case r.Model == string(model.GAT) && r.Hidden%r.Heads != 0:
		return usage("--heads %d: a hidden width of %d cannot be divided among them", r.Heads, r.Hidden)
	case r.Aggregator == string(model.Max) && r.LayerOrder == string(model.Multiply):
		return usage("--layer-order multiply: --aggregator max must come first")
	}
	if err := r.validateSampling(); err != nil {
		return err
	}
	return r.validateRate()
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
