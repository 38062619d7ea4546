package presample

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/shard"
	"diskgnn/internal/vfs/vfstest"
)

// TestAgrees compares what is refused ahead of a sampling with what the sampling refuses, with the
// dataset and after it is gone.
func TestAgrees(t *testing.T) {
	dir := vfstest.TempDir(t)
	o := testOptions(t, dir)
	if err := Agrees(t.Context(), disk, o); err != nil {
		t.Error("nothing is there:", err)
	}
	mustRun(t, o)
	other := o
	other.Epochs++
	forced := other
	forced.Force = true
	part := other // whose directory is another
	part.Shard = shard.Shard{Index: 1, Count: 2}
	cases := []struct {
		name string
		o    Options
		kind error
	}{{"the same", o, nil}, {"other epochs", other, fault.ErrExists}, {"forced", forced, nil}, {"a shard", part, nil}}
	for _, c := range cases {
		err := Agrees(t.Context(), disk, c.o)
		if (err == nil) != (c.kind == nil) || !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil {
			continue
		}
		if _, late := Run(t.Context(), disk, c.o, progress.Discard); late == nil || late.Error() != "presample: "+err.Error() {
			t.Errorf("%s: agrees says %v, the sampling %v", c.name, err, late)
		}
	}
	if err := os.Rename(o.Dataset, filepath.Join(dir, "moved")); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if err := Agrees(t.Context(), disk, c.o); (err == nil) != (c.kind == nil) || !errors.Is(err, c.kind) {
			t.Errorf("%s, without the dataset: %v", c.name, err)
		}
	}
}
