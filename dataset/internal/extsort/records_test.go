package extsort

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
func TestRecordOrder(t *testing.T) {
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
		s, err := NewRecords(vfs.OS, filepath.Join(dir, "scratch"), RecordOptions{Records: int64(n), Bytes: total, Memory: LeastRecords + rapid.Int64Range(0, 16<<20).Draw(rt, "memory"), Hidden: rapid.Bool().Draw(rt, "hidden")})
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

func sorted(t *testing.T, name string, o RecordOptions, places ...uint32) (*Records, error) {
	t.Helper()
	s, err := NewRecords(vfs.OS, name, o)
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

func TestRecordRefuses(t *testing.T) {
	name := filepath.Join(vfstest.TempDir(t), "scratch")
	if _, err := sorted(t, name, RecordOptions{Records: 3, Memory: LeastRecords - 1}); !errors.Is(err, fault.ErrBudget) {
		t.Error(err)
	}
	if _, err := sorted(t, name, RecordOptions{Records: 3, Memory: LeastRecords}, 0, 3); err == nil {
		t.Error("place 3 of 3")
	}
	next := func(s *Records, err error) error {
		for err == nil {
			_, err = s.Next()
		}
		return err
	}
	var twice *Twice
	if err := next(sorted(t, name, RecordOptions{Records: 3, Memory: LeastRecords}, 0, 2, 1, 2)); !errors.As(err, &twice) || twice.Place != 2 || twice.None {
		t.Error(err)
	}
	if err := next(sorted(t, name, RecordOptions{Records: 3, Memory: LeastRecords}, 0, 2)); !errors.As(err, &twice) || twice.Place != 1 || !twice.None {
		t.Error(err)
	}
	if err := next(sorted(t, name, RecordOptions{Records: 3, Memory: LeastRecords}, 1, 2)); !errors.As(err, &twice) || twice.Place != 0 || !twice.None {
		t.Error(err)
	}
	// One bucket that is larger than what is allowed: the guess was wrong.
	s, err := NewRecords(vfs.OS, name, RecordOptions{Records: 300, Memory: LeastRecords})
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
func TestRecordDamaged(t *testing.T) {
	for _, damage := range []func(f *os.File) error{
		func(f *os.File) error { _, err := f.WriteAt([]byte{9}, 11); return err },
		func(f *os.File) error { return f.Truncate(5) },
	} {
		name := filepath.Join(vfstest.TempDir(t), "scratch")
		s, err := sorted(t, name, RecordOptions{Records: 3, Memory: LeastRecords}, 2, 0, 1)
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

func TestManyRecordBuckets(t *testing.T) {
	s, err := NewRecords(vfs.OS, filepath.Join(vfstest.TempDir(t), "scratch"), RecordOptions{Records: 5000, Bytes: 5000 * 4000, Memory: LeastRecords})
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

// TestBuckets has buckets of which two fill the memory, and buffers that fill half of it.
func TestRecordBuckets(t *testing.T) {
	const mib = 1 << 20
	dir := vfstest.TempDir(t)
	for _, c := range []struct {
		o       RecordOptions
		span    int64
		buckets int
		buffer  int
	}{
		{RecordOptions{Records: 0, Memory: mib}, 1, 1, 512 << 10},
		{RecordOptions{Records: 3, Memory: mib}, 2, 2, 256 << 10},
		{RecordOptions{Records: 1000, Bytes: mib/2 - 20_000, Memory: mib}, 500, 2, 256 << 10},
		{RecordOptions{Records: 1000, Bytes: mib/2 - 20_000 + 1, Memory: mib}, 334, 3, 512 << 10 / 3}, // of 20 bytes a record beside its own
		{RecordOptions{Records: 1000, Bytes: mib - 20_000, Memory: mib}, 334, 3, 512 << 10 / 3},
		{RecordOptions{Records: 1000, Bytes: mib - 20_000 + 1, Memory: mib}, 250, 4, 128 << 10},
		{RecordOptions{Records: 2, Bytes: 1 << 40, Memory: mib}, 1, 2, 256 << 10},                // a record each
		{RecordOptions{Records: 1 << 20, Bytes: 1 << 40, Memory: mib}, 8192, 128, 4096},          // the least buffer
		{RecordOptions{Records: 1 << 20, Bytes: 1 << 50, Memory: 1 << 30}, 256, 4096, 128 << 10}, // the most buckets
		{RecordOptions{Records: 4, Memory: 1 << 30}, 2, 2, 8 << 20},                              // the most buffer
	} {
		s, err := NewRecords(vfs.OS, filepath.Join(dir, "scratch"), c.o)
		if err != nil {
			t.Fatal(err)
		}
		if s.span != c.span || len(s.buckets) != c.buckets || s.buffer != c.buffer {
			t.Errorf("%+v: %d buckets of %d places, buffers of %d bytes; want %d, %d, %d", c.o, len(s.buckets), s.span, s.buffer, c.buckets, c.span, c.buffer)
		}
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestBlocks fills a buffer to the byte, and writes a record by itself that is a byte longer.
func TestRecordBlocks(t *testing.T) {
	s, err := NewRecords(vfs.OS, filepath.Join(vfstest.TempDir(t), "scratch"), RecordOptions{Records: 6, Memory: LeastRecords})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	lengths := []int{s.buffer - 16, 0, 5, s.buffer - 7, 1, 0} // three places a bucket; the first two fill a buffer
	for v, n := range lengths {
		if err := s.Add(uint32(v), bytes.Repeat([]byte{byte(v)}, n)); err != nil {
			t.Fatal(err)
		}
		if c := cap(s.buckets[v/3].buf); c != s.buffer {
			t.Errorf("a buffer of %d bytes after record %d, want %d", c, v, s.buffer)
		}
	}
	if s.Added() != 6 {
		t.Errorf("%d were added", s.Added())
	}
	if err := s.Start(0); err != nil {
		t.Fatal(err)
	}
	b, total := int64(s.buffer), int64(0)
	var got [][]int64
	for _, k := range s.buckets {
		if k.buf != nil {
			t.Error("a buffer is held while rows are put in order")
		}
		got = append(got, nil)
		for _, x := range k.blocks {
			got[len(got)-1] = append(got[len(got)-1], x.Bytes())
			total += x.Bytes()
		}
	}
	if want := fmt.Sprint([][]int64{{b, 13}, {b + 1, 17}}); fmt.Sprint(got) != want || total != RecordBytes(6, 2*b-17) {
		t.Errorf("%v, want %s; %d bytes in all", got, want, total)
	}
	for v, n := range lengths {
		if r, err := s.Next(); err != nil || !bytes.Equal(r, bytes.Repeat([]byte{byte(v)}, n)) {
			t.Errorf("record %d has %d bytes, %v", v, len(r), err)
		}
	}
}

// TestFailures fails every operation on the scratch file in turn.
func TestRecordFailures(t *testing.T) {
	boom := errors.New("boom")
	for _, hidden := range []bool{false, true} {
		for n := 0; ; n++ {
			fail := &vfs.FailAt{N: n, Err: boom, Match: func(vfs.Op, string) bool { return true }}
			err := func() (err error) {
				s, err := NewRecords(vfs.Inject(vfs.OS, fail), filepath.Join(vfstest.TempDir(t), "scratch"), RecordOptions{Records: 6, Memory: LeastRecords, Hidden: hidden})
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, s.Close()) }()
				for v, n := range []int{10, s.buffer, s.buffer - 20, 100, 0, 0} { // by itself, after what is before it, and in the end
					if err := s.Add(uint32(v), make([]byte, n)); err != nil {
						return err
					}
				}
				if err := s.Start(0); err != nil {
					return err
				}
				for range 6 {
					if _, err := s.Next(); err != nil {
						return err
					}
				}
				return nil
			}()
			if !fail.Fired() {
				if err != nil || n < 8 {
					t.Errorf("%v after %d operations", err, n)
				}
				break
			}
			if !errors.Is(err, boom) {
				t.Errorf("hidden %v, %v: %v", hidden, fail, err)
			}
		}
	}
}

// TestMemoryIsEnough puts two rows in order that take all memory, with 20 bytes for each beside
// them, and refuses a byte more. A single row may take more.
func TestRecordMemoryIsEnough(t *testing.T) {
	for more, says := range map[int]string{0: "", 1: "ordering rows 2 to 3 needs 1.0 MiB of memory, but only 1.0 MiB are allowed"} {
		s, err := NewRecords(vfs.OS, filepath.Join(vfstest.TempDir(t), "scratch"), RecordOptions{Records: 5, Memory: LeastRecords})
		if err != nil {
			t.Fatal(err)
		}
		s.span, s.buckets = 2, make([]recordBucket, 3)
		for v, n := range []int{1, 1, LeastRecords/2 - 40, LeastRecords/2 + more, 2 * LeastRecords} {
			if err := s.Add(uint32(v), make([]byte, n)); err != nil {
				t.Fatal(err)
			}
		}
		rows := 0
		for err = s.Start(0); err == nil; {
			if _, err = s.Next(); err == nil {
				rows++
			}
		}
		if says == "" && (rows != 5 || !errors.Is(err, io.EOF)) || says != "" && (rows != 2 || !errors.Is(err, fault.ErrBudget) || err.Error() != says) {
			t.Errorf("%d bytes more: %d rows, %v", more, rows, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Added returns the number of records so far.
func (s *Records) Added() int64 { return s.added }
