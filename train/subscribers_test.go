package train

import (
	"strings"
	"testing"

	"diskgnn/train/epoch"
)

// TestMonitoredPhases: the monitor has a name for each phase.
func TestMonitoredPhases(t *testing.T) {
	var names []string
	for p := epoch.Filling; p <= epoch.Testing; p++ {
		names = append(names, string(monitored[p]))
	}
	if got, want := strings.Join(names, ", "), "filling the cache, training, validating, testing"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}
