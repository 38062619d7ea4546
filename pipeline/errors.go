package pipeline

import "fmt"

// Error says which link failed on which item.
type Error struct {
	Link string
	Item int
	Err  error

	label func(item int) string
}

func (e *Error) Error() string {
	if e.label == nil {
		return fmt.Sprintf("item %d: %s: %v", e.Item, e.Link, e.Err)
	}
	return fmt.Sprintf("%s: %s: %v", e.label(e.Item), e.Link, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }
