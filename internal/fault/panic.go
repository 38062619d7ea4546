package fault

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// PanicError is a panic, a bug, as an error. Its text is one line if the value's is; the
// stack is for those who look into it.
type PanicError struct {
	Value any
	Stack []byte // of the goroutine that panicked
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Recovered turns the value that recover returned into an error. Call it in the function that called
// recover, for the stack; a panic that hands on a PanicError keeps its own.
func Recovered(v any) *PanicError {
	if p, ok := v.(*PanicError); ok {
		return p
	}
	return &PanicError{v, debug.Stack()}
}

// onCrash is the function that Crash calls.
var onCrash atomic.Pointer[func(*PanicError)]

// OnCrash sets the handler of a panic in a goroutine that returns no error: f must end the process.
// undo restores the handler set before.
func OnCrash(f func(*PanicError)) (undo func()) {
	before := onCrash.Swap(&f)
	return func() { onCrash.Store(before) }
}

// Crash is deferred first in every goroutine without another recover: Go would end the process with
// exit code 2 and nothing but a stack. Without OnCrash it does.
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
