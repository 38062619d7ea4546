package pipeline

import "fmt"

// Error says which stage failed on which item.
type Error struct {
	Stage string
	Item  int
	Err   error

	label func(item int) string
}

func (e *Error) Error() string {
	if e.label == nil {
		return fmt.Sprintf("item %d: %s: %v", e.Item, e.Stage, e.Err)
	}
	return fmt.Sprintf("%s: %s: %v", e.label(e.Item), e.Stage, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// PanicError is a panic in a stage's function: a bug, reported with the stack that
// shows where.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n\n%s", e.Value, e.Stack) }

// Unwrap returns the panic's value if that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
