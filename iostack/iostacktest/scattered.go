package iostacktest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/fault"
	"diskgnn/iostack"
)

// testScattered reads random ranges into pieces of random sizes and addresses, beside
// requests with one.
func testScattered(t *testing.T, s iostack.Stack) {
	path, content := WriteFile(t, 700<<10+55)
	f := OpenFile(t, s, path)
	a := newArena(t, 5<<20)
	rapid.Check(t, func(t *rapid.T) {
		a.reset()
		var g iostack.Group
		var reqs []iostack.Request
		for range rapid.IntRange(1, 3).Draw(t, "requests") {
			offset := rapid.IntRange(0, len(content)).Draw(t, "offset")
			r := iostack.Request{File: f, Offset: int64(offset), Scatter: [][]byte{}}
			end := offset
			for range rapid.IntRange(0, 20).Draw(t, "pieces") {
				n := rapid.SampledFrom([]int{0, 1, 512, 4096, 5000, 50 << 10}).Draw(t, "bytes")
				n = min(n, len(content)-end)
				skip := rapid.SampledFrom([]int{0, end % 4096, 7}).Draw(t, "skip")
				r.Scatter = append(r.Scatter, a.buf(skip, n))
				end += n
			}
			reqs = append(reqs, r)
			if rapid.Bool().Draw(t, "plain too") {
				reqs = append(reqs, iostack.Request{File: f, Offset: int64(offset), Buf: a.buf(0, end-offset)})
			}
		}
		given := make([]iostack.Request, len(reqs))
		for i, r := range reqs {
			given[i] = r
			given[i].Scatter = nil
			if r.Scatter != nil {
				given[i].Scatter = append([][]byte{}, r.Scatter...)
			}
		}
		submit(t, s, &g, given...)
		wait(t, s, &g)
		for i, r := range reqs {
			if r.Scatter != nil && !slicesEqual(given[i].Scatter, r.Scatter) {
				t.Fatalf("the list of pieces was changed")
			}
			at := r.Offset
			for _, piece := range append([][]byte{r.Buf}, r.Scatter...) {
				compare(t, iostack.Request{Offset: at, Buf: piece}, content)
				at += int64(len(piece))
			}
		}
		a.check(t)
	})

	// Pieces are one read of the drive where they are short.
	a.reset()
	rows := iostack.Request{File: f, Offset: 8192}
	for i := range 16 {
		rows.Scatter = append(rows.Scatter, a.buf(3*i, 512))
	}
	before := s.Stats()
	var g iostack.Group
	submit(t, s, &g, rows)
	wait(t, s, &g)
	if direct, _ := f.Direct(); direct && s.Caps().MaxIO >= 8192 {
		if did := s.Stats().Sub(before); did.DeviceReads != 1 || did.BytesAsked != 8192 || did.BytesRead != 8192 {
			t.Errorf("%+v for 16 rows of 512 bytes next to each other", did)
		}
	}

	// Its end is the request's: how much was there is said of the whole.
	a.reset()
	beyond := iostack.Request{File: f, Offset: int64(len(content) - 700), Scatter: [][]byte{a.buf(0, 512), a.buf(0, 512)}}
	submit(t, s, &g, iostack.Request{File: f, Buf: a.buf(0, 10)}, beyond)
	err := s.Wait(context.Background(), &g)
	var read *iostack.ReadError
	if !errors.As(err, &read) || !errors.Is(err, fault.ErrCorrupt) || read.Index != 1 || read.Length != 1024 || !bytes.Contains([]byte(err.Error()), []byte("700 of 1024 bytes")) {
		t.Errorf("beyond the end: %v", err)
	}
	two := iostack.Request{File: f, Buf: a.buf(0, 1), Scatter: [][]byte{a.buf(0, 1)}}
	if err := s.Submit(&g, []iostack.Request{two}); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("two destinations: %v", err)
	}
	a.check(t)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	submit(t, s, &g, rows)
	if err := s.Wait(context.Background(), &g); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the file is closed: %v", err)
	}
}

// slicesEqual reports whether two lists have the same memory.
func slicesEqual(a, b [][]byte) bool {
	for i := range b {
		if len(a) != len(b) || len(a[i]) != len(b[i]) || addressOf(a[i]) != addressOf(b[i]) {
			return false
		}
	}
	return true
}
