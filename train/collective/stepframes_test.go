package collective

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"testing"

	"diskgnn/internal/binio"
	"diskgnn/train/engine"
)

// listener is a rank of two that takes frames of steps of at most two batches, of 2 parameters and a number of
// statistics for each batch.
func listener(rank, statistics int) (*Group, *peer) {
	here, _ := net.Pipe()
	p := newPeer(1-rank, "", here)
	g := &Group{rank: rank, world: 2, limits: quick, watch: newWatch(quick), peers: []*peer{p}}
	g.ctx, g.cancel = ctxWithCancel()
	to := &engine.Sum{Gradients: make([]float32, 2), Statistics: make([]float32, 0, 2*statistics)}
	g.prepare(&step{elements: 2 + statistics, trained: 2, batches: 2, sum: to}, 2)
	return g, p
}

// takes has a rank read a frame, and returns the frame that its next call gets.
func takes(g *Group, p *peer, b []byte) (m received, err error) {
	r := bytes.NewReader(b)
	h, err := readHeader(r)
	if err == nil {
		err = p.take(g, r, &h)
	}
	if err != nil {
		return m, err
	}
	if r.Len() > 0 {
		return m, fmt.Errorf("%d bytes are left", r.Len())
	}
	return <-p.inbox, nil
}

// stepHead is the head of the frame of a step, by hand.
func stepHead(bytes int, number uint64, signals, batches uint32, labelled uint64) []byte {
	b := make([]byte, 24)
	binary.LittleEndian.PutUint64(b, number)
	binary.LittleEndian.PutUint32(b[8:], signals)
	binary.LittleEndian.PutUint32(b[12:], batches)
	binary.LittleEndian.PutUint64(b[16:], labelled)
	return b[:bytes]
}

// By hand: the frames of a step and their numbers.
func TestStepFrames(t *testing.T) {
	floats := func(x ...float32) []byte { return binio.Bytes(x) }
	g, p := listener(0, 1)
	m, err := takes(g, p, frame(contribution, stepHead(16, 7, 5, 0, 0), floats(1, 2, 3)))
	if err != nil || m.kind != contribution || m.number != 7 || m.labelled != 5 || !slices.Equal(m.floats, []float32{1, 2, 3}) {
		t.Errorf("%+v, %v", m, err)
	}
	m, err = takes(g, p, frame(ask, stepHead(24, 7, uint32(Save), 2, 9)))
	if err != nil || m.kind != ask || m.number != 7 || m.signals != Save || m.batches != 2 || m.labelled != 9 {
		t.Errorf("%+v, %v", m, err)
	}
	for batches := range 3 {
		g, p := listener(1, 1)
		m, err := takes(g, p, frame(sum, stepHead(24, 7, uint32(Stop), uint32(batches), math.MaxInt64), floats(1, 2, 3, 4)[:8+4*batches]))
		s := g.step.Load().sum
		if err != nil || m.kind != sum || m.number != 7 || m.signals != Stop || m.batches != batches || m.labelled != math.MaxInt64 {
			t.Errorf("%d batches: %+v, %v", batches, m, err)
		}
		if s.Batches != batches || s.Labelled != math.MaxInt64 || !slices.Equal(s.Gradients, []float32{1, 2}) || !slices.Equal(s.Statistics, []float32{3, 4}[:batches]) {
			t.Errorf("%d batches: %+v", batches, s)
		}
		g, p = listener(1, 0)
		if m, err := takes(g, p, frame(sum, stepHead(24, 7, 0, uint32(batches), 1), floats(1, 2))); err != nil || m.batches != batches {
			t.Errorf("%d batches without statistics: %+v, %v", batches, m, err)
		}
	}
}

// By hand: frames that do not fit the step, or the rank, are refused, and the refusal names their size.
func TestStepFramesThatDoNotFit(t *testing.T) {
	for name, c := range map[string]struct {
		rank, statistics int
		frame            []byte
		want             string
	}{
		"a sum for rank 0":               {0, 1, frame(sum, make([]byte, 24+8)), "a sum of 32 bytes"},
		"an end for rank 1":              {1, 1, frame(ask, make([]byte, 24)), "a frame that ends a step has 24 bytes"},
		"a contribution for rank 1":      {1, 1, frame(contribution, make([]byte, 16+12)), "a contribution has 28 bytes, which does not fit 3 parameters"},
		"a long end":                     {0, 1, frame(ask, make([]byte, 25)), "a frame that ends a step has 25 bytes"},
		"a short end":                    {0, 1, frame(ask, make([]byte, 23)), "a frame that ends a step has 23 bytes"},
		"a long contribution":            {0, 1, frame(contribution, make([]byte, 16+13)), "a contribution has 29 bytes"},
		"a short contribution":           {0, 1, frame(contribution, make([]byte, 16+11)), "a contribution has 27 bytes"},
		"seed nodes below 0":             {0, 1, frame(ask, stepHead(24, 0, 0, 0, 1<<63)), "a step has -9223372036854775808 labelled seed nodes"},
		"a sum without a whole head":     {1, 1, frame(sum, make([]byte, 23)), "a sum of 23 bytes"},
		"a sum with half the parameters": {1, 1, frame(sum, make([]byte, 24+4)), "a sum has 28 bytes, which does not fit 3 parameters and at most 2 batches"},
		"a sum with half a statistic":    {1, 1, frame(sum, make([]byte, 24+8+2)), "a sum has 34 bytes, which does not fit"},
		"a sum of three batches":         {1, 1, frame(sum, stepHead(24, 0, 0, 3, 0), make([]byte, 8+12)), "a sum has 44 bytes, which does not fit"},
		"statistics that no model has":   {1, 0, frame(sum, make([]byte, 24+8+4)), "a sum has 36 bytes, which does not fit"},
		"one byte of these":              {1, 0, frame(sum, make([]byte, 24+8+1)), "a sum has 33 bytes, which does not fit"},
		"statistics of another batch":    {1, 1, frame(sum, stepHead(24, 0, 0, 2, 5), make([]byte, 8+4)), "a sum has 2 batches and 5 labelled seed nodes, which do not fit its step"},
		"three batches without them":     {1, 0, frame(sum, stepHead(24, 0, 0, 3, 5), make([]byte, 8)), "a sum has 3 batches and 5 labelled seed nodes"},
		"a sum of nodes below 0":         {1, 0, frame(sum, stepHead(24, 0, 0, 1, 1<<63), make([]byte, 8)), "a sum has 1 batches and 9223372036854775808 labelled seed nodes"},
		"another checksum":               {0, 1, append(forged(contribution, 28), make([]byte, 28)...), "does not match its checksum"},
		"a cut contribution":             {0, 1, frame(contribution, make([]byte, 28))[:50], "unexpected EOF"},
	} {
		g, p := listener(c.rank, c.statistics)
		if m, err := takes(g, p, c.frame); !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %+v, %v; want %s", name, m, err, c.want)
		}
	}
	g, p := listener(0, 1)
	g.step.Store(nil)
	if m, err := takes(g, p, frame(ask, make([]byte, 24))); !strings.Contains(fmt.Sprint(err), "arrived before training") {
		t.Errorf("%+v, %v", m, err)
	}
}

// The memory of a reduction is the memory that is planned: by hand, of three batches a step, of which each
// other rank computes at most two.
func TestOrderedBytes(t *testing.T) {
	l := layouts["batch"]
	groups := Local(3, quick)
	defer closeAll(groups)
	for _, g := range groups {
		o := NewOrdered(g, &l, 3, 2)
		to := g.step.Load().sum
		n := len(o.mine) + len(to.Gradients) + cap(to.Statistics)
		for _, p := range g.peers {
			for range len(p.free) {
				n += len(<-p.free)
			}
		}
		if got := OrderedBytes(&l, 3, 2, g.rank, 3); got != 4*int64(n) {
			t.Errorf("rank %d: %d bytes are planned, %d taken", g.rank, got, 4*n)
		}
		want := l.Count() + l.Trained + 3*(l.Count()-l.Trained)
		if g.rank == 0 {
			want += 2 * 2 * l.Count()
		}
		if n != want || l.Count() == l.Trained {
			t.Errorf("rank %d: %d floats, want %d", g.rank, n, want)
		}
	}
}
