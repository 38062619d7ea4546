package pack_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/pack"
)

// TestListsChangeMeanwhile cuts the lists of rows inside their last page after the first range was
// packed, when they are mapped: no pack is made, and packing again, after they were put back, makes
// the pack that it would have.
func TestListsChangeMeanwhile(t *testing.T) {
	dir := vfstest.TempDir(t)
	ds, samples := inputs(t, graphOf)
	ranges := options(ds, samples, "")
	ranges.RangeRows = 15
	segments := shared(t, 0.3)
	segments.RangeRows = 25
	for list, o := range map[string]pack.Options{"requests.tmp": ranges, "ssd-requests.tmp": segments} {
		o.Out = filepath.Join(dir, "whole-"+list)
		want := mustPack(t, o)
		o.Out = filepath.Join(dir, list)
		name := filepath.Join(stage.Partial(o.Out), list)
		var content []byte
		_, err := pack.Run(t.Context(), disk, o, datasettest.At("pack rows", false, func() {
			var err error
			if content, err = os.ReadFile(name); err == nil {
				err = os.Truncate(name, int64(len(content)-4))
			}
			if err != nil {
				t.Error(err)
			}
		}))
		if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", list, err)
		}
		if err := os.WriteFile(name, content, 0o666); err != nil {
			t.Fatal(err)
		}
		if got := mustPack(t, o); got != want {
			t.Errorf("%s, put back: %s, want %s", list, got, want)
		}
	}
}

func mustPack(t *testing.T, o pack.Options) string {
	t.Helper()
	r, err := pack.Run(t.Context(), disk, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return r.Fingerprint
}
