package commands

import (
	"strings"
	"testing"

	"diskgnn/iostack/all"
)

// TestBufferedRatesAreDoubted: nobody may take memory's rate for a drive's.
func TestBufferedRatesAreDoubted(t *testing.T) {
	r := ioRates{Path: "dir", Bytes: 1 << 20, Backend: "pread", Buffered: "the file system refuses O_DIRECT", Sequential: 3 << 30,
		Shape: all.Shape{Block: 1 << 20, Depth: 16}, Seconds: 1, Drained: 0.25, AfterIdle: 4 << 30}
	var out strings.Builder
	if err := r.outcome().print(&out, false); err != nil {
		t.Fatal(err)
	}
	want := "measured    dir, 1.0 MiB\n" +
		"backend     pread, buffered: the figures may be rates of memory (the file system refuses O_DIRECT)\n" +
		"sequential  3.00 GiB/s, by 16 reads of 1 MiB in flight; measured for 1.00 s after 250 ms of load, which may be too short to show a throttle\n" +
		"from rest   4.00 GiB/s in the first second, which a throttled drive does not sustain\n"
	if out.String() != want {
		t.Errorf("printed %q, want %q", &out, want)
	}
}
