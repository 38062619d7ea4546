package train

import (
	"diskgnn/featurestore"
	"diskgnn/train/score"
)

// Evaluation is how a run's weights score, and what it took to find out.
type Evaluation struct {
	score.Outcome
	// Exact tells that every node was computed from all of its neighbours, and not
	// from the sampled ones of a pack.
	Exact  bool   `json:"exact"`
	Metric string `json:"metric"`
	// Packs hold no batches to score the training nodes by: theirs is undefined then.
	TrainAccuracy score.Score `json:"train_accuracy"`
	ValidAccuracy score.Score `json:"valid_accuracy"`
	TestAccuracy  score.Score `json:"test_accuracy"`
}

// trainJudging and evalJudging say what the scorers of a store's batches are for.
func trainJudging(metric string, f *featurestore.Facts) score.Options {
	return score.Options{Metric: metric, MultiLabel: f.MultiLabel(), Classes: f.Classes, Rows: f.EpochSeeds}
}

func evalJudging(metric string, f *featurestore.Facts) score.Options {
	return score.Options{Metric: metric, MultiLabel: f.MultiLabel(), Classes: f.Classes, Rows: f.EvalSeeds}
}
