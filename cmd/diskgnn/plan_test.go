package main

import (
	"strings"
	"testing"

	"diskgnn/pack/cut"
)

// TestPlanSaysHowItMeasured: of rates that were measured briefly nobody may think that the
// drive keeps them up.
func TestPlanSaysHowItMeasured(t *testing.T) {
	for _, c := range []struct {
		drive cut.Drive
		want  string
	}{
		{cut.Drive{Direct: true, Seconds: 0.5}, "; measured briefly, 500 ms: a drive that was idle may be faster than it keeps up"},
		{cut.Drive{Direct: true, Seconds: 3, Drained: 2}, "; each measured for 3.00 s after 2.00 s of load"},
		{cut.Drive{Seconds: 3, Drained: 2}, "; each measured for 3.00 s after 2.00 s of load; the reads went through the page cache, which may have answered them"},
	} {
		if text := planLines(cut.Plan{Drive: c.drive})[0].text; !strings.HasSuffix(text, " pages/s at random"+c.want) {
			t.Errorf("%+v: %q", c.drive, text)
		}
	}
}
