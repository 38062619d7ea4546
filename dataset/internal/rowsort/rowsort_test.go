package rowsort

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/fault"
	"diskgnn/internal/rng"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

// TestOrder puts records of all lengths in order, from any place on.
func TestOrder(t *testing.T) {
	dir := vfstest.TempDir(t)
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 2000).Draw(rt, "records")
		most := rapid.SampledFrom([]int{0, 1, 100, 3000}).Draw(rt, "bytes")
		src := rng.New(rapid.Uint64().Draw(rt, "seed"))
		records, order := make([][]byte, n), make([]uint32, n)
		total := int64(0)
		for i := range records {
			records[i] = bytes.Repeat([]byte{byte(i), byte(i >> 8), 7}, int(src.Uint64n(uint64(most)+1)))
			total += int64(len(records[i]))
			j := int(src.Uint64n(uint64(i) + 1))
			order[i], order[j] = order[j], uint32(i)
		}
		first := int64(0)
		if n > 0 {
			first = rapid.Int64Range(0, int64(n-1)).Draw(rt, "first")
		}
		s, err := New(vfs.OS, filepath.Join(dir, "scratch"), Options{Records: int64(n), Bytes: total, Memory: Least + rapid.Int64Range(0, 16<<20).Draw(rt, "memory"), Hidden: rapid.Bool().Draw(rt, "hidden")})
		if err != nil {
			rt.Fatal(err)
		}
		for _, v := range order {
			if int64(v) < first { // what is not asked for need not be there
				continue
			}
			if err := s.Add(v, records[v]); err != nil {
				rt.Fatal(err)
			}
		}
		if err := s.Start(first); err != nil {
			rt.Fatal(err)
		}
		for v := first; v < int64(n); v++ {
			if got, err := s.Next(); err != nil || !bytes.Equal(got, records[v]) {
				rt.Fatalf("record %d: % x, %v", v, got, err)
			}
		}
		if _, err := s.Next(); !errors.Is(err, io.EOF) {
			rt.Error(err)
		}
		if err := s.Close(); err != nil {
			rt.Error(err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			rt.Error("the scratch file was left")
		}
	})
}

func sorted(t *testing.T, name string, o Options, places ...uint32) (*Sorter, error) {
	t.Helper()
	s, err := New(vfs.OS, name, o)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = s.Close() })
	for _, p := range places {
		if err := s.Add(p, []byte(fmt.Sprint(p))); err != nil {
			return s, err
		}
	}
	return s, s.Start(0)
}

func TestRefuses(t *testing.T) {
	name := filepath.Join(vfstest.TempDir(t), "scratch")
	if _, err := sorted(t, name, Options{Records: 3, Memory: Least - 1}); !errors.Is(err, fault.ErrBudget) {
		t.Error(err)
	}
	if _, err := sorted(t, name, Options{Records: 3, Memory: Least}, 0, 3); err == nil {
		t.Error("place 3 of 3")
	}
	next := func(s *Sorter, err error) error {
		for err == nil {
			_, err = s.Next()
		}
		return err
	}
	var twice *Twice
	if err := next(sorted(t, name, Options{Records: 3, Memory: Least}, 0, 2, 1, 2)); !errors.As(err, &twice) || twice.Place != 2 || twice.None {
		t.Error(err)
	}
	if err := next(sorted(t, name, Options{Records: 3, Memory: Least}, 0, 2)); !errors.As(err, &twice) || twice.Place != 1 || !twice.None {
		t.Error(err)
	}
	if err := next(sorted(t, name, Options{Records: 3, Memory: Least}, 1, 2)); !errors.As(err, &twice) || twice.Place != 0 || !twice.None {
		t.Error(err)
	}
	// One bucket that is larger than what is allowed: the guess was wrong.
	s, err := New(vfs.OS, name, Options{Records: 300, Memory: Least})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for v := range uint32(300) {
		if err := s.Add(v, make([]byte, 9000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := next(s, s.Start(0)); !errors.Is(err, fault.ErrBudget) {
		t.Error(err)
	}
}

// TestDamaged changes or cuts the scratch file.
func TestDamaged(t *testing.T) {
	for _, damage := range []func(f *os.File) error{
		func(f *os.File) error { _, err := f.WriteAt([]byte{9}, 11); return err },
		func(f *os.File) error { return f.Truncate(5) },
	} {
		name := filepath.Join(vfstest.TempDir(t), "scratch")
		s, err := sorted(t, name, Options{Records: 3, Memory: Least}, 2, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(damage(f), f.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Next(); !errors.Is(err, fault.ErrCorrupt) {
			t.Error(err)
		}
	}
}

func TestManyBuckets(t *testing.T) {
	s, err := New(vfs.OS, filepath.Join(vfstest.TempDir(t), "scratch"), Options{Records: 5000, Bytes: 5000 * 4000, Memory: Least})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if len(s.buckets) < 10 {
		t.Errorf("%d buckets", len(s.buckets))
	}
	for v := range 5000 {
		place := uint32(v * 1237 % 5000)
		if err := s.Add(place, slices.Repeat([]byte{byte(place)}, 4000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Start(0); err != nil {
		t.Fatal(err)
	}
	for v := range 5000 {
		if b, err := s.Next(); err != nil || len(b) != 4000 || b[3999] != byte(v) {
			t.Fatalf("%d: %v", v, err)
		}
	}
}
