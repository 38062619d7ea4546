package train

import (
	"diskgnn/featurestore"
	"diskgnn/internal/fault"
	"diskgnn/train/model"
)

// Losses, as --loss names them.
const (
	LossAuto         = "auto" // what suits the labels
	LossCrossEntropy = string(model.CrossEntropy)
	LossBinary       = string(model.Binary)
)

// resolveLabels replaces what auto leaves open of the loss and the metric, and refuses
// what the pack's labels are not for.
func (o *Options) resolveLabels(f featurestore.Facts) error {
	usage := func(format string, args ...any) error { return fault.New(fault.ErrUsage, format, args...) }
	multi := f.MultiLabel()
	if o.Loss == LossAuto {
		if o.Loss = LossCrossEntropy; multi {
			o.Loss = LossBinary
		}
	}
	if o.Metric == MetricAuto {
		o.Metric = MetricAccuracy
		switch {
		case f.Metric == MetricAUC && (f.Classes == 2 || multi):
			o.Metric = MetricAUC
		case multi:
			o.Metric = MetricF1
		}
	}
	switch {
	case o.Loss == LossCrossEntropy && multi:
		return usage("--loss cross-entropy is of one class per node, those of %s have any number: binary is for these", o.source())
	case o.Loss == LossBinary && o.LabelSmoothing > 0:
		return usage("--label-smoothing %v is for --loss cross-entropy, not binary", o.LabelSmoothing)
	case o.Metric == MetricAUC && f.Classes != 2 && !multi:
		return usage("--metric auc is of two classes, %s has %d", o.source(), f.Classes)
	}
	return nil
}
