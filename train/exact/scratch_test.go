package exact

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/train/model"
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

// States of bf16 have the same bits in memory and on disk, change the logits a little, and are in the lineage: the
// prediction is another one. States that bf16 cannot hold are refused.
func TestStateDType(t *testing.T) {
	raw := datasettest.Params{Nodes: 300, AvgDegree: 5, Dim: 6, Classes: 3, Seed: 4}.Raw()
	w := newWorldOf(t, vfstest.TempDir(t), raw, model.Model{Kind: model.SAGE, Dims: []int{6, 8, 3}, InputProjection: 5})
	plain, _ := w.predict(t, PredictOptions{}, 0)
	o := PredictOptions{Options: w.options(), Out: w.path("bf16.npy")}
	o.StateDType = StateBF16
	inMemory, p := w.predict(t, o, 0)
	if p.StateDType != StateBF16 || p.Lineage.StateDType != StateBF16 || p.BytesWritten != 0 {
		t.Errorf("%+v", p)
	}
	if done, err := Finished(t.Context(), disk, o); err != nil || done == nil || done.StateDType != StateBF16 {
		t.Errorf("not finished: %+v, %v", done, err)
	}
	other := o
	other.StateDType = StateFloat32
	if done, err := Finished(t.Context(), disk, other); err != nil || done != nil {
		t.Errorf("finished with float32: %+v, %v", done, err)
	}
	o.Force = true
	onDisk, p := w.predict(t, o, w.tight(t, 0))
	if want := int64(2 * 300 * (5 + 8)); !slices.Equal(binio.Bytes(onDisk), binio.Bytes(inMemory)) || p.BytesWritten != want {
		t.Errorf("%d bytes written, want %d; other bits than in memory: %t", p.BytesWritten, want, !slices.Equal(onDisk, inMemory))
	}
	most := 0.0
	for i, y := range plain {
		most = max(most, math.Abs(float64(y-inMemory[i])))
	}
	if most == 0 || most > 0.02 {
		t.Errorf("logits differ by up to %v", most)
	}
	st := &state{nodes: 1, width: 2, of: dtype.BFloat16}
	check(t, st.hold())
	defer st.mem.Free()
	if err := st.write(t.Context(), []float32{1, math.MaxFloat32}); !errors.Is(err, fault.ErrInput) {
		t.Errorf("a value beyond bf16: %v", err)
	}
}
