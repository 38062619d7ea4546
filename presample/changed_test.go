package presample

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

// TestTopologyChangesMeanwhile changes the topology after the first batch, and after the last one:
// whatever draws, and however, the samples do not come to be. What is journalled by then has
// nothing of the change: with the topology as it was, the run is gone on with and ends with the
// samples of one that nothing disturbed.
func TestTopologyChangesMeanwhile(t *testing.T) {
	dir := vfstest.TempDir(t)
	base := testOptions(t, dir)
	base.Workers, base.batchesPerFile = 2, 1
	for kind, change := range map[string]func(o *Options){
		"array":     func(*Options) {},
		"labor":     func(o *Options) { o.Sampler = SamplerLabor },
		"all":       func(o *Options) { o.Fanout = []int{all, all} },
		"overlap":   func(o *Options) { o.Order = OrderOverlap },
		"dispersed": func(o *Options) { o.Order, o.Partitions, o.Buffer = OrderDispersed, 8, 3 },
	} {
		o := base
		change(&o)
		o.Out = filepath.Join(dir, kind)
		want := mustRun(t, o).Fingerprint
		for _, ended := range []bool{false, true} {
			for i, c := range datasettest.Changes() {
				p := o
				p.Out = filepath.Join(dir, fmt.Sprint(kind, ended, i))
				datasettest.Age(t, o.Dataset)
				undo := func() {}
				_, err := Run(t.Context(), disk, p, datasettest.At("sample", ended, func() { undo = c.Do(t, o.Dataset) }))
				if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(fmt.Sprint(err), c.File) {
					t.Errorf("%s, %s, after the last batch: %t: %v", kind, c.Name, ended, err)
				}
				if ok, err := vfs.Exists(vfs.OS, p.Out); ok || err != nil {
					t.Errorf("%s, %s: samples were made (%v)", kind, c.Name, err)
				}
				undo()
				if r := mustRun(t, p); r.Fingerprint != want {
					t.Errorf("%s, %s: gone on with, the samples are others", kind, c.Name)
				}
				if err := os.RemoveAll(p.Out); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
