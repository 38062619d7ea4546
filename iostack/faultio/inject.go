// Package faultio wraps a storage stack in faults, for tests: an Injector applies an effect to the requests
// that fulfil a condition. Both have a String form, so that a failing test names its faults.
//
//	s := faultio.Wrap(inner,
//		faultio.On(faultio.Nth(3, faultio.File("cold-*")), faultio.Fail(syscall.EIO)),
//		faultio.On(faultio.Always(), faultio.Flip(17, 0x80)))
//
// Requests are numbered in the order in which they reach Submit. To walk every
// error path of some work, fail request 0, 1, 2, … in turn until a run hits no
// fault:
//
//	for i := 0; ; i++ {
//		s := faultio.Wrap(inner, faultio.On(faultio.Nth(i, faultio.Always()), faultio.Fail(errBoom)))
//		err := work(s)
//		if s.Injected() == 0 {
//			break // err must be nil
//		}
//		// err must wrap errBoom
//	}
package faultio

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
)

// Call is the part of a request that a condition examines.
type Call struct {
	File   string // as File.Name
	Offset int64
	Length int
}

// When is a condition on requests. Conditions of Nth count requests, so a When is for one stack.
type When struct {
	text  string
	match func(Call) bool // called for each request in order, by one goroutine at a time
}

func (w When) String() string { return w.text }

// Always holds for every request.
func Always() When { return When{"always", func(Call) bool { return true }} }

// File holds for requests of files with a base name that matches the pattern (filepath.Match). A
// malformed pattern panics.
func File(pattern string) When {
	if _, err := filepath.Match(pattern, ""); err != nil {
		panic(fmt.Sprintf("faultio: pattern %q: %v", pattern, err))
	}
	return When{fmt.Sprintf("file %q", pattern), func(c Call) bool {
		ok, _ := filepath.Match(pattern, filepath.Base(c.File))
		return ok
	}}
}

// Covers holds for requests that ask for the byte at the given file offset.
func Covers(offset int64) When {
	return When{fmt.Sprintf("covers %d", offset), func(c Call) bool {
		return c.Offset <= offset && offset-c.Offset < int64(c.Length)
	}}
}

// Nth holds for one request: the n-th, from 0, of the requests for which w holds.
func Nth(n int, w When) When {
	seen := 0
	return When{fmt.Sprintf("nth(%d, %s)", n, w), func(c Call) bool {
		if !w.match(c) {
			return false
		}
		seen++
		return seen == n+1
	}}
}

// All holds if each of the conditions holds. Every condition is evaluated for every request, so that Nth
// counts all of them.
func All(ws ...When) When {
	texts := make([]string, len(ws))
	for i, w := range ws {
		texts[i] = w.text
	}
	return When{"all(" + strings.Join(texts, ", ") + ")", func(c Call) bool {
		ok := true
		for _, w := range ws {
			ok = w.match(c) && ok
		}
		return ok
	}}
}

// Effect is the fault of a request. It acts before the request reaches the wrapped stack, limits the bytes
// read, or alters them afterwards.
type Effect struct {
	text   string
	before func(stop stop) error
	limit  func(length int) int
	after  func(buf []byte)
}

func (e Effect) String() string { return e.text }

// stop has the channels that end a request that has not begun: its group's context ended, or the stack was
// closed.
type stop struct{ cancelled, closed <-chan struct{} }

// Fail ends the request with err, without reading.
func Fail(err error) Effect {
	return Effect{text: fmt.Sprintf("fail(%v)", err), before: func(stop) error { return err }}
}

// Short reads only the request's first n bytes, as if the file ended there.
func Short(n int) Effect {
	return Effect{text: fmt.Sprintf("short(%d)", n), limit: func(length int) int { return min(n, length) }}
}

// Flip lets the read succeed, and then flips the bits of mask in the request's byte n modulo its length. Of a
// negative n, byte -1 is the last one.
func Flip(n int, mask byte) Effect {
	return Effect{text: fmt.Sprintf("flip(%d, %#02x)", n, mask), after: func(buf []byte) {
		if len(buf) > 0 {
			buf[(n%len(buf)+len(buf))%len(buf)] ^= mask
		}
	}}
}

// Hang delays the request until its group's context ends or the stack is closed, which end it with an
// error.
func Hang() Effect {
	return Effect{text: "hang", before: func(s stop) error {
		select {
		case <-s.cancelled:
			return errCancelled
		case <-s.closed:
			return errClosed
		}
	}}
}

// Gate holds requests like a slow device. Requests at the gate cannot be cancelled, so Wait and Close wait
// for the gate even when their context has ended.
type Gate struct {
	arrived, opened chan struct{}
	arrive, open    sync.Once
}

// NewGate returns a closed gate.
func NewGate() *Gate {
	return &Gate{arrived: make(chan struct{}), opened: make(chan struct{})}
}

// Hold is the effect of waiting until the gate is open, and then reading.
func (g *Gate) Hold() Effect {
	return Effect{text: "gate", before: func(stop) error {
		g.arrive.Do(func() { close(g.arrived) })
		<-g.opened
		return nil
	}}
}

// Arrived returns a channel that is closed once a request waits at the gate.
func (g *Gate) Arrived() <-chan struct{} { return g.arrived }

// Open opens the gate for all present and later requests.
func (g *Gate) Open() { g.open.Do(func() { close(g.opened) }) }

// Injector is an effect with the condition on the requests that suffer it.
type Injector struct {
	when   When
	effect Effect
}

// On returns an injector of effect e into the requests for which w holds.
func On(w When, e Effect) Injector { return Injector{w, e} }

func (i Injector) String() string { return fmt.Sprintf("%s on %s", i.effect, i.when) }
