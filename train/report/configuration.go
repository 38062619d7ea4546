package report

import (
	"fmt"

	"diskgnn/internal/units"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
)

// configuration lists what the weights follow from, but for what says nothing of this
// run: options of other models, and what it does without.
func (r *Run) configuration() Table {
	p := &r.Params.Recipe
	var rows []Row
	add := func(say bool, name, value string) {
		if say {
			rows = append(rows, Row{name, value})
		}
	}
	add(true, "model", p.Model)
	add(true, "widths", numbers(p.Dims, " → "))
	kind := model.Kind(p.Model)
	add(kind.Has(model.HeadsOption) && p.Heads > 0, "heads", fmt.Sprint(p.Heads))
	add(kind.Has(model.AggregatorOption) && p.Aggregator != "", "aggregator", p.Aggregator)
	add(kind.Has(model.GCNNormOption) && p.GCNNorm != "", "edges weighed by", "degrees in the "+p.GCNNorm)
	add(p.Norm != "" && p.Norm != "none", "norm", p.Norm)
	add(p.Activation != "" && p.Activation != "auto", "activation", p.Activation)
	add(p.Residual, "residual", "yes")
	add(p.InputProjection, "input projection", "yes")
	add(true, "dropout", plain(p.Dropout))
	add(true, "epochs", fmt.Sprint(p.Epochs))
	add(p.ValidateEvery > 1, "validation", fmt.Sprintf("every %d epochs", p.ValidateEvery))
	add(p.Patience > 0, "early stopping", fmt.Sprintf("after %s without a better validation score", units.Of(p.Patience, "epoch")))
	add(p.Optimizer != "", "optimizer", p.Optimizer)
	add(true, "learning rate", plain(p.LR))
	add(p.Warmup > 0, "warm-up", units.Of(p.Warmup, "epoch"))
	add(schedule(p) != "", "schedule", schedule(p))
	add(p.WeightDecay != 0, "weight decay", plain(p.WeightDecay))
	add(p.LabelSmoothing != 0, "label smoothing", plain(p.LabelSmoothing))
	add(p.Loss != "", "loss", p.Loss)
	add(p.Accumulate > 1, "batches of a step", fmt.Sprint(p.Accumulate))
	add(true, "metric", p.Metric)
	add(true, "layer order", p.LayerOrder)
	add(true, "seed", fmt.Sprint(p.Seed))
	add(p.Live(), "batches", sampling(p))
	add(!p.ShuffleBatches, "order of batches", "as sampled")
	add(p.ShuffleBatches, "order of batches", "shuffled")
	return Table{"Configuration", rows}
}

// sampling says how batches were drawn that were drawn while training.
func sampling(p *recipe.Recipe) string {
	return fmt.Sprintf("drawn while training, by %s: %s, fanout %s, for evaluation %s, seed %d", p.Sampler, units.Of(p.BatchSize, "seed node"), p.Fanout, p.EvalFanout, p.SampleSeed)
}

// schedule says how the learning rate goes on after the warm-up; "" where it stays.
func schedule(p *recipe.Recipe) string {
	switch p.Schedule {
	case "", "constant":
		return ""
	case "cosine":
		return "cosine, down to " + plain(p.MinLR)
	case "plateau":
		return fmt.Sprintf("times %s when more than %s are no better, down to %s", plain(p.PlateauFactor), units.Of(p.PlateauPatience, "epoch"), plain(p.MinLR))
	}
	return p.Schedule
}
