package sampler

import (
	"errors"
	"slices"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/presample/mbfile"
)

func TestFanouts(t *testing.T) {
	const all = mbfile.AllNeighbours
	for text, want := range map[string][]int{"10,15,20": {10, 15, 20}, "all": {all}, " 5, all ": {5, all}, "7": {7}} {
		got, err := ParseFanout(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("ParseFanout(%q) = %v, %v", text, got, err)
		}
		if again, err := ParseFanout(FormatFanout(got)); err != nil || !slices.Equal(again, want) {
			t.Errorf("%v is written %q", want, FormatFanout(got))
		}
	}
	if s := FormatFanout([]int{10, all, 20}); s != "10,all,20" {
		t.Errorf("written %q", s)
	}
	for _, text := range []string{"", ",", "5,", "0", "-1", "x", "5;5", "1e3"} {
		if got, err := ParseFanout(text); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("ParseFanout(%q) = %v, %v", text, got, err)
		}
	}
	for text, want := range map[string][]int{"same": {5, 6}, "all": {all, all}, "3,all": {3, all}} {
		if got, err := EvalFanout(text, []int{5, 6}); err != nil || !slices.Equal(got, want) {
			t.Errorf("--eval-fanout %s: %v, %v", text, got, err)
		}
	}
}
