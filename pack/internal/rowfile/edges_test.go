package rowfile

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/binio"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// TestEdgesAreWritten writes spans of all lengths to two files, with room for a few edges: the files have
// the bytes after Drain.
func TestEdgesAreWritten(t *testing.T) {
	set := files(t)
	rapid.Check(t, func(rt *rapid.T) {
		w, err := NewWriters(1)
		if err != nil {
			rt.Fatal(err)
		}
		defer w.Close()
		w.edges.mem = w.edges.mem[:0:longestEdge]
		s := w.Stream()
		var out [2]*File
		var want [2][]byte
		for i := range out {
			want[i] = make([]byte, 1<<20)
			if out[i], err = set.Create(string(rune('a'+i))+rapid.StringMatching("[a-z]{20}").Draw(rt, "name"), int64(len(want[i]))); err != nil {
				rt.Fatal(err)
			}
		}
		spans := rapid.SliceOfN(rapid.IntRange(1, 12*binio.Page), 1, 40).Draw(rt, "spans")
		at := [2]int{}
		for k, size := range spans {
			i := k % 2
			from := at[i] + rapid.IntRange(0, 100).Draw(rt, "gap")
			to := min(from+size, len(want[i]))
			if from >= to {
				continue
			}
			for j := from; j < to; j++ {
				want[i][j] = byte(j%251) + 1
			}
			at[i] = to
			if err := s.Seek(t.Context(), out[i], int64(from)); err != nil {
				rt.Fatal(err)
			}
			if err := s.Write(t.Context(), want[i][from:to]); err != nil {
				rt.Fatal(err)
			}
		}
		s.Flush()
		if err := w.Drain(); err != nil {
			rt.Fatal(err)
		}
		if len(w.edges.list) > 0 {
			rt.Fatalf("%d edges remain", len(w.edges.list))
		}
		for i := range out {
			got, err := vfs.ReadFile(disk, out[i].name)
			if err != nil || !bytes.Equal(got, want[i]) {
				rt.Fatalf("file %d is not what was written: %v", i, err)
			}
			out[i].Close()
			if err := disk.Remove(out[i].name); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

// writers returns a new file of the set, and writers for one goroutine that fills blocks.
func writers(t *testing.T, set *Set, size int64) (*File, *Writers) {
	t.Helper()
	out, err := set.Create("f", size)
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriters(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return out, w
}

// TestShortEdges writes more edges than the list has room for: it does not grow, and the file has the bytes.
func TestShortEdges(t *testing.T) {
	set := files(t)
	const n = 2*mostEdges + 100
	out, w := writers(t, set, 2*n)
	room := cap(w.edges.list)
	s, want := w.Stream(), make([]byte, 2*n)
	for k := range n {
		want[2*k] = byte(k%251) + 1
		if err := s.Seek(t.Context(), out, int64(2*k)); err != nil {
			t.Fatal(err)
		}
		if err := s.Write(t.Context(), want[2*k:2*k+1]); err != nil {
			t.Fatal(err)
		}
	}
	s.Flush()
	if err := w.Drain(); err != nil || cap(w.edges.list) != room {
		t.Errorf("%v: a list of %d edges, for which there was room for %d", err, cap(w.edges.list), room)
	}
	got, err := vfs.ReadFile(disk, out.name)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("not what was written: %v", err)
	}
}

// TestAnEdgeFails fails the write of an edge when Drain writes it, and when it makes room for another.
func TestAnEdgeFails(t *testing.T) {
	boom := errors.New("boom")
	for _, room := range []int{longestEdge, edgeBytes} {
		in := &vfs.FailAt{N: 1, Err: boom, Match: func(op vfs.Op, _ string) bool { return op == vfs.OpWrite }}
		dir, _, err := stage.Begin(vfs.Inject(disk, in), t.TempDir()+"/D", stage.Spec{}, false)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		set := NewSet(dir, 0)
		defer set.Close()
		out, w := writers(t, set, 1<<20)
		w.edges.mem = w.edges.mem[:0:room]
		s := w.Stream()
		for k := range 40 { // 40 × 1,000 bytes are more than longestEdge
			if err = s.Seek(t.Context(), out, int64(k)*2000); err == nil {
				err = s.Write(t.Context(), make([]byte, 1000))
			}
			if err != nil {
				break
			}
		}
		s.Flush()
		if err := errors.Join(err, w.Drain()); !errors.Is(err, boom) {
			t.Errorf("room for %d bytes: %v", room, err)
		}
	}
}
