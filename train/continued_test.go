package train

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/train/epoch"
	"diskgnn/train/rundir"
)

// TestContinueWhatIsThere: a process that locked a run goes on with the one that it had read, and with no
// other that came between.
func TestContinueWhatIsThere(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *rundir.File)
		err    error
		says   string
	}{
		"the same":      {func(*rundir.File) {}, nil, "RUN has no checkpoint yet: training begins anew"},
		"another state": {func(f *rundir.File) { f.State = rundir.StateFailed }, fault.ErrLocked, "another process has just changed RUN"},
		"another run":   {func(f *rundir.File) { f.Begun = f.Begun.Add(-time.Second) }, fault.ErrLocked, "another process has just changed RUN"},
	} {
		out := filepath.Join(t.TempDir(), "run")
		if err := mustBegin(t, out, false).Close(); err != nil {
			t.Fatal(err)
		}
		was, err := runToResume(vfs.OS, out)
		if err != nil {
			t.Fatal(err)
		}
		c.change(was)
		rep := &logged{}
		d, from, err := continueRun(vfs.OS, out, was, *was, epoch.Limits{}, rep)
		if err == nil {
			err = d.Close()
		} else {
			rep.Logf("%v", err)
		}
		if said := strings.ReplaceAll(rep.String(), out, "RUN"); !errors.Is(err, c.err) || from != nil || !strings.HasPrefix(said, c.says) {
			t.Errorf("%s: %v, %+v; said %s", name, err, from, said)
		}
	}
}
