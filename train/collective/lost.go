package collective

import (
	"fmt"

	"diskgnn/internal/fault"
)

// Lost is the error of a group that one of its ranks has left before the run was done. It is of
// kind fault.ErrInterrupted: the run goes on from its latest checkpoint.
type Lost struct {
	Rank, World int
	Address     string // as rank 0 sees it, "" for rank 0
	Why         string
}

func (l *Lost) Error() string {
	at := ""
	if l.Address != "" {
		at = " (" + l.Address + ")"
	}
	return fmt.Sprintf("rank %d of %d%s is lost: %s", l.Rank, l.World, at, l.Why)
}

// Unwrap returns the kind.
func (l *Lost) Unwrap() error { return fault.ErrInterrupted }
