package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/dataset/datasettest"
	"diskgnn/featurestore"
	"diskgnn/internal/binio"
	"diskgnn/internal/rng"
	"diskgnn/iostack"
	"diskgnn/iostack/pread"
)

// pair is a Planner of requests for up to two nodes with the same first page.
type pair struct{ Single }

func (p pair) Next(nodes []uint32, row int, size int64) (off, n int64, served int) {
	off, n, served = p.Single.Next(nodes, row, size)
	if len(nodes) > 1 {
		if o, m, _ := p.Single.Next(nodes[1:], row, size); o == off {
			n, served = max(n, m), 2
		}
	}
	return off, n, served
}

// rowsFile opens a file of random rows with a stack of its own.
func rowsFile(t testing.TB, rows, row int) (*Files, []byte) {
	content := make([]byte, rows*row)
	for i := range content {
		content[i] = byte(rng.Mix(uint64(i)))
	}
	path := filepath.Join(t.TempDir(), "rows")
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	stack, err := pread.New(iostack.Options{Workers: 3})
	if err != nil {
		t.Fatal(err)
	}
	f := &Files{of: &Table{Data: datasettest.Create(t, filepath.Join(t.TempDir(), "dataset"), datasettest.Tiny(t)), Facts: featurestore.Facts{Nodes: int64(rows), RowBytes: row}}, Stack: stack}
	if f.Rows, err = stack.Open(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(f.Rows.Close(), stack.Close()) })
	s := binio.NewSummer(binio.Page)
	_, _ = s.Write(content) // never fails
	sums := s.Sums()
	f.Sums = &sums
	return f, content
}

// taken is a Sink that compares rows with the content, and counts them.
type taken struct {
	content []byte
	row     int
	nodes   []uint32
	next    int
}

func (s *taken) Put(k int, row []byte) error {
	if k != s.next {
		return fmt.Errorf("row %d comes after row %d", k, s.next-1)
	}
	s.next++
	if at := int(s.nodes[k]) * s.row; string(row) != string(s.content[at:at+s.row]) {
		return fmt.Errorf("row %d is not the row of node %d", k, s.nodes[k])
	}
	return nil
}

// A reader passes each row once, in order, with any division into rounds, and counts the requests of its
// planner: compared with a plain loop.
func TestReader(t *testing.T) {
	for _, row := range []int{3, 400, 512, 6000} {
		const rows = 60
		files, content := rowsFile(t, rows, row)
		rapid.Check(t, func(rt *rapid.T) {
			by := Reading{Row: row, Planner: []Planner{Single{}, pair{}}[rapid.IntRange(0, 1).Draw(rt, "planner")],
				Rounds: rapid.IntRange(1, 2).Draw(rt, "rounds"), Requests: rapid.IntRange(1, 9).Draw(rt, "requests"), Submit: rapid.IntRange(1, 9).Draw(rt, "submit")}
			m := new(Memory)
			defer m.Free()
			var counts, want featurestore.Counts
			r := NewReader(m, by, files, &counts)
			for range rapid.IntRange(1, 3).Draw(rt, "lists") {
				nodes := rapid.SliceOfN(rapid.Uint32Range(0, rows-1), 0, 30).Draw(rt, "nodes")
				for rest := nodes; len(rest) > 0; {
					_, n, served := by.Planner.Next(rest, row, int64(len(content)))
					want.Requests++
					want.BytesRead += n
					rest = rest[served:]
				}
				s := &taken{content, row, nodes, 0}
				if err := r.Read(t.Context(), nodes, s); err != nil || s.next != len(nodes) {
					rt.Fatalf("%d of %d rows: %v", s.next, len(nodes), err)
				}
			}
			if counts != want {
				rt.Fatalf("%+v, want %+v", counts, want)
			}
			if n := Counted(func(m *Memory) { NewReader(m, by, nil, nil) }); n != m.bytes+m.lists {
				rt.Fatalf("%d bytes are counted, %d taken", n, m.bytes+m.lists)
			}
		})
	}
}

// errFull is the error of a sink.
var errFull = errors.New("the sink is full")

type full struct{}

func (full) Put(int, []byte) error { return errFull }

// After an error of the sink, of a checksum and of the context, the reader reads the next list.
func TestReaderGoesOn(t *testing.T) {
	files, content := rowsFile(t, 60, 512)
	m := new(Memory)
	defer m.Free()
	var counts featurestore.Counts
	r := NewReader(m, Alternate(Single{}, 512, 4), files, &counts)
	nodes := make([]uint32, 40)
	for i := range nodes {
		nodes[i] = uint32(i)
	}
	again := func() {
		t.Helper()
		s := &taken{content, 512, nodes, 0}
		if err := r.Read(t.Context(), nodes, s); err != nil || s.next != len(nodes) {
			t.Errorf("%d rows: %v", s.next, err)
		}
	}
	if err := r.Read(t.Context(), nodes, full{}); !errors.Is(err, errFull) {
		t.Error(err)
	}
	again()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Read(ctx, nodes, &taken{content, 512, nodes, 0}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	again()
}

// Alternate divides the requests in flight between two rounds, and bounds the bytes of a round.
func TestAlternate(t *testing.T) {
	for _, c := range []struct{ row, inFlight, want int }{
		{512, 512, 256}, {512, 3, 1}, {512, 1, 1}, {4096, 1 << 20, 2048}, {16 << 20, 64, 1},
	} {
		if r := Alternate(Single{}, c.row, c.inFlight); r.Rounds != 2 || r.Requests != c.want || r.Submit != c.want {
			t.Errorf("%+v: %+v", c, r)
		}
	}
}

// Numbers and buffers begin at pages, are zeroed, and are as large as counted; lists are counted by element.
func TestMemory(t *testing.T) {
	var of struct {
		a []uint32
		b []byte
	}
	lay := func(m *Memory) { of.a, of.b = Numbers[uint32](m, 1025), Numbers[byte](m, 1) }
	if n := Counted(lay); n != 3*binio.Page || of.a != nil || of.b != nil {
		t.Errorf("%d bytes, %d numbers", n, len(of.a))
	}
	host, err := Carve(lay)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Free()
	if len(of.a) != 1025 || cap(of.a) != 1025 || len(of.b) != 1 || &of.a[0] != &host.Uint32s()[0] || &of.b[0] != &host.Bytes()[2*binio.Page] {
		t.Errorf("%d and %d numbers", len(of.a), len(of.b))
	}
	m := new(Memory)
	if n := len(Numbers[uint64](m, 3)) + len(List[uint16](m, 5)) + len(m.Host(7).Bytes()); n != 15 || m.bytes != 2*binio.Page || m.lists != 10 || m.Err != nil {
		t.Errorf("%d elements, %d and %d bytes, %v", n, m.bytes, m.lists, m.Err)
	}
	m.Free()
	m.Free()
	if m.Host(-1); m.Err == nil {
		t.Error("a buffer of -1 bytes")
	}
}
