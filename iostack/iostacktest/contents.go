package iostacktest

import (
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/iostack"
)

// testContents reads random ranges of two files into random addresses.
func testContents(t *testing.T, s iostack.Stack) {
	const most = 300 << 10 // more than twice the largest bounce buffer of a backend
	var (
		files    [2]iostack.File
		contents [2][]byte
	)
	for i, size := range []int{1<<20 + 1234, 512 << 10} {
		path, content := WriteFile(t, size)
		files[i], contents[i] = OpenFile(t, s, path), content
	}
	a := newArena(t, 4<<20)
	rapid.Check(t, func(t *rapid.T) {
		a.reset()
		var (
			g       iostack.Group
			reqs    []iostack.Request
			sources []int
		)
		for range rapid.IntRange(1, 12).Draw(t, "requests") {
			i := rapid.IntRange(0, 1).Draw(t, "file")
			offset := rapid.IntRange(0, len(contents[i])).Draw(t, "offset")
			length := rapid.IntRange(0, min(most, len(contents[i])-offset)).Draw(t, "length")
			skip := rapid.IntRange(0, 4095).Draw(t, "skip")
			switch rapid.IntRange(0, 2).Draw(t, "congruence") {
			case 0: // any
			case 1:
				skip = offset % 4096
			case 2:
				offset, skip = offset&^4095, 0
			}
			reqs = append(reqs, iostack.Request{File: files[i], Offset: int64(offset), Buf: a.buf(skip, length)})
			sources = append(sources, i)
		}
		cut := rapid.IntRange(0, len(reqs)).Draw(t, "first micro-batch")
		submit(t, s, &g, reqs[:cut]...)
		submit(t, s, &g, reqs[cut:]...)
		wait(t, s, &g)
		for i, r := range reqs {
			compare(t, r, contents[sources[i]])
		}
		a.check(t)
	})
}

// testAlignments reads every combination of distances from a page's edge.
func testAlignments(t *testing.T, s iostack.Stack) {
	path, content := WriteFile(t, 64<<10+77)
	f := OpenFile(t, s, path)
	edges := []int{0, 1, 511, 512, 2048, 4095}
	a := newArena(t, 24<<20)
	var (
		g    iostack.Group
		reqs []iostack.Request
	)
	for _, skip := range edges {
		for _, page := range []int{0, 4096} {
			for _, lead := range edges {
				for _, n := range []int{1, 512, 4095, 4096, 4097, 8192, 12289, 40000} {
					reqs = append(reqs, iostack.Request{File: f, Offset: int64(page + lead), Buf: a.buf(skip, n)})
				}
			}
		}
	}
	submit(t, s, &g, reqs...)
	wait(t, s, &g)
	for _, r := range reqs {
		compare(t, r, content)
	}
	a.check(t)
}

func testLongerThanMaxIO(t *testing.T, s iostack.Stack) {
	most := s.Caps().MaxIO
	path, content := WriteFile(t, 3*most+12345)
	f := OpenFile(t, s, path)
	a := newArena(t, 5*len(content)+64<<10)
	var g iostack.Group
	reqs := []iostack.Request{
		{File: f, Offset: 0, Buf: a.buf(0, len(content))},
		{File: f, Offset: 4096, Buf: a.buf(0, 3*most)},
		{File: f, Offset: 5, Buf: a.buf(5, 2*most+4097)},
		{File: f, Offset: 7, Buf: a.buf(8, 2*most+1)},
	}
	submit(t, s, &g, reqs...)
	wait(t, s, &g)
	for _, r := range reqs {
		compare(t, r, content)
	}
	a.check(t)
}

// testBeyondTwoGiB reads a sparse file around the offsets where 32 bits end.
func testBeyondTwoGiB(t *testing.T, s iostack.Stack) {
	_, content := WriteFile(t, 40000)
	path := filepath.Join(t.TempDir(), "sparse.bin")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	places := []int64{1<<31 - 20000, 1<<32 - 20000, 5 << 32}
	for _, at := range places {
		if _, err := out.WriteAt(content, at); err != nil {
			t.Skipf("no sparse files here: %v", err)
		}
	}
	f := OpenFile(t, s, path)
	if want := places[len(places)-1] + int64(len(content)); f.Size() != want {
		t.Errorf("Size %d, want %d", f.Size(), want)
	}
	a := newArena(t, 1<<20)
	var g iostack.Group
	var reqs []iostack.Request
	for _, at := range places {
		reqs = append(reqs,
			iostack.Request{File: f, Offset: at, Buf: a.buf(int(at&4095), len(content))},
			iostack.Request{File: f, Offset: at, Buf: a.buf(11, len(content))})
	}
	submit(t, s, &g, reqs...)
	wait(t, s, &g)
	for _, r := range reqs {
		compare(t, iostack.Request{Buf: r.Buf}, content)
	}
	a.check(t)
}
