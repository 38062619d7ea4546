package exact

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
)

// A wrong byte in a state is found when its piece is read.
func TestStateIsChecked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run"+scratchSuffix)
	s, err := openScratch(disk, dir, 1<<20)
	check(t, err)
	st := &state{nodes: 100_000, width: 3, of: dtype.Float32}
	check(t, s.create(0, st))
	rows := make([]float32, 3*100_000)
	for i := range rows {
		rows[i] = float32(i)
	}
	check(t, st.write(context.Background(), rows[:7*3]))
	check(t, st.write(context.Background(), rows[7*3:]))
	check(t, st.finish())
	b, err := os.ReadFile(st.path)
	check(t, err)
	piece := func(i int) error {
		off, n := st.Piece(i)
		got, err := st.Decode(i, b[off:off+n], nil)
		if err == nil && !bytes.Equal(got, binio.Bytes(rows)[off:off+n]) {
			t.Errorf("piece %d has other bytes", i)
		}
		return err
	}
	b[stateGranule+5] ^= 1
	for i := range 5 {
		if err := piece(i); (i == 1) != errors.Is(err, fault.ErrCorrupt) || i != 1 && err != nil {
			t.Errorf("piece %d: %v", i, err)
		}
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
