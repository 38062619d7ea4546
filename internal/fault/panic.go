package fault

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// PanicError is a panic, which is a bug, as an error. Its text does not have the stack.
type PanicError struct {
	Value any
	Stack []byte // of the goroutine that panicked
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the panic's value if it is an error, else nil.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Recovered turns the result of recover into an error. Call it in the function that called recover, so
// that the error has the stack of the panic. If the value is a PanicError, it keeps its own stack.
func Recovered(v any) *PanicError {
	if p, ok := v.(*PanicError); ok {
		return p
	}
	return &PanicError{v, debug.Stack()}
}

// onCrash is the handler that Crash calls.
var onCrash atomic.Pointer[func(*PanicError)]

// OnCrash sets the handler of panics in goroutines that cannot return an error; f must end the process.
// undo restores the previous handler.
func OnCrash(f func(*PanicError)) (undo func()) {
	before := onCrash.Swap(&f)
	return func() { onCrash.Store(before) }
}

// Crash passes a panic to the handler of OnCrash. Defer it first in every goroutine without another
// recover: otherwise Go ends the process with exit code 2 and prints only a stack. Without a handler, it
// lets the panic continue.
func Crash() {
	v := recover()
	if v == nil {
		return
	}
	if f := onCrash.Load(); f != nil {
		(*f)(Recovered(v))
	}
	panic(v)
}
