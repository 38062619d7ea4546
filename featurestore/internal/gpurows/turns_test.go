package gpurows

import (
	"testing"

	"diskgnn/device/cuda"
)

// Three turns: two of training, of five rows each, and one of evaluation, of three.
func TestLanding(t *testing.T) {
	var turns Turns
	if err := turns.Lay(new(cuda.Arena), TurnBytes{}, TurnBytes{}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{0, 5, 0, 5} {
		if n := turns.Training().Landing(5); n != want {
			t.Errorf("training batch %d lands in row %d, not %d", i, n, want)
		}
	}
	if n := turns.Evaluation().Landing(5); n != 10 || LandingRows(5, 3) != 13 {
		t.Errorf("evaluation lands in row %d of %d, not 10 of 13", n, LandingRows(5, 3))
	}
}
