package recipe

import (
	"fmt"
	"reflect"
	"slices"
)

// A Difference is an option of two recipes, with their different values.
type Difference struct {
	Flag        string
	Value, Than any // Than is the other recipe's
}

func (d Difference) String() string {
	return fmt.Sprintf("--%s %v was given, but the run has %v", d.Flag, d.Value, d.Than)
}

// Difference returns the options with another value in other, in the order of the fields.
func (r *Recipe) Difference(other *Recipe) []Difference {
	var list []Difference
	ours, theirs := reflect.ValueOf(r).Elem(), reflect.ValueOf(other).Elem()
	eachOption(func(flag string, i int) {
		if v, than := ours.Field(i).Interface(), theirs.Field(i).Interface(); v != than {
			list = append(list, Difference{flag, v, than})
		}
	})
	return list
}

// Recall sets every option that no given flag names to its value in an earlier recipe, and returns
// the given ones that differ from it. A given auto takes the resolved value of the earlier recipe.
func (r *Recipe) Recall(was *Recipe, given []string) []Difference {
	before := *was
	before.EnsureDefaults() // for options that earlier versions of this program lacked
	if r.Metric == MetricAuto {
		r.Metric = before.Metric
	}
	if r.Loss == LossAuto {
		r.Loss = before.Loss
	}
	ours, theirs := reflect.ValueOf(r).Elem(), reflect.ValueOf(&before).Elem()
	eachOption(func(flag string, i int) {
		if !slices.Contains(given, flag) {
			ours.Field(i).Set(theirs.Field(i))
		}
	})
	return r.Difference(&before)
}
