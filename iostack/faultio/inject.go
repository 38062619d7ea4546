// Package faultio wraps a storage stack in faults, for tests: injectors pair a condition on requests
// with an effect on the requests that meet it. Both print, so that a failing test names its faults.
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

// Call is the part of a request that a condition sees.
type Call struct {
	File   string // as File.Name
	Offset int64
	Length int
}

// When is a condition on requests. Conditions made by Nth count the requests they have seen, so a
// When belongs to one stack.
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

// Nth holds for one request: the n-th, from 0, of those for which w holds.
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

// All holds where each of the conditions does; every one of them sees every
// request.
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

// Effect is the fault of a request. It acts on the way to the wrapped stack (before), limits the
// bytes read, or alters them (after).
type Effect struct {
	text   string
	before func(stop stop) error
	limit  func(length int) int
	after  func(buf []byte)
}

func (e Effect) String() string { return e.text }

// stop is closed when a request that has not begun may be given up: its group's
// context ended, or the stack was closed.
type stop struct{ cancelled, closed <-chan struct{} }

// Fail ends the request with err, without reading.
func Fail(err error) Effect {
	return Effect{text: fmt.Sprintf("fail(%v)", err), before: func(stop) error { return err }}
}

// Short delivers the request's first n bytes, as if the file ended there.
func Short(n int) Effect {
	return Effect{text: fmt.Sprintf("short(%d)", n), limit: func(length int) int { return min(n, length) }}
}

// Flip reads as asked and then flips the bits of mask in the request's n-th
// byte, counted modulo its length.
func Flip(n int, mask byte) Effect {
	return Effect{text: fmt.Sprintf("flip(%d, %#02x)", n, mask), after: func(buf []byte) {
		if len(buf) > 0 {
			buf[n%len(buf)] ^= mask
		}
	}}
}

// Hang keeps the request from beginning until its group's context ends or the
// stack is closed.
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

// Gate holds requests like a slow device: arrived requests can't be called back, so Wait and Close
// wait for the gate even when their context has ended.
type Gate struct {
	arrived, opened chan struct{}
	arrive, open    sync.Once
}

// NewGate returns a closed gate.
func NewGate() *Gate {
	return &Gate{arrived: make(chan struct{}), opened: make(chan struct{})}
}

// Hold is the effect of waiting before the gate until it is open, then reading.
func (g *Gate) Hold() Effect {
	return Effect{text: "gate", before: func(stop) error {
		g.arrive.Do(func() { close(g.arrived) })
		<-g.opened
		return nil
	}}
}

// Arrived is closed once a request waits before the gate.
func (g *Gate) Arrived() <-chan struct{} { return g.arrived }

// Open lets all requests through, those to come as well.
func (g *Gate) Open() { g.open.Do(func() { close(g.opened) }) }

// Injector is an effect under a condition.
type Injector struct {
	when   When
	effect Effect
}

// On returns the injector of an effect into the requests that meet a condition.
func On(w When, e Effect) Injector { return Injector{w, e} }

func (i Injector) String() string { return fmt.Sprintf("%s on %s", i.effect, i.when) }
