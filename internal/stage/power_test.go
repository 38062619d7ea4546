package stage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

// TestPower: progress that was saved is there after the power was cut, with the files that
// it speaks of; and so is a directory that was committed.
func TestPower(t *testing.T) {
	root := filepath.Join(vfstest.DurableDir(t), "root")
	out := filepath.Join(root, "out")
	for seed := range uint64(20) {
		fresh := func() *vfs.Volatile {
			if err := errors.Join(os.RemoveAll(root), os.Mkdir(root, 0o777)); err != nil {
				t.Fatal(err)
			}
			v, err := vfs.NewVolatile(root)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		v := fresh()
		d, _, err := Begin(v, out, specOf(1), false)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(vfs.WriteFile(v, d.File("a"), []byte("abc")), d.SaveProgress(3), d.Close(), v.Crash(seed)); err != nil {
			t.Fatal(err)
		}
		d, state, err := Begin(vfs.OS, out, specOf(1), false)
		if err != nil {
			t.Fatal(err)
		}
		var got int
		if _, err := d.Progress(&got); err != nil || state != StateResumed || got != 3 {
			t.Errorf("seed %d: %v, progress %d (%v)", seed, state, got, err)
		}
		if b, err := os.ReadFile(d.File("a")); err != nil || string(b) != "abc" {
			t.Errorf("seed %d: a file that was finished holds %q (%v)", seed, b, err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}

		v = fresh()
		if _, _, err := runStage(v, out, 1, false); err != nil {
			t.Fatal(err)
		}
		if err := v.Crash(seed); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(vfs.OS, out, "directory", specOf(1).Format); err != nil {
			t.Errorf("seed %d: %v", seed, fmt.Errorf("what was committed: %w", err))
		}
	}
}
