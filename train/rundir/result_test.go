package rundir

import (
	"slices"
	"testing"
)

// TestLevels by hand: every byte is of one level.
func TestLevels(t *testing.T) {
	e := Epoch{BytesRead: 1000, SSDBytesRead: 200, GraphBytesRead: 50, RAMBytes: 70, GPUServedBytes: 30}
	want := []LevelBytes{{"gpu", 30}, {"ram", 40}, {"ssd", 200}, {"cold", 750}, {"graphs", 50}}
	if got := e.Levels(); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
