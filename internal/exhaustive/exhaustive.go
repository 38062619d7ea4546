// Package exhaustive chooses at which operations of a program a test injects its fault: at
// every one where the environment has DISKGNN_EXHAUSTIVE, else at a sample of them that is
// the same in each run.
package exhaustive

import (
	"hash/fnv"
	"os"
)

// Variable is the environment variable that makes every test exhaustive unless it is empty.
const Variable = "DISKGNN_EXHAUSTIVE"

// TB is what is needed of a *testing.T.
type TB interface{ Name() string }

// Each calls try with the numbers of operations, from 0. It must fail the operation of that
// number, and report whether the program came to it: so it returns true for all numbers below
// a count, which Each finds and returns.
//
// The first and the last operation are tried, and between them one of every step ≥ 1, from one
// on that the test's name decides; tests of the same program under other names try others. The
// last is found by halving the last step. If the environment has Variable, step is 1.
func Each(t TB, step int, try func(n int) bool) (count int) {
	return each(t.Name(), step, os.Getenv(Variable) != "", try)
}

func each(name string, step int, all bool, try func(n int) bool) (count int) {
	if all {
		step = 1
	}
	if !try(0) {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	last, next := 0, 1+int(h.Sum32()%uint32(step))
	for try(next) {
		last, next = next, next+step
	}
	for next-last > 1 {
		if n := (last + next) / 2; try(n) {
			last = n
		} else {
			next = n
		}
	}
	return next
}
