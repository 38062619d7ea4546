package fault

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestEndedBy(t *testing.T) {
	signal, other := errors.New("signal"), errors.New("other")
	ended, end := context.WithCancelCause(context.Background())
	end(signal)
	late, stop := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer stop()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want bool
	}{
		{ended, fmt.Errorf("read: %w", context.Canceled), true},
		{ended, fmt.Errorf("read: %w", signal), true},
		{ended, other, false},
		{ended, context.DeadlineExceeded, false},
		{ended, nil, false},
		{late, context.DeadlineExceeded, true},
		{context.Background(), context.Canceled, false}, // somebody else's context
		{context.Background(), nil, false},
	} {
		if got := EndedBy(c.ctx, c.err); got != c.want {
			t.Errorf("%v: %t", c.err, got)
		}
	}
}
