package residency

import (
	"bytes"
	"errors"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/rng"
)

// served is a policy of each name after all but the last two batches of a trace.
func served(t testing.TB, name string) (Policy, Config, [][]uint32) {
	batches := cycle(48, 12, 9)
	c := config(48, 20, batches)
	p := newPolicy(t, name, c)
	held, into := make([]int32, 48), make([]int32, 48)
	for _, b := range batches[:len(batches)-2] {
		p.Batch(b, held, into)
	}
	return p, c, batches[len(batches)-2:]
}

// cycle returns batches of distinct nodes, the lower ones more often.
func cycle(nodes, size, batches int) (all [][]uint32) {
	src := rng.New(1)
	for range batches {
		seen := map[uint32]bool{}
		var b []uint32
		for len(b) < size {
			v := src.Uint32n(uint32(nodes)) >> src.Uint32n(3)
			if !seen[v] {
				seen[v] = true
				b = append(b, v)
			}
		}
		all = append(all, b)
	}
	return all
}

// TestStateByHand is the state of each policy on a trace of TestByHand, after batch 8.
func TestStateByHand(t *testing.T) {
	const none = "\xff\xff\xff\xff"
	word := func(x ...byte) (s string) {
		for _, b := range x {
			s += string([]byte{b, 0, 0, 0})
		}
		return s
	}
	head := func(name string, rows ...byte) string {
		return name + "\x00\x00\x00\x00\x00\x00\x00\x00"[:8-len(name)] + word(5, 0, 3, 0, 3) + word(rows...)
	}
	for name, want := range map[string]string{
		// d, b, e
		LRU: head(LRU, 3, 1, 4) + word(0, 1, 2),
		// d is in use by two more batches, b by one
		Standby: head(Standby, 3, 1, 4) + word(0, 1, 2) + "\x02\x01\x00",
		Clock:   head(Clock, 0, 1, 3) + word(0) + "\x00\x00\x00",
		Sieve:   head(Sieve, 0, 1, 3) + word(2, 1, 0) + word(1) + "\x01\x00\x00",
		// main: a, b, d; ghosts: c, d, which came back, e
		S3FIFO: head(S3FIFO, 0, 1, 3) + word(0) + word(3, 0, 1, 2) + "\x01\x00\x00" + word(3, 2, 3, 4) + "\x01\x00\x01",
		Static: head(Static, 0, 1, 2),
	} {
		batches := letters("a b c a d a e b d c b e")
		p := newPolicy(t, name, config(5, 3, batches))
		for _, b := range batches[:9] {
			p.Batch(b, make([]int32, 1), make([]int32, 1))
		}
		if got := string(p.State()); got != want {
			t.Errorf("%s: % x\nwant % x", name, got, want)
		}
	}
	p := newPolicy(t, Sieve, Config{Nodes: 5, Frames: 3})
	if got, want := string(p.State()), "sieve\x00\x00\x00"+word(5, 0, 3, 0, 0)+none; got != want {
		t.Errorf("a new sieve: % x\nwant % x", got, want)
	}
}

// TestLoadRefuses: each of the changes makes a state that is none.
func TestLoadRefuses(t *testing.T) {
	for _, name := range Names() {
		p, c, _ := served(t, name)
		good := p.State()
		refuse := func(what string, b []byte) {
			t.Helper()
			if err := newPolicy(t, name, c).LoadState(b); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
		for n := range good {
			refuse("cut off", good[:n])
		}
		refuse("longer", append(bytes.Clone(good), 0))
		for at := range 28 { // name, nodes, frames, rows
			b := bytes.Clone(good)
			b[at]++
			refuse("another head", b)
		}
		change := func(what string, at int, with ...byte) {
			t.Helper()
			b := bytes.Clone(good)
			copy(b[at:], with)
			refuse(what, b)
		}
		rows := 28
		rest := rows + 4*20
		change("a node beyond the last", rows, 48, 0, 0, 0)
		change("a node twice", rows, good[rows+4:rows+8]...)
		switch name {
		case Static:
			b := bytes.Clone(good)
			copy(b[rows:], good[rows+4:rows+8])
			copy(b[rows+4:], good[rows:rows+4])
			refuse("another order", b)
		case LRU:
			change("a frame beyond the last", rest, 20, 0, 0, 0)
			change("a frame twice", rest, good[rest+4:rest+8]...)
		case Standby:
			oldest := 80 + int(good[rest+4*19])
			change("a frame beyond the last", rest, 20, 0, 0, 0)
			change("a frame twice", rest, good[rest+4:rest+8]...)
			change("in use by too many", rest+80+int(good[rest]), 3)
			change("in use longer than a newer one", rest+oldest, 2)
		case Clock:
			change("a hand beyond the last", rest, 20, 0, 0, 0)
			change("two uses", rest+4, 2)
		case Sieve:
			change("a frame twice", rest, good[rest+4:rest+8]...)
			change("a hand beyond the last", rest+80, 20, 0, 0, 0)
			change("a hand below the first", rest+80, 0xfe, 0xff, 0xff, 0xff)
			change("two uses", rest+84, 2)
		case S3FIFO:
			marks := rest + 8 + 80
			change("a frame beyond the last", rest+8, 20, 0, 0, 0)
			change("fewer in the queues", marks-84+4*int(good[rest]), 0)
			change("four uses", marks, 4)
			ghosts := marks + 20
			n := int(good[ghosts])
			change("many ghosts", ghosts, 19)
			change("a ghost beyond the last node", ghosts+4, 48, 0, 0, 0)
			change("neither remembered nor not", ghosts+4+4*n, 2)
			b := bytes.Clone(good)
			b[ghosts+4+4*n] = 1
			copy(b[ghosts+4:], good[rows:rows+4])
			refuse("a ghost with a row, remembered", b)
			copy(b[ghosts+4:], good[ghosts+8:ghosts+12])
			b[ghosts+5+4*n] = 0
			refuse("one place remembers, one does not", b)
		case Belady:
			change("batches beyond the last", rest, 10, 0, 0, 0)
			change("another trace", rest+4, good[rest+4]+1)
			few := newPolicy(t, Belady, Config{Nodes: 48, Frames: 20}).State()
			copy(few[len(few)-4:], good[rest+4:])
			refuse("fewer rows", few)
		}
	}
	p := newPolicy(t, Clock, Config{Nodes: 4, Frames: 3})
	p.Batch([]uint32{0, 1}, make([]int32, 2), make([]int32, 2))
	b := p.State()
	b[28+8] = 1
	if err := p.LoadState(b); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a hand that has moved before all frames are taken: %v", err)
	}
}

// FuzzLoadState: whatever is loaded is refused, or is the state of a policy that goes on.
func FuzzLoadState(f *testing.F) {
	for i, name := range Names() {
		p, c, _ := served(f, name)
		f.Add(uint8(i), p.State())
		f.Add(uint8(i), newPolicy(f, name, c).State())
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		name := Names()[int(which)%len(Names())]
		_, c, left := served(t, name)
		p := newPolicy(t, name, c)
		if err := p.LoadState(b); err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if !bytes.Equal(p.State(), b) {
			t.Fatalf("%s: % x was loaded, % x is the state", name, b, p.State())
		}
		if name == Belady {
			b := p.(*belady)
			left = nil
			for i := b.at; i < b.trace.Batches(); i++ {
				left = append(left, b.trace.Batch(i))
			}
		}
		run := replay(p, name, c.Nodes)
		for range 3 {
			for _, b := range left {
				run.batch(t, b, c.Frames)
			}
			if name == Belady {
				break
			}
		}
	})
}
