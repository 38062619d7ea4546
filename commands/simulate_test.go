package commands

import (
	"testing"

	"diskgnn/simulate/drives"
	"diskgnn/simulate/trace"
)

// A recorded run is simulated with the batches and reads under way that it had; what is
// simulated from rows has its own, and flags win.
func TestMachineOfTrace(t *testing.T) {
	run := trace.Header{InFlight: 7, Slots: 3}
	for _, c := range []struct {
		store            string
		h                trace.Header
		slots            int
		wantFlight, want int
	}{
		{"recorded", run, 0, 7, 3},
		{"recorded", run, 5, 7, 5},
		{"recorded", trace.Header{}, 0, 512, 2},
		{"rows", run, 0, 512, 2},
		{"packed", run, 4, 64, 4},
	} {
		o := simulateDrives{store: c.store, drive: "intel-p5510", link: "pcie4x16", slots: c.slots}
		m, err := o.machineOf(drives.Priced{}, c.h)
		if err != nil || m.Software.InFlight != c.wantFlight || m.Slots != c.want {
			t.Errorf("%+v: %d reads and %d batches under way, %v", c, m.Software.InFlight, m.Slots, err)
		}
	}
}
