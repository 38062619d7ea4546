package copier

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
)

// By hand: rows of two floats, gathered and in order.
func TestRows(t *testing.T) {
	c := New(3)
	c.Start()
	defer c.Close()
	src := binio.Bytes([]float32{0, 1, 10, 11, 20, 21})
	x := make([]float32, 8)
	c.Gather(x, src, []uint32{2, 0, 2, 1}, dtype.Float32, 2)
	if want := []float32{20, 21, 0, 1, 20, 21, 10, 11}; !slices.Equal(x, want) {
		t.Errorf("gathered %v, want %v", x, want)
	}
	halves := binio.Bytes([]uint16{0x3c00, 0xc000, 0x3800}) // 1, -2, 0.5
	c.Widen(x[:3], halves, dtype.Float16, 1)
	if want := []float32{1, -2, 0.5}; !slices.Equal(x[:3], want) {
		t.Errorf("widened %v, want %v", x[:3], want)
	}
	c.Gather(nil, src, nil, dtype.Float32, 2)
	c.Widen(nil, nil, dtype.Float32, 2)
}

// tally counts how often each part was done, and fails at one of them.
type tally struct {
	mu    sync.Mutex
	done  []int
	fails int
}

var errPart = errors.New("a part fails")

func (w *tally) Do(lo, hi int, scratch *[]byte) error {
	*scratch = append((*scratch)[:0], byte(lo))
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := lo; i < hi; i++ {
		w.done[i]++
	}
	if lo <= w.fails && w.fails < hi {
		return errPart
	}
	return nil
}

// Calls side by side do each part of their work once, and return their own errors.
func TestRun(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := New(rapid.IntRange(1, 5).Draw(rt, "workers"))
		c.Start()
		defer c.Close()
		var calls sync.WaitGroup
		for range rapid.IntRange(1, 4).Draw(rt, "calls") {
			n := rapid.IntRange(0, 9).Draw(rt, "parts")
			w := &tally{done: make([]int, n), fails: rapid.IntRange(-1, n-1).Draw(rt, "fails")}
			calls.Go(func() {
				for k := range 2 {
					if err := c.Run(w, n); errors.Is(err, errPart) != (w.fails >= 0) {
						t.Errorf("part %d of %d fails: %v", w.fails, n, err)
					}
					for i, times := range w.done {
						if times != k+1 {
							t.Errorf("part %d of %d was done %d times in %d calls", i, n, times, k+1)
						}
					}
				}
			})
		}
		calls.Wait()
	})
}

// A copier that was not started is closed.
func TestCloseBeforeStart(t *testing.T) { New(2).Close() }
