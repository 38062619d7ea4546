package cuda_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/binio"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// lateStreams are three streams of a late device and two numbers of its memory, each in
// pinned host memory too.
type lateStreams struct {
	t *testing.T
	*cuda.Device
	s      [3]*cuda.Stream
	a, b   cuda.Buffer
	ha, hb *cuda.Pinned
	e      *cuda.Event
}

func openLate(t *testing.T, seed uint64) *lateStreams {
	l := &lateStreams{t: t, Device: cudatest.OpenLate(t, seed)}
	arena, err := l.NewArena(1024)
	check(t, err)
	t.Cleanup(arena.Free)
	for i := range l.s {
		l.s[i], err = l.NewStream()
		check(t, err)
	}
	for _, b := range []*cuda.Buffer{&l.a, &l.b} {
		*b, err = arena.Take(4)
		check(t, err)
	}
	for _, p := range []**cuda.Pinned{&l.ha, &l.hb} {
		*p, err = l.NewPinned(4)
		check(t, err)
		t.Cleanup((*p).Free)
	}
	l.e, err = l.NewEvent()
	check(t, err)
	t.Cleanup(func() {
		for _, s := range l.s {
			check(t, s.Synchronize())
			s.Free()
		}
		l.e.Free()
	})
	return l
}

// outcomes collects what comes of a procedure on devices of all orders: how often which
// number.
func outcomes(t *testing.T, do func(l *lateStreams) float32) map[string]int {
	t.Helper()
	found := make(map[string]int)
	for seed := range uint64(4 * cudatest.Orders) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { found[fmt.Sprint(do(openLate(t, seed)))]++ })
	}
	return found
}

// pass takes the number 1 into a, from there to b, and out of it, each on a stream of its
// own; with waits where they belong, but for the given one.
func pass(l *lateStreams, but int) float32 {
	wait := func(k int, do func() error) {
		l.t.Helper()
		if k != but {
			check(l.t, do())
		}
	}
	l.ha.Float32s()[0], l.hb.Float32s()[0] = 1, 7
	check(l.t, l.s[0].CopyIn(l.a, l.ha.Bytes()))
	wait(0, func() error { return l.e.Record(l.s[0]) })
	wait(1, func() error { return l.s[1].Wait(l.e) })
	check(l.t, l.s[1].Copy(l.b, l.a))
	wait(2, func() error { return errors.Join(l.e.Record(l.s[1]), l.s[2].Wait(l.e)) })
	check(l.t, l.s[2].CopyOut(l.hb.Bytes(), l.b))
	wait(3, l.s[2].Synchronize)
	return l.hb.Float32s()[0]
}

// TestLateWaits: with all waits the right number comes out in every order; without one of
// them, what was there before, or nothing, in some.
func TestLateWaits(t *testing.T) {
	const seeds = 4 * cudatest.Orders
	if got := outcomes(t, func(l *lateStreams) float32 { return pass(l, -1) }); got["1"] != seeds {
		t.Errorf("with all waits: %v", got)
	}
	for but := range 4 {
		got := outcomes(t, func(l *lateStreams) float32 { return pass(l, but) })
		if got["1"] == 0 && but < 3 || got["1"] == seeds || but == 3 && got["7"] == 0 || but < 3 && got["NaN"] == 0 {
			t.Errorf("without wait %d: %v", but, got)
		}
	}
}

// TestLateReuse: memory that is written to before it was read is spoilt: on the device by
// another stream, on the host at once.
func TestLateReuse(t *testing.T) {
	const seeds = 4 * cudatest.Orders
	for name, c := range map[string]struct {
		do   func(l *lateStreams, wait bool)
		late string
	}{
		"device": {func(l *lateStreams, wait bool) {
			check(l.t, l.s[1].Copy(l.b, l.a))
			if wait {
				check(l.t, errors.Join(l.e.Record(l.s[1]), l.s[0].Wait(l.e)))
			}
			l.ha.Float32s()[0] = 2
			check(l.t, l.s[0].CopyIn(l.a, l.ha.Bytes()))
		}, "2"},
		"host": {func(l *lateStreams, wait bool) {
			l.ha.Float32s()[0] = 3
			check(l.t, l.s[1].CopyIn(l.b, l.ha.Bytes()))
			if wait {
				check(l.t, errors.Join(l.e.Record(l.s[1]), l.e.Synchronize()))
			}
			l.ha.Float32s()[0] = 4
		}, "4"},
	} {
		for _, wait := range []bool{true, false} {
			got := outcomes(t, func(l *lateStreams) float32 {
				l.ha.Float32s()[0] = 3
				check(l.t, l.s[0].CopyIn(l.a, l.ha.Bytes()))
				check(l.t, l.s[0].Synchronize())
				c.do(l, wait)
				check(l.t, l.s[1].CopyOut(l.hb.Bytes(), l.b))
				check(l.t, l.s[1].Synchronize())
				return l.hb.Float32s()[0]
			})
			if wait && got["3"] != seeds || !wait && (got["3"] == 0 || got[c.late] == 0) {
				t.Errorf("%s, waited %v: %v", name, wait, got)
			}
		}
	}
}

// TestLateOtherMemory: memory that is not pinned has been read when the call returns, and
// is written when it was waited for.
func TestLateOtherMemory(t *testing.T) {
	out := make([]float32, 1)
	got := outcomes(t, func(l *lateStreams) float32 {
		in := []float32{5}
		check(l.t, l.s[0].CopyIn(l.a, binio.Bytes(in)))
		in[0] = 6
		out[0] = 0
		check(l.t, l.s[0].CopyOut(binio.Bytes(out), l.a))
		check(l.t, l.s[0].Synchronize())
		return out[0]
	})
	if got["5"] != 4*cudatest.Orders {
		t.Error(got)
	}
}

// wrongs collects what a late device complains of.
func wrongs(t *testing.T, seed uint64, do func(d *cuda.Device)) (list []string) {
	t.Helper()
	d, err := cuda.OpenLate(func(string, []uint64, func(uint64) []byte) {}, cuda.Options{Code: kernels.Code}, cuda.Late{Seed: seed, Wrong: func(what string) { list = append(list, what) }})
	check(t, err)
	do(d)
	d.Close()
	return slices.Compact(list)
}

// TestLateFrees: memory and graphs that are freed under work are found out, by the time
// that the device is closed.
func TestLateFrees(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(d *cuda.Device, s *cuda.Stream, b cuda.Buffer, arena *cuda.Arena, p *cuda.Pinned) error
		want string
	}{
		"an arena": {func(_ *cuda.Device, s *cuda.Stream, b cuda.Buffer, arena *cuda.Arena, _ *cuda.Pinned) error {
			defer arena.Free()
			return s.Fill(b, 0)
		}, "memory that was freed"},
		"pinned memory": {func(_ *cuda.Device, s *cuda.Stream, b cuda.Buffer, _ *cuda.Arena, p *cuda.Pinned) error {
			defer p.Free()
			return s.CopyIn(b, p.Bytes())
		}, "not pinned any more"},
		"pinned memory, copied to": {func(_ *cuda.Device, s *cuda.Stream, b cuda.Buffer, _ *cuda.Arena, p *cuda.Pinned) error {
			defer p.Free()
			return s.CopyOut(p.Bytes(), b)
		}, "not pinned any more"},
		"mapped memory": {func(_ *cuda.Device, s *cuda.Stream, b cuda.Buffer, _ *cuda.Arena, p *cuda.Pinned) error {
			defer p.Free()
			m, err := p.Buffer()
			return errors.Join(err, s.Copy(b, m))
		}, "memory that was freed"},
		"a graph": {func(_ *cuda.Device, s *cuda.Stream, b cuda.Buffer, _ *cuda.Arena, _ *cuda.Pinned) error {
			g, err := s.Capture("fill", func() error { return s.Fill(b, 0) })
			if err != nil {
				return err
			}
			defer g.Free()
			return g.Launch(s)
		}, "graph was freed"},
	} {
		for _, wait := range []bool{true, false} {
			got := wrongs(t, 0, func(d *cuda.Device) {
				s, err := d.NewStream()
				check(t, err)
				arena, err := d.NewArena(64)
				check(t, err)
				b, err := arena.Take(64)
				check(t, err)
				p, err := d.NewPinned(64)
				check(t, err)
				if !wait {
					check(t, c.do(d, s, b, arena, p))
					return
				}
				// The same behind a device that waits for each thing.
				check(t, s.Fill(b, 1))
				check(t, s.Synchronize())
				arena.Free()
				p.Free()
			})
			if wait && len(got) > 0 || !wait && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
				t.Errorf("%s, waited %v: %q", name, wait, got)
			}
		}
	}
}

// TestLateMarks: of marks that were not made, or not waited for, nobody knows the time.
func TestLateMarks(t *testing.T) {
	l := openLate(t, 0)
	other, err := l.NewEvent()
	check(t, err)
	defer other.Free()
	check(t, other.Record(l.s[0]))
	if _, err := other.Since(l.e); err == nil {
		t.Error("the time since a mark that was not made")
	}
	check(t, l.e.Record(l.s[0]))
	if _, err := l.e.Since(other); err == nil {
		t.Error("the time of a mark that is not done")
	}
	for tries := 0; ; tries++ {
		if done, err := l.e.Done(); err != nil || tries == 100 {
			t.Fatalf("never done (%v)", err)
		} else if done {
			break
		}
	}
	if took, err := l.e.Since(other); err != nil || !(took > 0) {
		t.Errorf("%v, %v", took, err)
	}
	g, err := l.s[0].Capture("a wait", func() error {
		if err := l.s[0].Synchronize(); err == nil {
			t.Error("a stream that is captured was waited for")
		}
		return nil
	})
	check(t, err)
	g.Free()
	if v := float32(math.NaN()); l.ha.Float32s()[0] == v || l.hb.Float32s()[0] == l.hb.Float32s()[0] {
		t.Error("pinned memory holds something at first")
	}
}

// What is made of an emulated device and not freed is counted; what is freed twice is wrong.
func TestLeft(t *testing.T) {
	var wrong []string
	d, err := cuda.OpenLate(nil, cuda.Options{}, cuda.Late{Wrong: func(what string) { wrong = append(wrong, what) }})
	check(t, err)
	defer d.Close()
	left := func(want map[string]int) {
		t.Helper()
		if got := d.Left(); !maps.Equal(got, want) {
			t.Errorf("left are %v, want %v", got, want)
		}
	}
	left(nil)
	s, err := d.NewStream()
	check(t, err)
	e, err := d.NewEvent()
	check(t, err)
	span, err := d.NewSpan()
	check(t, err)
	b, err := s.NewBLAS(cuda.Buffer{})
	check(t, err)
	g, err := s.Capture("nothing", func() error { return nil })
	check(t, err)
	left(map[string]int{"stream": 1, "event": 3, "cuBLAS": 1, "graph": 1})
	span.Free()
	left(map[string]int{"stream": 1, "event": 1, "cuBLAS": 1, "graph": 1})
	for _, free := range []func(){g.Free, b.Free, e.Free, s.Free} {
		free()
	}
	left(nil)
	if wrong != nil {
		t.Error(wrong)
	}
	for _, free := range []func(){g.Free, b.Free, e.Free, s.Free} {
		free()
	}
	if want := []string{"graph", "cuBLAS", "event", "stream"}; len(wrong) != 4 || !slices.EqualFunc(wrong, want, strings.Contains) {
		t.Errorf("freed twice: %v, want %v", wrong, want)
	}
}

// TestLateIsDrawn: the same seed gives the same order, another one another.
func TestLateIsDrawn(t *testing.T) {
	order := func(seed uint64) (list []string) {
		d, err := cuda.OpenLate(func(kernel string, args []uint64, _ func(uint64) []byte) {
			list = append(list, fmt.Sprint(kernel, args[1]))
		}, cuda.Options{Code: kernels.Code}, cuda.Late{Seed: seed, Wrong: func(what string) { t.Error(what) }})
		check(t, err)
		defer d.Close()
		arena, err := d.NewArena(1024)
		check(t, err)
		b, err := arena.Take(1024)
		check(t, err)
		var s [3]*cuda.Stream
		for i := range s {
			s[i], err = d.NewStream()
			check(t, err)
		}
		for i := range 30 {
			check(t, kernels.ZeroPadding{X: b, Stride: i + 1, Width: 1, Rows: kernels.Rows(2)}.Launch(s[i%3]))
		}
		for i := range s {
			check(t, s[i].Synchronize())
		}
		arena.Free()
		return list
	}
	if !slices.Equal(order(5), order(5)) {
		t.Error("the same seed, another order")
	}
	if len(order(5)) != 30 || slices.Equal(order(5), order(13)) {
		t.Error("another seed, the same order")
	}
}
