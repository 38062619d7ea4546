// Package traintest has functions that tests of runs share.
package traintest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"diskgnn/internal/stage"
	"diskgnn/train/rundir"
)

var checksum = regexp.MustCompile(`,\s*"checksum":\s*"[0-9a-f]*"`)

// WriteRun writes text as a run's run.json, with its checksum.
func WriteRun(t testing.TB, dir string, text []byte) {
	t.Helper()
	b, err := rundir.Encode(json.RawMessage(checksum.ReplaceAll(text, nil)))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, stage.RunFile), b, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// WithoutTimes returns metrics.jsonl without the values that depend on the clock: the rest is the
// same in a run that was interrupted.
func WithoutTimes(t testing.TB, metrics []byte) string {
	t.Helper()
	var out strings.Builder
	for line := range bytes.Lines(metrics) {
		var e map[string]any
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		for k := range e {
			if strings.HasSuffix(k, "seconds") || k == "stages" || k == "bound_stage" || k == "read_rate" {
				delete(e, k)
			}
		}
		fmt.Fprintln(&out, e)
	}
	return out.String()
}
