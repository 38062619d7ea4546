package ranks

import (
	"context"
	"errors"

	"diskgnn/internal/fault"
	"diskgnn/train/collective"
)

// ErrAgreed is the kind of an error that all ranks return together: no rank is lost by it.
var ErrAgreed = errors.New("all ranks end")

// ErrStopped ends a rank after a step, because one rank is to end.
var ErrStopped = fault.New(fault.ErrInterrupted, "the ranks stopped after a step")

// Agreed makes err an error of kind ErrAgreed as well. Its text stays.
func Agreed(err error) error { return agreed{err} }

type agreed struct{ error }

func (a agreed) Unwrap() []error { return []error{a.error, ErrAgreed} }

// AsLost returns the group's loss of a rank, if the run ends with err because of it.
func AsLost(g *collective.Group, err error) (error, bool) {
	if err == nil {
		return nil, false
	}
	lost := g.Lost()
	_, is := errors.AsType[*collective.Lost](err)
	return lost, lost != nil && (is || errors.Is(err, context.Canceled) || errors.Is(err, lost))
}
