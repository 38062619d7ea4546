package rundir

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/train/safetensors"
	"diskgnn/train/score"
)

var disk = vfs.Unsynced(vfs.OS)

// finished makes a run of two epochs, the first of which is the best, that ended.
func finished(t *testing.T) string {
	t.Helper()
	out := filepath.Join(vfstest.TempDir(t), "run")
	var f File
	f.Params.Model, f.Params.Epochs, f.Pack = "sage", 2, "f00d"
	d, err := Begin(disk, out, false, f)
	check(t, err)
	run, err := d.File.Identity()
	check(t, err)
	r := &Result{BestEpoch: 0, ValidAccuracy: 0.5, TestAccuracy: score.Undefined}
	weights := func(name string, epoch int) {
		check(t, d.SaveWeights(name, []safetensors.Tensor{{Name: "w", Shape: []int{2}, Data: []float32{1, float32(epoch)}}}, epoch))
	}
	for epoch := range 2 {
		e := Epoch{Epoch: epoch, LR: score.Undefined, Loss: 0.25, ValidAccuracy: score.Undefined, Seconds: 1.5}
		check(t, d.AppendMetrics(e))
		r.Epochs = append(r.Epochs, e)
		head := map[string]any{"run": run, "epoch": epoch + 1, "metrics": d.MetricsEnd}
		check(t, d.Checkpoints().Write(int64(epoch), head, map[string][]byte{"engine/weights": {1, 2, 3}}, 1))
	}
	weights(WeightsFile, 0)
	weights(FinalFile, 1)
	check(t, d.Replace(ReportFile, func(w io.Writer) error { _, err := w.Write([]byte("page")); return err }))
	check(t, d.CloseMetrics())
	d.File.Result = r
	d.End(StateFinished, nil)
	check(t, d.Save())
	d.Unlock()
	return out
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Every byte of a run's results is checked, and the file is named: by Verify, and of run.json by
// every reader, also where a version without checksums is what the byte makes of it.
func TestEveryByteOfARun(t *testing.T) {
	dir := finished(t)
	v, err := Verify(disk, dir)
	if err != nil || v.Checkpoints != 1 || !slices.Equal(v.Unchecked, []string{ReportFile}) || v.File.State != StateFinished {
		t.Fatalf("%+v, %v", v, err)
	}
	total := int64(0)
	for _, file := range []string{"run.json", MetricsFile, WeightsFile, FinalFile, "checkpoints/step-000000000001.ckpt"} {
		name := filepath.Join(dir, file)
		good, err := os.ReadFile(name)
		check(t, err)
		total += int64(len(good))
		for i := range good {
			for _, bit := range []byte{1, 1 << (i % 7)} {
				bad := bytes.Clone(good)
				bad[i] ^= bit
				check(t, os.WriteFile(name, bad, 0o666))
				if _, err := Verify(disk, dir); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name) {
					t.Errorf("%s, byte %d (%q) with bit %d: %v", file, i, good[i], bit, err)
				}
				if file != "run.json" {
					continue
				}
				if _, err := ReadSummary(disk, dir); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name) {
					t.Errorf("%s read, byte %d (%q) with bit %d: %v", file, i, good[i], bit, err)
				}
			}
		}
		check(t, os.WriteFile(name, good[:len(good)-1], 0o666))
		if _, err := Verify(disk, dir); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s, cut: %v", file, err)
		}
		check(t, os.WriteFile(name, append(bytes.Clone(good), '\n'), 0o666))
		if _, err := Verify(disk, dir); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s, longer: %v", file, err)
		}
		check(t, os.WriteFile(name, good, 0o666))
	}
	if v.Bytes != total {
		t.Errorf("%d bytes were checked, there are %d", v.Bytes, total)
	}
}

// Files that are right by themselves, and not the run's, are refused.
func TestVerifyComparesFiles(t *testing.T) {
	for want, c := range map[string]struct {
		kind   error
		change func(dir string) error
	}{
		"final.safetensors is missing, although the run is finished": {fault.ErrCorrupt, func(dir string) error { return os.Remove(filepath.Join(dir, FinalFile)) }},
		"weights.safetensors is missing":                             {fault.ErrCorrupt, func(dir string) error { return os.Remove(filepath.Join(dir, WeightsFile)) }},
		"metrics.jsonl is missing":                                   {fault.ErrCorrupt, func(dir string) error { return os.Remove(filepath.Join(dir, MetricsFile)) }},
		"weights.safetensors has the weights of epoch \"1\", but run.json names epoch 0": {fault.ErrCorrupt, func(dir string) error {
			return os.Rename(filepath.Join(dir, FinalFile), filepath.Join(dir, WeightsFile))
		}},
		"final.safetensors: it has no checksum":      {fault.ErrCorrupt, func(dir string) error { return unsum(filepath.Join(dir, FinalFile)) }},
		"epoch 1 differs from the epoch in run.json": {fault.ErrCorrupt, func(dir string) error { return rewrite(dir, func(f *File) { f.Result.Epochs[1].Loss = 2 }) }},
		"2 epochs, but run.json has 1":               {fault.ErrCorrupt, func(dir string) error { return rewrite(dir, func(f *File) { f.Result.Epochs = f.Result.Epochs[:1] }) }},
		"is a checkpoint of another run":             {fault.ErrLineage, func(dir string) error { return rewrite(dir, func(f *File) { f.Params.Seed = 7 }) }},
		"this program reads versions 2 and 3":        {fault.ErrVersion, func(dir string) error { return rewrite(dir, func(f *File) { f.Format.Version = 4 }) }},
	} {
		dir := finished(t)
		check(t, c.change(dir))
		if _, err := Verify(disk, dir); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// unsum takes a file's checksum out of it.
func unsum(name string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return os.WriteFile(name, bytes.Replace(b, []byte(`"diskgnn.sha256"`), []byte(`"another.sha256"`), 1), 0o666)
}

// rewrite writes run.json anew.
func rewrite(dir string, change func(f *File)) error {
	f, err := Read(disk, dir)
	if err != nil {
		return err
	}
	change(&f)
	b, err := Encode(f)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "run.json"), b, 0o666)
}

// Lines that come after run.json are read with those that it knows, until the run is finished.
func TestLinesAfterRunFile(t *testing.T) {
	out := filepath.Join(vfstest.TempDir(t), "run")
	d, err := Begin(disk, out, false, File{})
	check(t, err)
	lines := func() (int, error) {
		f, err := Read(disk, out)
		check(t, err)
		list, err := f.ReadLines(disk, out)
		return len(list), err
	}
	check(t, d.AppendMetrics(Epoch{Epoch: 0}))
	check(t, d.Save())
	check(t, d.AppendMetrics(Epoch{Epoch: 1}))
	if n, err := lines(); err != nil || n != 2 {
		t.Errorf("%d lines, %v", n, err)
	}
	check(t, d.Close())
	name := filepath.Join(out, MetricsFile)
	b, err := os.ReadFile(name)
	check(t, err)
	b[3] ^= 1
	check(t, os.WriteFile(name, b, 0o666))
	if _, err := lines(); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name) {
		t.Errorf("a damaged line: %v", err)
	}
	if _, err := Verify(disk, out); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("verified: %v", err)
	}

	out = finished(t)
	file, err := os.OpenFile(filepath.Join(out, MetricsFile), os.O_APPEND|os.O_WRONLY, 0)
	check(t, err)
	_, err = file.WriteString(`{"epoch":2}` + "\n")
	check(t, errors.Join(err, file.Close()))
	if _, err := lines(); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a line more than a finished run has: %v", err)
	}
}

// A power failure may leave holes in the last line of a run that is not finished. All lines before
// were made durable.
func TestTornLine(t *testing.T) {
	const whole = `{"epoch":0}` + "\n"
	for text, want := range map[string]int{whole + "{\"epoch\":1\x00\x00}\n": 1, "\x00\x00\n": 0, whole: 1, whole + "\x00\n" + whole: -1} {
		dir := vfstest.TempDir(t)
		check(t, os.WriteFile(filepath.Join(dir, MetricsFile), []byte(text), 0o666))
		for state, want := range map[State]int{StateRunning: want, StateInterrupted: want, StateFinished: -1} {
			lines, err := (&File{State: state}).ReadLines(disk, dir)
			if state == StateFinished && text == whole {
				want = 1
			}
			if want < 0 && !errors.Is(err, fault.ErrCorrupt) || want >= 0 && (err != nil || len(lines) != want) {
				t.Errorf("%q, %s: %d lines, %v", text, state, len(lines), err)
			}
		}
	}
}

// A run that version 2 left is read, said to be unchecked, and verified as far as it can be.
func TestVersion2(t *testing.T) {
	const dir = "../../testdata/old/185f982/run"
	f, err := Read(disk, dir)
	if err != nil || f.Checked() || !strings.Contains(f.Note(dir), "unchecked") || f.State != StateFinished || len(f.Result.Epochs) != 3 {
		t.Fatalf("%+v, %v", f, err)
	}
	if lines, err := f.ReadLines(disk, dir); err != nil || len(lines) != 3 {
		t.Errorf("%d lines, %v", len(lines), err)
	}
	v, err := Verify(disk, dir)
	if err != nil || v.Checkpoints != 1 || !slices.Equal(v.Unchecked, []string{FinalFile, MetricsFile, ReportFile, "run.json", WeightsFile}) {
		t.Errorf("%+v, %v", v, err)
	}
	to := filepath.Join(vfstest.TempDir(t), "run")
	check(t, os.CopyFS(to, os.DirFS(dir)))
	name := filepath.Join(to, CheckpointsDir, "step-000000000006.ckpt")
	b, err := os.ReadFile(name)
	check(t, err)
	b[len(b)-1] ^= 1
	check(t, os.WriteFile(name, b, 0o666))
	if _, err := Verify(disk, to); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name) {
		t.Errorf("a damaged checkpoint: %v", err)
	}
}

// The checksum is where the format says: of all bytes before the comma.
func TestChecksumByHand(t *testing.T) {
	b, err := Encode(map[string]int{"a": 1})
	check(t, err)
	const sum = "d298ee5b852fc7dfacbb4dbf9c73da22d8a55ccb56c156043c930b278c39e889" // printf '{\n  "a": 1' | sha256sum
	if want := "{\n  \"a\": 1,\n  \"checksum\": \"" + sum + "\"\n}\n"; string(b) != want {
		t.Errorf("%s, want %s", b, want)
	}
	if summed, err := checkSum(b); !summed || err != nil {
		t.Errorf("%t, %v", summed, err)
	}
	for _, other := range []string{"", "{}", "{\n  \"checksum\": \"\"\n}\n", string(b[:len(b)-1]), string(b) + "\n"} {
		if summed, err := checkSum([]byte(other)); summed || err != nil {
			t.Errorf("%q: %t, %v", other, summed, err)
		}
	}
}
