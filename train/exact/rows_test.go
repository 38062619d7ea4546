package exact

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/dataset"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/iostack/pieces"
)

// plainTable is a file in pieces of a few bytes.
type plainTable struct {
	path    string
	size    int64
	granule int64
}

func (t *plainTable) Path() string     { return t.path }
func (t *plainTable) Compressed() bool { return false }

func (t *plainTable) Piece(i int) (offset, size int64) {
	offset = int64(i) * t.granule
	return offset, min(t.granule, t.size-offset)
}

func (t *plainTable) Decode(_ int, b, _ []byte) ([]byte, error) { return b, nil }

// Any rows arrive whole, wherever the borders of the pieces lie; pieces without them
// are not read.
func TestRows(t *testing.T) {
	stack, _, err := all.Open("pread", iostack.Options{Direct: iostack.DirectNever})
	check(t, err)
	defer stack.Close()
	w, err := pieces.NewBuffers(dataset.Granule, false)
	check(t, err)
	defer w.Free()
	path := filepath.Join(t.TempDir(), "table")
	rapid.Check(t, func(t *rapid.T) {
		rows, dim := rapid.IntRange(1, 60).Draw(t, "rows"), rapid.IntRange(1, 9).Draw(t, "dim")
		typ := rapid.SampledFrom([]dtype.Type{dtype.Float32, dtype.Float16}).Draw(t, "dtype")
		l := layout{4 * rapid.Int64Range(1, 40).Draw(t, "granule"), dim, typ}
		wide := make([]float32, rows*dim)
		for i := range wide {
			wide[i] = float32(i%2000) / 4
		}
		content := make([]byte, len(wide)*typ.Size())
		dtype.Convert(content, typ, binio.Bytes(wide), dtype.Float32)
		check(t, os.WriteFile(path, content, 0o666))
		var ids []uint32
		for v := range uint32(rows) {
			if rapid.Bool().Draw(t, "in") {
				ids = append(ids, v)
			}
		}
		table := &plainTable{path, int64(len(content)), l.granule}
		r, err := newRowReader(stack, table, l, w)
		check(t, err)
		defer r.Close()
		x := make([]float32, len(ids)*dim)
		check(t, r.read(context.Background(), ids, x))
		touched := make(map[int64]bool)
		for i, v := range ids {
			if !slices.Equal(x[i*dim:(i+1)*dim], wide[int(v)*dim:int(v+1)*dim]) {
				t.Fatalf("row %d is %v", v, x[i*dim:(i+1)*dim])
			}
			for b := int64(v) * l.rowBytes(); b < int64(v+1)*l.rowBytes(); b++ {
				touched[b/l.granule] = true
			}
		}
		want := int64(0)
		for p := range touched {
			_, size := table.Piece(int(p))
			want += size
		}
		if got := r.Bytes(); got != want {
			t.Fatalf("%d bytes read, want %d", got, want)
		}
	})
}

// A wrong byte in a state is found when it is read.
func TestStateIsChecked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run"+scratchSuffix)
	s, err := openScratch(disk, dir, 1<<20)
	check(t, err)
	st, err := s.create(0, 3)
	check(t, err)
	rows := make([]float32, 3*100_000)
	for i := range rows {
		rows[i] = float32(i)
	}
	check(t, st.write(context.Background(), rows[:7*3]))
	check(t, st.write(context.Background(), rows[7*3:]))
	check(t, st.finish())
	stack, _, err := all.Open("pread", iostack.Options{})
	check(t, err)
	defer stack.Close()
	w, err := pieces.NewBuffers(dataset.Granule, false)
	check(t, err)
	defer w.Free()
	read := func(ids ...uint32) ([]float32, error) {
		r, err := newRowReader(stack, st, st.layout(), w)
		check(t, err)
		defer r.Close()
		x := make([]float32, 3*len(ids))
		return x, r.read(context.Background(), ids, x)
	}
	x, err := read(0, 21_845, 99_999) // one of them lies across a border
	if err != nil || !slices.Equal(x, []float32{0, 1, 2, 65535, 65536, 65537, 299997, 299998, 299999}) {
		t.Errorf("%v, %v", x, err)
	}
	b, err := os.ReadFile(st.path)
	check(t, err)
	b[stateGranule+5] ^= 1
	check(t, os.WriteFile(st.path, b, 0o666))
	if _, err := read(0); err != nil {
		t.Errorf("a row beside the wrong byte: %v", err)
	}
	if _, err := read(30_000); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a row in the piece of the wrong byte: %v", err)
	}
	check(t, s.close())
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory is still there")
	}
}

// A directory that something else lies in, or that somebody uses, is left alone; what
// a crash left is not in the way.
func TestScratchDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run"+scratchSuffix)
	check(t, os.Mkdir(dir, 0o777))
	check(t, os.WriteFile(filepath.Join(dir, "layer-3"), []byte("left"), 0o666))
	check(t, os.WriteFile(filepath.Join(dir, "lock"), nil, 0o666))
	s, err := openScratch(disk, dir, 0)
	check(t, err)
	if _, err := openScratch(disk, dir, 0); !errors.Is(err, fault.ErrLocked) {
		t.Errorf("a second one: %v", err)
	}
	check(t, s.close())
	check(t, os.Mkdir(dir, 0o777))
	check(t, os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o666))
	if _, err := openScratch(disk, dir, 0); !errors.Is(err, fault.ErrExists) {
		t.Errorf("in the way of something: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "thesis.tex")); err != nil {
		t.Error(err)
	}
	if _, err := openScratch(disk, dir, 1<<60); !errors.Is(err, fault.ErrBudget) {
		t.Errorf("on a full disk: %v", err)
	}
}
