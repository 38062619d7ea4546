package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/train/score"
)

// write makes a directory with a run.json of that text.
func write(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, stage.RunFile), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Every reader refuses another version; only --force replaces it.
func TestOtherVersions(t *testing.T) {
	for _, version := range []int{0, 1, 4} {
		dir := write(t, fmt.Sprintf(`{"format":{"name":"diskgnn.run","version":%d},"state":"finished"}`, version))
		for what, read := range map[string]func(vfs.FS, string) (File, error){"Read": Read, "ReadSummary": ReadSummary} {
			if _, err := read(vfs.OS, dir); !errors.Is(err, fault.ErrVersion) || !strings.Contains(err.Error(), fmt.Sprintf("version %d; this program reads versions 2 and 3", version)) {
				t.Errorf("%s of version %d: %v", what, version, err)
			}
		}
		if err := CheckOut(vfs.OS, dir, false); !errors.Is(err, fault.ErrExists) || !strings.Contains(err.Error(), "use --force to train anew") {
			t.Errorf("over version %d: %v", version, err)
		}
		if err := CheckOut(vfs.OS, dir, true); err != nil {
			t.Errorf("over version %d, forced: %v", version, err)
		}
	}
	if _, err := Read(vfs.OS, write(t, `{"format":{"name":"diskgnn.pack","version":2}}`)); !errors.Is(err, fault.ErrInput) {
		t.Errorf("of a pack: %v", err)
	}
}

// Numbers that a run has not are undefined, not zero, and the summary has all but epochs.
func TestMissingNumbersAreUndefined(t *testing.T) {
	dir := write(t, `{"format":{"name":"diskgnn.run","version":2},"result":{"best_epoch":1,"epochs":[{"epoch":0,"loss":null,"stages":null,"comment":"`+strings.Repeat("x", leastEpochText)+`"}]}}`)
	f, err := Read(vfs.OS, dir)
	if err != nil || len(f.Result.Epochs) != 1 || f.Result.Epochs[0].Loss.Defined() || f.Result.TestAccuracy.Defined() || f.Result.BestEpoch != 1 {
		t.Errorf("%+v, %v", f.Result, err)
	}
	if f, err = ReadSummary(vfs.OS, dir); err != nil || f.Result.Epochs != nil || f.Result.BestEpoch != 1 {
		t.Errorf("the summary: %+v, %v", f.Result, err)
	}
	if err := os.WriteFile(filepath.Join(dir, MetricsFile), []byte(`{"epoch":0,"loss":0}`+"\n"+`{"epoch":1,"lr":0.5`), 0o666); err != nil {
		t.Fatal(err)
	}
	epochs, err := f.ReadLines(vfs.OS, dir)
	if err != nil || len(epochs) != 1 || epochs[0].LR.Defined() || !epochs[0].Loss.Defined() {
		t.Errorf("%+v, %v", epochs, err)
	}
}

// The keys of run.json, and their order in params, are those that checkpoints are hashed
// by.
func TestIdentityStaysAsItWas(t *testing.T) {
	var f File
	f.Params.Model, f.Params.Dims, f.Pack, f.Setup.BLAS = "sage", []int{4, 2}, "f00d", "gonum"
	got, err := f.Identity()
	const want = "aa30374f0754c89adbb8317c5b335943a6791d55ae796e8891dd2b37c53f88f4"
	if err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
	f.Params.LabelSmoothing = 0.1
	if other, _ := f.Identity(); other == got {
		t.Error("another recipe has the same identity")
	}
	b, err := json.Marshal(Epoch{LR: score.Undefined})
	if err != nil || !strings.HasPrefix(string(b), `{"epoch":0,"seconds":0,"lr":null,"loss":0,`) {
		t.Errorf("%s, %v", b, err)
	}
}
