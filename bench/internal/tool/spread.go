package tool

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// Spread is what rounds of one measurement came to.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Rounds int     `json:"rounds"`
}

// SpreadOf returns the spread of the values; all NaN without any.
func SpreadOf(v []float64) Spread {
	if len(v) == 0 {
		return Spread{math.NaN(), math.NaN(), math.NaN(), 0}
	}
	return Spread{Median(v), slices.Min(v), slices.Max(v), len(v)}
}

func (s Spread) String() string { return fmt.Sprintf("%.3g (%.3g–%.3g)", s.Median, s.Min, s.Max) }

// Quantity is a number that every round has.
type Quantity[R any] struct {
	name string
	of   func(R) float64
}

// Named returns the quantity of that name.
func Named[R any](name string, of func(R) float64) Quantity[R] { return Quantity[R]{name, of} }

// Summary returns the spreads of the quantities over the rounds, by name.
func Summary[R any](rounds []R, quantities ...Quantity[R]) map[string]any {
	out := map[string]any{"rounds": len(rounds)}
	for _, q := range quantities {
		var v []float64
		for _, r := range rounds {
			v = append(v, q.of(r))
		}
		out[q.name] = SpreadOf(v)
	}
	return out
}

// Rounds measures so many rounds, and prints each, and then the spreads of the quantities.
func Rounds[R any](ctx context.Context, rounds int, measure func(context.Context) (R, error), quantities ...Quantity[R]) error {
	var all []R
	for range rounds {
		r, err := measure(ctx)
		if err != nil {
			return err
		}
		if err := Print(r); err != nil {
			return err
		}
		all = append(all, r)
	}
	return Print(Summary(all, quantities...))
}
