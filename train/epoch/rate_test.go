package epoch

import (
	"math"
	"slices"
	"testing"

	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// scored makes epochs of validation scores.
func scored(scores ...score.Score) []rundir.Epoch {
	epochs := make([]rundir.Epoch, len(scores))
	for i, s := range scores {
		epochs[i] = rundir.Epoch{Epoch: i, ValidAccuracy: s, Loss: score.Score(i)} // the loss only gets worse
	}
	return epochs
}

// lost makes epochs of losses, not validated.
func lost(losses ...score.Score) []rundir.Epoch {
	epochs := make([]rundir.Epoch, len(losses))
	for i, l := range losses {
		epochs[i] = rundir.Epoch{Epoch: i, ValidAccuracy: score.Undefined, Loss: l}
	}
	return epochs
}

func TestRateByHand(t *testing.T) {
	plateau := func(patience int, o recipe.Recipe) recipe.Recipe {
		o.Schedule, o.LR, o.PlateauFactor, o.PlateauPatience = recipe.SchedulePlateau, 1, 0.5, patience
		return o
	}
	rare := func(patience, every int, o recipe.Recipe) recipe.Recipe {
		o.Epochs, o.ValidateEvery = 100, every
		return plateau(patience, o)
	}
	none, unvalidated := score.Undefined, []string{"plateau, by the loss", "plateau, nothing to validate"}
	for what, c := range map[string]struct {
		recipe recipe.Recipe
		before []rundir.Epoch
		want   []float64 // of the first epoch, …, of the one after all these
	}{
		"constant": {recipe.Recipe{LR: 0.25}, scored(0, 0), []float64{0.25, 0.25, 0.25}},
		"constant, warm-up": {recipe.Recipe{LR: 1, Warmup: 4}, scored(0, 0, 0, 0, 0),
			[]float64{0.25, 0.5, 0.75, 1, 1, 1}},
		"cosine": {recipe.Recipe{Schedule: recipe.ScheduleCosine, LR: 1, Epochs: 4}, scored(0, 0, 0),
			[]float64{1, 0.853553, 0.5, 0.146447}},
		"cosine, floor": {recipe.Recipe{Schedule: recipe.ScheduleCosine, LR: 1, MinLR: 0.2, Epochs: 4}, scored(0, 0, 0),
			[]float64{1, 0.882843, 0.6, 0.317157}},
		"cosine, warm-up": {recipe.Recipe{Schedule: recipe.ScheduleCosine, LR: 1, Epochs: 6, Warmup: 2}, scored(0, 0, 0, 0, 0),
			[]float64{0.5, 1, 1, 0.853553, 0.5, 0.146447}},
		"cosine, nothing but warm-up": {recipe.Recipe{Schedule: recipe.ScheduleCosine, LR: 1, Epochs: 2, Warmup: 2}, scored(0), []float64{0.5, 1}},
		// Two epochs no better than 0.6, two more, a better one, two no better than that.
		"plateau": {plateau(1, recipe.Recipe{MinLR: 0.2}), scored(0.5, 0.6, 0.6, 0.55, 0.6, 0.6, 0.7, 0.7, 0.7),
			[]float64{1, 1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.2}},
		"plateau, impatient":      {plateau(0, recipe.Recipe{}), scored(0.5, 0.5, 0.4, 0.6), []float64{1, 1, 0.5, 0.25, 0.25}},
		"plateau, undefined once": {plateau(0, recipe.Recipe{}), scored(0.5, score.Undefined, 0.6), []float64{1, 1, 0.5, 0.5}},
		"plateau, by the loss": {plateau(1, recipe.Recipe{}), lost(3, 2, 2.5, 2, 1.9, score.Undefined, 1.9),
			[]float64{1, 1, 1, 1, 0.5, 0.5, 0.5, 0.25}},
		// Losses rise throughout, and count neither before the first validation nor after it.
		"plateau, validated at times": {rare(0, 3, recipe.Recipe{}), scored(none, none, 0.5, none, none, 0.4, none, none, 0.6),
			[]float64{1, 1, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5}},
		"plateau, validated at times, warm-up": {rare(0, 2, recipe.Recipe{Warmup: 1}), scored(none, 0.5, none, 0.5, none, 0.6),
			[]float64{1, 1, 1, 1, 0.5, 0.5, 0.5}},
		// The first validation has no score: the losses of validated epochs count to the end.
		"plateau, no score at first": {rare(0, 2, recipe.Recipe{}), scored(none, none, none, none, none, 0.9, none, 0.8),
			[]float64{1, 1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.125}},
		"plateau, nothing to validate": {rare(0, 3, recipe.Recipe{}), lost(3, 3, 2, 2), []float64{1, 1, 0.5, 0.5, 0.25}},
		// What was best in the warm-up is forgotten.
		"plateau, warm-up": {plateau(0, recipe.Recipe{Warmup: 2}), scored(0.9, 0.9, 0.5, 0.6, 0.6), []float64{0.5, 1, 1, 1, 1, 0.5}},
	} {
		for n, want := range c.want {
			if got := Rate(&c.recipe, !slices.Contains(unvalidated, what), c.before[:n]); math.Abs(got-want) > 1e-6 {
				t.Errorf("%s: epoch %d at %v, want %v", what, n, got, want)
			}
		}
		if len(c.want) != len(c.before)+1 {
			t.Errorf("%s: %d rates for %d epochs", what, len(c.want), len(c.before))
		}
	}
}
