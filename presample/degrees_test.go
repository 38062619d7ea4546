package presample

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/device"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs/vfstest"
)

// TestTableOfDegrees: the same bytes come of a run with a table of degrees, under every method and order. The plan
// counts a byte for each of the 400 nodes, and nothing is left of the table.
func TestTableOfDegrees(t *testing.T) {
	dir := vfstest.TempDir(t)
	o := testOptions(t, dir)
	for i, change := range []func(o *Options){
		func(*Options) {},
		func(o *Options) { o.Sampler = SamplerLabor },
		func(o *Options) { o.Order, o.Partitions, o.Buffer = OrderDispersed, 8, 4 },
		func(o *Options) { o.Order = OrderOverlap },
	} {
		o := o
		o.Workers = 1
		o.EnsureDefaults()
		change(&o)
		with := o
		with.degreesAbove = 399
		o.Out, with.Out = filepath.Join(dir, fmt.Sprint(i)), filepath.Join(dir, fmt.Sprint("with", i))
		plain, err := MakePlan(t.Context(), disk, o, progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		before := device.HostBytes()
		p, err := MakePlan(t.Context(), disk, with, progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.MemoryBytes - plain.MemoryBytes; got != 400 {
			t.Errorf("%d: %d bytes more", i, got)
		}
		mustRun(t, o)
		with.Memory = p.LeastBytes
		mustRun(t, with)
		if d := cmp.Diff(files(t, o.Out), files(t, with.Out)); d != "" {
			t.Errorf("%d: %.300s", i, d)
		}
		with.Out, with.Memory = with.Out+"less", p.LeastBytes-1
		if _, err := Run(t.Context(), disk, with, progress.Discard); !errors.Is(err, fault.ErrBudget) {
			t.Errorf("%d: a byte less than the least: %v", i, err)
		}
		if n := device.HostBytes() - before; n != 0 {
			t.Errorf("%d: %d bytes are left", i, n)
		}
	}
}
