package ranks

import (
	"context"
	"errors"

	"diskgnn/internal/fault"
	"diskgnn/train/collective"
)

// ErrAgreed is the kind of an end that all ranks have agreed on: none of them is lost by it.
var ErrAgreed = errors.New("all ranks end")

// ErrStopped ends a rank after a step, since one of them is to end.
var ErrStopped = fault.New(fault.ErrInterrupted, "the ranks stopped after a step")

// Agreed makes an error one of kind ErrAgreed, too. Its text stays.
func Agreed(err error) error { return agreed{err} }

type agreed struct{ error }

func (a agreed) Unwrap() []error { return []error{a.error, ErrAgreed} }

// AsLost returns why the group ended if that is why a run ends with err.
func AsLost(g *collective.Group, err error) (error, bool) {
	if err == nil {
		return nil, false
	}
	lost := g.Lost()
	_, is := errors.AsType[*collective.Lost](err)
	return lost, lost != nil && (is || errors.Is(err, context.Canceled) || errors.Is(err, lost))
}
