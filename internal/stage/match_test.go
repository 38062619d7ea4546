package stage

import (
	"errors"
	"path/filepath"
	"testing"

	"diskgnn/internal/vfs"
)

// TestMatching finds what a finished and an interrupted directory were made by.
func TestMatching(t *testing.T) {
	specs := []Spec{specOf(1), specOf(2), specOf(3)}
	out := filepath.Join(t.TempDir(), "out")
	want := func(i int) {
		t.Helper()
		if got, err := Matching(vfs.OS, out, specs); got != i || err != nil {
			t.Errorf("matches %d (%v), want %d", got, err, i)
		}
	}
	want(-1)
	boom := errors.New("boom")
	in := &vfs.FailAt{Err: boom, Match: func(op vfs.Op, name string) bool { return op == vfs.OpCreate && filepath.Base(name) == RunFile }}
	if _, _, err := runStage(vfs.Inject(vfs.OS, in), out, 3, false); !errors.Is(err, boom) {
		t.Fatal(err)
	}
	want(2)
	if _, _, err := runStage(vfs.OS, out, 3, false); err != nil {
		t.Fatal(err)
	}
	want(2)
	specs[2].By = "another way"
	want(2)
	specs[2] = specOf(4)
	want(-1)
}
