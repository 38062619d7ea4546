package names

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

func spreadOf(t *testing.T, buckets int) *spread {
	t.Helper()
	s, err := newSpread(vfs.OS, in(vfstest.TempDir(t))("x"), buckets, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.close(), s.close()); err != nil { // the second time nothing is left to be done
			t.Error(err)
		}
	})
	return s
}

// TestSpread adds records of 990 bytes to three buckets by turns and some to a fourth: 16 of them,
// with their heads of 10 bytes, fill a buffer but for 384 bytes, and one more of 374 does so to the
// byte.
func TestSpread(t *testing.T) {
	s := spreadOf(t, 5)
	record := func(i uint64) []byte { return slices.Repeat([]byte{byte(i)}, 990) }
	for i := range uint64(120) {
		if err := s.add(int(i%3), i, record(i)); err != nil {
			t.Fatal(err)
		}
		if b := s.buckets[i%3].buf; cap(b) != leastBlock {
			t.Fatalf("a buffer of %d bytes after %d records", cap(b), i+1)
		}
	}
	for i := range uint64(18) {
		r := record(i)
		if i == 16 {
			r = r[:374]
		}
		if err := s.add(3, 1000+i, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.flush(); err != nil {
		t.Fatal(err)
	}
	var sizes [][]uint32
	for _, b := range s.buckets {
		var of []uint32
		for _, k := range b.blocks {
			of = append(of, k.size)
		}
		if sizes = append(sizes, of); b.buf != nil {
			t.Error("a buffer is held after the adding")
		}
	}
	if got := fmt.Sprint(sizes); got != "[[16000 16000 8000] [16000 16000 8000] [16000 16000 8000] [16384 1000] []]" {
		t.Errorf("blocks of %s bytes", got)
	}
	for b := range 3 {
		want := uint64(b)
		if err := s.each(t.Context(), b, func(place uint64, r []byte) error {
			if place != want || !slices.Equal(r, record(place)) {
				return fmt.Errorf("place %d instead of %d, %d bytes", place, want, len(r))
			}
			want += 3
			return nil
		}); err != nil || want != 120+uint64(b) {
			t.Errorf("bucket %d: up to %d, %v", b, want, err)
		}
	}
	n := uint64(0)
	if err := s.merge(t.Context(), func(b int, place uint64, r []byte) error {
		want, bucket := n, int(n%3)
		if n >= 120 {
			want, bucket = n+1000-120, 3
		}
		n++
		if place != want || b != bucket || len(r) != 990 && place != 1016 {
			return fmt.Errorf("place %d of bucket %d instead of %d of %d", place, b, want, bucket)
		}
		return nil
	}); err != nil || n != 138 {
		t.Errorf("%d records, %v", n, err)
	}
}

// TestSpreadMerges merges as many buckets as there are numbers of records: 1, 2 … 9.
func TestSpreadMerges(t *testing.T) {
	for buckets := 1; buckets < 10; buckets++ {
		s := spreadOf(t, buckets)
		var want []uint64
		for i := range uint64(40) {
			place := i * i // of unequal steps, so that buckets end one after the other
			if err := s.add(int(i*7%11)%buckets, place, nil); err != nil {
				t.Fatal(err)
			}
			want = append(want, place)
		}
		if err := s.flush(); err != nil {
			t.Fatal(err)
		}
		var got []uint64
		if err := s.merge(t.Context(), func(_ int, place uint64, _ []byte) error {
			got = append(got, place)
			return nil
		}); err != nil || !slices.Equal(got, want) {
			t.Errorf("%d buckets: %d, %v", buckets, got, err)
		}
	}
}

// TestSpreadStops ends with the context, with what is returned, and with what is not as it was
// written.
func TestSpreadStops(t *testing.T) {
	s := spreadOf(t, 1)
	for i := range uint64(20) {
		if err := s.add(0, i, make([]byte, 990)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.flush(); err != nil {
		t.Fatal(err)
	}
	both := func(ctx context.Context, err error) (each, merge error) {
		return s.each(ctx, 0, func(uint64, []byte) error { return err }), s.merge(ctx, func(int, uint64, []byte) error { return err })
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if each, merge := both(done, nil); !errors.Is(each, context.Canceled) || !errors.Is(merge, context.Canceled) {
		t.Errorf("cancelled: %v, %v", each, merge)
	}
	boom := errors.New("boom")
	if each, merge := both(t.Context(), boom); !errors.Is(each, boom) || !errors.Is(merge, boom) {
		t.Errorf("%v, %v", each, merge)
	}
	block := &s.buckets[0].blocks[1]
	block.crc ^= 1
	if each, merge := both(t.Context(), nil); !errors.Is(each, fault.ErrCorrupt) || !errors.Is(merge, fault.ErrCorrupt) || !strings.Contains(each.Error(), "x: bytes 16000 to 20000 do not match") {
		t.Errorf("changed: %v, %v", each, merge)
	}
	block.off++
	if each, merge := both(t.Context(), nil); !errors.Is(each, fault.ErrCorrupt) || !errors.Is(merge, fault.ErrCorrupt) || !strings.Contains(each.Error(), "x: bytes 16001 to 20001: the file shrank") {
		t.Errorf("cut: %v, %v", each, merge)
	}
}

// TestList writes two blocks and a half, and reads them twice.
func TestList(t *testing.T) {
	l, err := NewList(vfs.OS, in(vfstest.TempDir(t))("x"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const n = 2*listBlock + listBlock/2
	for i := range uint32(n) {
		if err := l.Add(i); err != nil {
			t.Fatal(err)
		}
	}
	if cap(l.buf) != listBlock {
		t.Errorf("a buffer of %d numbers", cap(l.buf))
	}
	if err := l.Done(); err != nil || l.Len() != n || l.buf != nil {
		t.Errorf("%d numbers, a buffer of %d, %v", l.Len(), cap(l.buf), err)
	}
	for range 2 {
		at, pieces := uint32(0), 0
		if err := l.Each(t.Context(), func(numbers []uint32) error {
			pieces++
			for _, v := range numbers {
				if v != at {
					return fmt.Errorf("%d instead of %d", v, at)
				}
				at++
			}
			return nil
		}); err != nil || at != n || pieces != 3 {
			t.Errorf("%d numbers in %d pieces, %v", at, pieces, err)
		}
	}
	none := func([]uint32) error { return nil }
	boom := errors.New("boom")
	if err := l.Each(t.Context(), func([]uint32) error { return boom }); !errors.Is(err, boom) {
		t.Error(err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Each(done, none); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := l.f.WriteAt(binary.LittleEndian.AppendUint32(nil, 1), 4*listBlock); err != nil {
		t.Fatal(err)
	}
	if err := l.Each(t.Context(), none); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "x: bytes 131072 to 262144 do not match") {
		t.Errorf("changed: %v", err)
	}
	if err := l.f.Truncate(4*listBlock + 1); err != nil {
		t.Fatal(err)
	}
	if err := l.Each(t.Context(), none); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "x: bytes 131072 to 262144: the file shrank") {
		t.Errorf("cut: %v", err)
	}
}

// TestListShort has no number, or one.
func TestListShort(t *testing.T) {
	for n := range 2 {
		l, err := NewList(vfs.OS, in(vfstest.TempDir(t))("x"))
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			if err := l.Add(7); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Done(); err != nil {
			t.Fatal(err)
		}
		var got []uint32
		if err := l.Each(t.Context(), func(numbers []uint32) error { got = append(got, numbers...); return nil }); err != nil || len(got) != n || n == 1 && got[0] != 7 {
			t.Errorf("%d, %v", got, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
