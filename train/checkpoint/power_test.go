package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

// TestPower: whenever the power is cut, and whatever of the rest the drive kept, the newest
// checkpoint is whole, and is the one that was written last, or the one under way; those
// that were cleared do not come back.
func TestPower(t *testing.T) {
	root := filepath.Join(vfstest.DurableDir(t), "root")
	for n, done := 0, false; !done; n++ {
		for seed := range uint64(10) {
			if err := errors.Join(os.RemoveAll(root), os.Mkdir(root, 0o777)); err != nil {
				t.Fatal(err)
			}
			v, err := vfs.NewVolatile(root)
			if err != nil {
				t.Fatal(err)
			}
			v.CutAt(n)
			d := Dir{v, filepath.Join(root, "checkpoints")}
			what := fmt.Sprintf("cut at operation %d, seed %d", n, seed)
			last, cleared := int64(-1), false
			for step := range int64(4) {
				if step == 2 {
					last, cleared = -1, d.Clear() == nil
				}
				if d.Write(step, step, map[string][]byte{"a": make([]byte, 700), "b": {1}}, 1) == nil {
					last = step
				}
			}
			done = v.Changes() < n
			if err := v.Crash(seed); err != nil {
				t.Fatal(err)
			}
			d.FS = disk
			names, err := d.List()
			if err != nil {
				t.Fatal(err)
			}
			newest := int64(-1)
			for i, name := range names {
				head, _, err := d.Read(name, 1<<20)
				if err != nil {
					t.Errorf("%s: %v", what, err)
					continue
				}
				var step int64
				if err := json.Unmarshal(head, &step); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					newest = step
				}
				if cleared && step < 2 {
					t.Errorf("%s: checkpoint %d is there again", what, step)
				}
			}
			if newest < last {
				t.Errorf("%s: the newest is of step %d, written was %d", what, newest, last)
			}
		}
	}
}
