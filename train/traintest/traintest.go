// Package traintest is what tests of runs share.
package traintest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// WithoutTimes returns metrics.jsonl without what follows from the clock: all else is
// the same in a run that was interrupted.
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
