package copier

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/kernel"
)

// By hand: rows of two floats, gathered and in order.
func TestRows(t *testing.T) {
	c := New(3)
	c.Start()
	defer c.Close()
	src := binio.Bytes([]float32{0, 1, 10, 11, 20, 21})
	x := make([]float32, 8)
	c.Gather(x, src, []uint32{2, 0, 2, 1}, 0, dtype.Float32, 2)
	if want := []float32{20, 21, 0, 1, 20, 21, 10, 11}; !slices.Equal(x, want) {
		t.Errorf("gathered %v, want %v", x, want)
	}
	halves := binio.Bytes([]uint16{0x3c00, 0xc000, 0x3800}) // 1, -2, 0.5
	c.Widen(x[:3], halves, dtype.Float16, 1)
	if want := []float32{1, -2, 0.5}; !slices.Equal(x[:3], want) {
		t.Errorf("widened %v, want %v", x[:3], want)
	}
	c.Gather(x[:4], src, []uint32{9, 8}, 7, dtype.Float32, 2)
	if want := []float32{20, 21, 10, 11}; !slices.Equal(x[:4], want) {
		t.Errorf("gathered %v of the rows from the seventh on, want %v", x[:4], want)
	}
	c.Gather(nil, src, nil, 0, dtype.Float32, 2)
	c.Widen(nil, nil, dtype.Float32, 2)
}

// Rows that together are too many for the caches are the same rows.
func TestMany(t *testing.T) {
	const rows, held = 10_000, 300
	c, r := New(3), rand.New(rand.NewPCG(1, 2))
	c.Start()
	defer c.Close()
	ids := make([]uint32, rows)
	for i := range ids {
		ids[i] = r.Uint32N(held)
	}
	for _, dim := range []int{kernel.Past/rows + 1, 112} {
		for _, from := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int8, dtype.Int4} {
			values := make([]float32, held*dim)
			for i := range values {
				values[i] = r.Float32()
			}
			table := make([]byte, held*from.RowBytes(dim))
			kernel.Narrow(table, from, values, dim)
			got, want := make([]float32, rows*dim), make([]float32, rows*dim)
			c.Gather(got, table, ids, 0, from, dim)
			_ = c.Run(plainGather{want, table, ids, from, dim}, rows)
			if !slices.Equal(got, want) {
				t.Errorf("%s, %d columns: gathered rows differ", from, dim)
			}
			all := make([]byte, 0, rows*from.RowBytes(dim))
			for _, id := range ids {
				all = append(all, table[int(id)*from.RowBytes(dim):][:from.RowBytes(dim)]...)
			}
			clear(got)
			c.Widen(got, all, from, dim)
			if !slices.Equal(got, want) {
				t.Errorf("%s, %d columns: widened rows differ", from, dim)
			}
		}
	}
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

// BenchmarkGather gathers rows of 128 floats of a table that no cache holds, by descending number, beside the same without asking
// for them ahead. The rows are many: they are stored past the caches.
//
//	go test -run '^$' -bench Gather ./featurestore/internal/copier
func BenchmarkGather(b *testing.B) {
	const rows, dim, held = 240_000, 128, 2_000_000
	dst, ids, r := make([]float32, rows*dim), make([]uint32, rows), rand.New(rand.NewPCG(1, 2))
	for i := range ids {
		ids[i] = r.Uint32N(held)
	}
	slices.SortFunc(ids, func(a, b uint32) int { return cmp.Compare(b, a) })
	for _, from := range []dtype.Type{dtype.Float32, dtype.BFloat16, dtype.Int8, dtype.Int4} {
		src := make([]byte, held*from.RowBytes(dim))
		for i := range src {
			src[i] = byte(i)
		}
		c := New(Enough())
		c.Start()
		defer c.Close()
		b.Run(string(from)+"/ahead", func(b *testing.B) {
			b.SetBytes(rows * int64(from.RowBytes(dim)))
			for b.Loop() {
				c.Gather(dst, src, ids, 0, from, dim)
			}
		})
		b.Run(string(from)+"/plain", func(b *testing.B) {
			b.SetBytes(rows * int64(from.RowBytes(dim)))
			for b.Loop() {
				_ = c.Run(plainGather{dst, src, ids, from, dim}, rows)
			}
		})
	}
}

// plainGather gathers rows without asking for them ahead.
type plainGather struct {
	dst  []float32
	src  []byte
	ids  []uint32
	from dtype.Type
	dim  int
}

func (g plainGather) Do(lo, hi int, _ *[]byte) error {
	row := g.from.RowBytes(g.dim)
	for i := lo; i < hi; i++ {
		kernel.Widen(g.dst[i*g.dim:(i+1)*g.dim], g.src[int(g.ids[i])*row:][:row], g.from, g.dim)
	}
	return nil
}
