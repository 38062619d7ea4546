package model

import "diskgnn/internal/fault"

// Loss names what training makes small. A seed node without a label has neither loss
// nor gradient.
type Loss string

const (
	// CrossEntropy is the mean over the labelled seed nodes of the softmax
	// cross-entropy, in nats: of one class per node, smoothed where the recipe says so.
	CrossEntropy Loss = "cross-entropy"
	// Binary is the mean over the labelled seed nodes and all classes of the binary
	// cross-entropy of the logits' sigmoids: any number of classes per node, which the
	// batch's Targets name, or, where it has none, the class of its label.
	Binary Loss = "binary"
)

// Validate checks the loss, and with it the share of a label that is spread over all
// classes.
func (l Loss) Validate(smoothing float64) error {
	switch {
	case l != CrossEntropy && l != Binary:
		return fault.New(fault.ErrUsage, "model: unknown loss %q (known: %s, %s)", l, CrossEntropy, Binary)
	case !(smoothing >= 0 && smoothing < 1):
		return fault.New(fault.ErrUsage, "model: label smoothing %v is not in [0, 1)", smoothing)
	case smoothing > 0 && l != CrossEntropy:
		return fault.New(fault.ErrUsage, "model: label smoothing is for %s, not %s", CrossEntropy, l)
	}
	return nil
}
