package pieces_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"diskgnn/device"
	"diskgnn/internal/errgroup"
	"diskgnn/iostack"
	"diskgnn/iostack/pieces"
	"diskgnn/iostack/pread"
)

const most = 5000 // more than a page, and no multiple of it

// file is one whose pieces hold their own number; those of a "compressed" one are stored as
// the bytes' complement.
type file struct {
	path       string
	count      int
	compressed bool
	wrong      map[int]error // what Decode answers
}

func newFile(t *testing.T, count int, compressed bool) *file {
	t.Helper()
	f := &file{path: filepath.Join(t.TempDir(), "pieces"), count: count, compressed: compressed}
	var all []byte
	for i := range count {
		all = append(all, f.stored(i)...)
	}
	if err := os.WriteFile(f.path, all, 0o666); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *file) content(i int) []byte { return bytes.Repeat([]byte{byte(i)}, most-i) }

func (f *file) stored(i int) []byte {
	b := f.content(i)
	for k := range b {
		if f.compressed {
			b[k] = ^b[k]
		}
	}
	return b
}

func (f *file) Path() string     { return f.path }
func (f *file) Compressed() bool { return f.compressed }
func (f *file) Piece(i int) (offset, size int64) {
	for k := range i {
		offset += most - int64(k)
	}
	return offset, most - int64(i)
}

func (f *file) Decode(i int, b, dst []byte) ([]byte, error) {
	if err := f.wrong[i]; err != nil {
		return nil, err
	}
	if !f.compressed {
		return b, nil
	}
	dst = dst[:len(b)]
	for k := range b {
		dst[k] = ^b[k]
	}
	return dst, nil
}

func open(t *testing.T, f *file) *pieces.Reader {
	t.Helper()
	stack, err := pread.New(iostack.Options{Workers: 4, MaxIO: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stack.Close() })
	before := device.HostBytes()
	b, err := pieces.NewBuffers(most, f.compressed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Free)
	if took := device.HostBytes() - before; took < pieces.Memory(most, f.compressed) {
		t.Errorf("%d bytes were taken, %d planned", took, pieces.Memory(most, f.compressed))
	}
	r, err := pieces.Open(stack, f, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// counting names the pieces from lo below hi.
func counting(lo, hi int) func() (int, bool) {
	return func() (int, bool) {
		lo++
		return lo - 1, lo <= hi
	}
}

// TestRead: every piece that is named arrives once, whole; readings at the same time share
// the buffers, each of which one piece holds at a time.
func TestRead(t *testing.T) {
	for _, compressed := range []bool{false, true} {
		f := newFile(t, 40, compressed)
		r := open(t, f)
		var mu sync.Mutex
		var held [pieces.Depth]bool
		seen := make(map[int]int)
		var g errgroup.Group
		for k := range 4 {
			g.Go(func() error {
				return r.Read(context.Background(), counting(10*k, 10*k+10), func(p *pieces.Piece) error {
					mu.Lock()
					if held[p.Buffer] {
						t.Errorf("two pieces in buffer %d", p.Buffer)
					}
					held[p.Buffer] = true
					seen[p.Index]++
					mu.Unlock()
					b, err := p.Decode()
					if !bytes.Equal(b, f.content(p.Index)) {
						t.Errorf("piece %d holds something else", p.Index)
					}
					mu.Lock()
					held[p.Buffer] = false
					mu.Unlock()
					return err
				})
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			if seen[i] != 1 {
				t.Errorf("piece %d was used %d times", i, seen[i])
			}
		}
		if end, size := f.Piece(39); r.Bytes() != end+size {
			t.Errorf("%d bytes read, of %d", r.Bytes(), end+size)
		}
	}
}

// TestReadFails: the first error ends the reading and is returned, and the buffers serve the
// next one.
func TestReadFails(t *testing.T) {
	f := newFile(t, 40, false)
	r := open(t, f)
	wrong := errors.New("wrong")
	f.wrong = map[int]error{7: wrong}
	decode := func(p *pieces.Piece) error {
		_, err := p.Decode()
		return err
	}
	if err := r.Read(context.Background(), counting(0, 40), decode); !errors.Is(err, wrong) {
		t.Errorf("a wrong piece: %v", err)
	}
	f.wrong = nil
	if err := r.Read(context.Background(), counting(39, 41), decode); err == nil {
		t.Error("a piece beyond the file was read")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Read(ctx, func() (int, bool) { return 0, true }, decode); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := r.Read(context.Background(), counting(0, 40), decode); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if err := r.Read(context.Background(), counting(0, 0), decode); err != nil {
		t.Errorf("no piece: %v", err)
	}
}
