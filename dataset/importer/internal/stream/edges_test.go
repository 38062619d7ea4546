package stream_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/internal/npy"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// arrays opens arrays of the given elements, and counts those that are open.
type arrays struct {
	elements []int64
	shape    []int64
	fail     int // the opening that fails, from 1
	opened   int
	open     int
}

var errBoom = errors.New("boom")

func (a *arrays) array() (*npz.Array, error) {
	if a.opened++; a.opened == a.fail {
		return nil, errBoom
	}
	a.open++
	h, err := npy.Describe("i8", a.shape...)
	return npz.New(h, bytes.NewReader(binio.Bytes(a.elements)), "x", a), err
}

func (a *arrays) Close() error {
	a.open--
	return nil
}

// all returns the edges of a stream, and closes it.
func all(t *testing.T, p stream.Pairs, nodes int64) (list []string, err error) {
	t.Helper()
	err = stream.EachPair(t.Context(), "x", p, nodes, func(dst, src []int64) error {
		for i := range dst {
			list = append(list, fmt.Sprintf("%d→%d", src[i], dst[i]))
		}
		return nil
	})
	return list, errors.Join(err, p.Close())
}

func TestTwoRows(t *testing.T) {
	a := &arrays{elements: []int64{0, 1, 2, 10, 11, 12}, shape: []int64{2, 3}}
	p, err := stream.TwoRows(a.array)
	if err != nil {
		t.Fatal(err)
	}
	got, err := all(t, p, 13)
	if want := []string{"0→10", "1→11", "2→12"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	one := &arrays{elements: []int64{3, 4}, shape: []int64{2, 1}}
	if p, err = stream.TwoRows(one.array); err != nil {
		t.Fatal(err)
	}
	if got, err = all(t, p, 5); err != nil || !slices.Equal(got, []string{"3→4"}) {
		t.Errorf("one edge: %v, %v", got, err)
	}
	const n = 150_000 // more than is read ahead
	long := &arrays{elements: make([]int64, 2*n), shape: []int64{2, n}}
	for i := range long.elements {
		long.elements[i] = int64(i)
	}
	if p, err = stream.TwoRows(long.array); err != nil {
		t.Fatal(err)
	}
	got, err = all(t, p, 2*n)
	if want := fmt.Sprintf("%d→%d", n-1, 2*n-1); err != nil || len(got) != n || got[n-1] != want {
		t.Errorf("%d edges, %v; want %d up to %s", len(got), err, n, want)
	}
	for _, bad := range []arrays{
		{elements: []int64{0, 1, 2, 10, 11, 13}, shape: []int64{2, 3}}, // an id too large
		{elements: []int64{-1, 1, 2, 10, 11, 12}, shape: []int64{2, 3}},
		{elements: []int64{0, 1, 2, 10, 11}, shape: []int64{2, 3}}, // an element is missing
		{elements: []int64{0, 1}, shape: []int64{2, 3}},
	} {
		p, err := stream.TwoRows(bad.array)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := all(t, p, 13); !errors.Is(err, fault.ErrInput) || bad.open != 0 {
			t.Errorf("%v: %v, %d arrays are open", bad.elements, err, bad.open)
		}
	}
}

// TestOpening fails each opening of an array in turn.
func TestOpening(t *testing.T) {
	for fail := 1; fail <= 2; fail++ {
		a := &arrays{elements: make([]int64, 6), shape: []int64{2, 3}, fail: fail}
		if p, err := stream.TwoRows(a.array); !errors.Is(err, errBoom) || p != nil || a.open != 0 {
			t.Errorf("two rows, %d: %v, %v, %d arrays are open", fail, p, err, a.open)
		}
		a.opened = 0
		if p, err := stream.TwoVectors(func(string) (*npz.Array, error) { return a.array() }, "src", "dst"); !errors.Is(err, errBoom) || p != nil || a.open != 0 {
			t.Errorf("two vectors, %d: %v, %v, %d arrays are open", fail, p, err, a.open)
		}
	}
}

// TestTwoVectors refuses vectors of different lengths, and matrices.
func TestTwoVectors(t *testing.T) {
	for _, c := range []struct {
		src, dst []int64 // shapes
		says     string
	}{
		{[]int64{3}, []int64{3}, ""}, {[]int64{3}, []int64{2}, "(2,) instead of (3,)"}, {[]int64{3, 1}, []int64{3}, "instead of one dimension"},
	} {
		open := map[string]*arrays{"src": {elements: []int64{0, 1, 2}, shape: c.src}, "dst": {elements: []int64{3, 4, 5}, shape: c.dst}}
		p, err := stream.TwoVectors(func(key string) (*npz.Array, error) { return open[key].array() }, "src", "dst")
		if c.says != "" {
			if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says) || open["src"].open+open["dst"].open != 0 {
				t.Errorf("%v and %v: %v", c.src, c.dst, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := all(t, p, 6)
		if want := []string{"0→3", "1→4", "2→5"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
	}
}

// TestOneFails reads vectors of which one has fewer elements than it says.
func TestOneFails(t *testing.T) {
	for _, short := range []string{"src", "dst"} {
		open := map[string]*arrays{"src": {elements: []int64{0, 1, 2}, shape: []int64{3}}, "dst": {elements: []int64{3, 4, 5}, shape: []int64{3}}}
		open[short].elements = open[short].elements[:2]
		p, err := stream.TwoVectors(func(key string) (*npz.Array, error) { return open[key].array() }, "src", "dst")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := all(t, p, 6); !errors.Is(err, fault.ErrInput) || open["src"].open+open["dst"].open != 0 {
			t.Errorf("%s is short: %v", short, err)
		}
	}
}

// TestReadFails fails every read of an archive whose elements are read twice at a time.
func TestReadFails(t *testing.T) {
	const n = 20_000
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.CreateHeader(&zip.FileHeader{Name: "k.npy", Method: zip.Store})
	if err == nil {
		_, err = w.Write(importertest.NPY(fmt.Sprintf("(2, %d)", n), make([]int64, 2*n)))
	}
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "x.npz")
	importertest.Save(t, name, b.Bytes())
	for i := 0; ; i++ {
		fail := &vfs.FailAt{N: i, Err: errBoom, Match: func(op vfs.Op, _ string) bool { return op == vfs.OpRead }}
		files := importertest.NewFiles(vfs.OS)
		p, err := stream.TwoRows(func() (*npz.Array, error) { return npz.OpenMember(vfs.Inject(files, fail), name, "k") })
		var got []string
		if err == nil {
			got, err = all(t, p, 1)
		}
		if open := files.StillOpen(); len(open) > 0 {
			t.Errorf("%v: %d files are open", fail, len(open))
		}
		if !fail.Fired() {
			if err != nil || len(got) != n || i < 10 {
				t.Errorf("%d edges after %d reads, %v", len(got), i, err)
			}
			break
		}
		if err == nil {
			t.Errorf("%v: %d edges", fail, len(got))
		}
	}
}

// slow is an array whose elements come once they are released.
type slow struct {
	release chan struct{}
	closed  *int
}

func (s slow) Read(b []byte) (int, error) {
	<-s.release
	clear(b)
	return len(b), nil
}

func (s slow) Close() error { *s.closed++; return nil }

// TestCloseWaits closes arrays once they are not read any more.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := 0
		s := slow{make(chan struct{}), &closed}
		p, err := stream.TwoRows(func() (*npz.Array, error) {
			h, err := npy.Describe("i8", 2, 3)
			return npz.New(h, s, "x", s), err
		})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		go func() { _ = p.Close() }()
		if synctest.Wait(); closed != 0 {
			t.Errorf("%d arrays were closed while they were read", closed)
		}
		close(s.release)
		if synctest.Wait(); closed != 2 {
			t.Errorf("%d arrays were closed", closed)
		}
	})
}

// TestChecksum notices behind the last edge that the elements of an archive are not those that it
// was made of.
func TestChecksum(t *testing.T) {
	write := func(name, shape string, wrong bool) {
		array := importertest.NPY(shape, []int64{0, 1, 2, 3})
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		h := &zip.FileHeader{Name: "k.npy", CRC32: crc32.ChecksumIEEE(array), CompressedSize64: uint64(len(array)), UncompressedSize64: uint64(len(array))}
		if wrong {
			h.CRC32++
		}
		w, err := z.CreateRaw(h)
		if err == nil {
			_, err = w.Write(array)
		}
		if err = errors.Join(err, z.Close()); err != nil {
			t.Fatal(err)
		}
		importertest.Save(t, name, b.Bytes())
	}
	dir := t.TempDir()
	for wrong := range 3 { // 0: neither
		src, dst := filepath.Join(dir, "src.npz"), filepath.Join(dir, "dst.npz")
		write(src, "(4,)", wrong == 1)
		write(dst, "(4,)", wrong == 2)
		p, err := stream.TwoVectors(func(name string) (*npz.Array, error) { return npz.OpenMember(vfs.OS, name, "k") }, src, dst)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := all(t, p, 4); len(got) != 4 || (err == nil) != (wrong == 0) || wrong > 0 && !errors.Is(err, fault.ErrInput) {
			t.Errorf("vectors, wrong is %d: %v, %v", wrong, got, err)
		}
		if wrong == 2 {
			break
		}
		write(src, "(2, 2)", wrong == 1)
		if p, err = stream.TwoRows(func() (*npz.Array, error) { return npz.OpenMember(vfs.OS, src, "k") }); err != nil {
			t.Fatal(err)
		}
		if got, err := all(t, p, 4); len(got) != 2 || (err == nil) != (wrong == 0) || wrong > 0 && !errors.Is(err, fault.ErrInput) {
			t.Errorf("rows, wrong is %d: %v, %v", wrong, got, err)
		}
	}
}

func TestInterleave(t *testing.T) {
	a := &arrays{elements: []int64{0, 10, 1, 11, 2, 12}, shape: []int64{3, 2}}
	array, err := a.array()
	if err != nil {
		t.Fatal(err)
	}
	got, err := all(t, stream.Interleave(npz.NewInts(array)), 13)
	if want := []string{"0→10", "1→11", "2→12"}; err != nil || !slices.Equal(got, want) || a.open != 0 {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

// TestInterleaveParts reads three edges two at a time, and more than are read at once.
func TestInterleaveParts(t *testing.T) {
	open := func(elements ...int64) stream.Pairs {
		a := &arrays{elements: elements, shape: []int64{int64(len(elements))}}
		array, err := a.array()
		if err != nil {
			t.Fatal(err)
		}
		return stream.Interleave(npz.NewInts(array))
	}
	p := open(0, 10, 1, 11, 2, 12)
	dst, src := make([]int64, 2), make([]int64, 2)
	for _, want := range []string{"[0 1] [10 11]", "[2] [12]", "[] []"} {
		n, err := p.Next(dst, src)
		if got := fmt.Sprint(src[:n], dst[:n]); err != nil || got != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
	const n = 20_000
	many := make([]int64, 2*n)
	for i := range many {
		many[i] = int64(i)
	}
	p = open(many...)
	dst, src = make([]int64, n), make([]int64, n)
	for at := 0; at < n; {
		k, err := p.Next(dst, src)
		if err != nil || k == 0 {
			t.Fatalf("%d of %d edges, %v", at, n, err)
		}
		for i := range k {
			if src[i] != int64(2*(at+i)) || dst[i] != src[i]+1 {
				t.Fatalf("edge %d is %d→%d", at+i, src[i], dst[i])
			}
		}
		at += k
	}
}

// TestEachStops ends with the context, and with what add returns.
func TestEachStops(t *testing.T) {
	each := func(ctx context.Context, add func(dst, src []int64) error) error {
		a := &arrays{elements: []int64{0, 1, 2, 10, 11, 12}, shape: []int64{2, 3}}
		p, err := stream.TwoRows(a.array)
		if err != nil {
			t.Fatal(err)
		}
		return errors.Join(stream.EachPair(ctx, "x", p, 13, add), p.Close())
	}
	if err := each(t.Context(), func(_, _ []int64) error { return errBoom }); !errors.Is(err, errBoom) {
		t.Errorf("not added: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := each(ctx, func(_, _ []int64) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestClosedEarly closes streams of which little was read.
func TestClosedEarly(t *testing.T) {
	const n = 150_000
	for _, read := range []bool{false, true} {
		a := &arrays{elements: make([]int64, 2*n), shape: []int64{2, n}}
		p, err := stream.TwoRows(a.array)
		if err != nil {
			t.Fatal(err)
		}
		if read {
			if _, err := p.Next(make([]int64, 1), make([]int64, 1)); err != nil {
				t.Error(err)
			}
		}
		if err := p.Close(); err != nil || a.open != 0 {
			t.Errorf("%v, %d arrays are open", err, a.open)
		}
	}
}

func TestCheckSources(t *testing.T) {
	leaves := func(src int64) error { return fmt.Errorf("%d leaves: %w", src, errBoom) }
	for _, c := range []struct {
		elements []int64
		want     error
	}{
		{[]int64{0, 1, 2, 99, 99, 99}, nil}, {[]int64{0, 1, 3, 0, 0, 0}, errBoom}, {[]int64{-1, 1, 2, 0, 0, 0}, errBoom}, {[]int64{0, 1}, fault.ErrInput},
	} {
		a := &arrays{elements: c.elements, shape: []int64{2, 3}}
		array, err := a.array()
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.CheckSources(array, 3, leaves); !errors.Is(err, c.want) || a.open != 0 {
			t.Errorf("%v: %v, want %v", c.elements, err, c.want)
		}
	}
}
