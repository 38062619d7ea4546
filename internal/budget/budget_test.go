package budget

import (
	"errors"
	"testing"

	"diskgnn/internal/fault"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]Size{
		"0": {}, " 0 ": {}, "0.0": {}, "4096B": {Value: 4096}, "512MiB": {Value: 512 << 20}, "2GB": {Value: 2e9}, "1.5gib": {Value: 1.5 * (1 << 30)},
		"10%": {10, UnitPercent}, "3x": {3, UnitTimes}, "unlimited": {Unit: UnitUnlimited}, "7B": {Value: 7}, "2G": {Value: 2 << 30},
	} {
		got, err := ParseSize(text)
		if err != nil || got != want {
			t.Errorf("ParseSize(%q) = %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "%", "-1", "101%", "1e40", "NaN", "Inf", "12 parsecs", "MiB"} {
		if got, err := ParseSize(text); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("ParseSize(%q) = %+v, %v; want a usage error", text, got, err)
		}
	}
}

// A number without a unit may be meant in any of those that its place takes: only 0 is the
// same in all of them.
func TestBareNumbers(t *testing.T) {
	cache, disk, bytes := []Unit{UnitPercent, UnitBytes}, []Unit{UnitTimes, UnitBytes}, []Unit{UnitBytes}
	for _, c := range []struct {
		text     string
		accepted []Unit
		want     string
	}{
		{"5", cache, `"5" has no unit: did you mean 5% or 5GiB?`},
		{"5", disk, `"5" has no unit: did you mean 5x or 5GiB?`},
		{"5", bytes, `"5" has no unit: did you mean 5GiB?`},
		{"5", nil, `"5" has no unit: did you mean 5%, 5x or 5GiB?`},
		{"0.5", cache, `"0.5" has no unit: did you mean 0.5% or 0.5GiB?`},
		{"512", cache, `"512" has no unit: did you mean 512MiB?`},
		{"4096", cache, `"4096" has no unit: did you mean 4096MiB or 4096B?`},
		{"8589934592", bytes, `"8589934592" has no unit: did you mean 8589934592B?`},
		{"1e3", bytes, `"1e3" has no unit: did you mean 1e3MiB?`},
	} {
		if got, err := ParseSize(c.text, c.accepted...); !errors.Is(err, fault.ErrUsage) || err.Error() != c.want {
			t.Errorf("ParseSize(%q) = %+v, %v; want %s", c.text, got, err, c.want)
		}
	}
}

func TestRows(t *testing.T) {
	for _, c := range []struct {
		size string
		want int64
	}{{"10%", 100}, {"0", 0}, {"100%", 1000}, {"5120B", 10}, {"1GiB", 1000}, {"5119B", 9}} {
		s, err := ParseSize(c.size)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Rows(1000, 512); err != nil || got != c.want {
			t.Errorf("%s of 1000 rows of 512 bytes: %d, %v; want %d", c.size, got, err, c.want)
		}
	}
	if _, err := (Size{3, UnitTimes}).Rows(1, 1); !errors.Is(err, fault.ErrUsage) {
		t.Error("3x rows accepted")
	}
}

func TestUsage(t *testing.T) {
	w := StartWatch(t.Context())
	hold := make([]byte, 32<<20)
	for i := range hold {
		hold[i] = 1
	}
	w.sample()
	anon, rss := w.Stop()
	if anon < 32<<20 || rss < anon/2 {
		t.Errorf("holding 32 MiB: peak anonymous %d, peak resident %d", anon, rss)
	}
	_ = hold[0]
}

// What is written as needed suffices, and is hardly more.
func TestFormatNeed(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1 << 20: "1.0 MiB", 1<<20 + 1: "1.1 MiB", 41<<20 + 1<<17: "41.2 MiB", 1<<30 + 1: "1.01 GiB", 1<<40 + 1: "1.01 TiB", 1537: "1.6 KiB"} {
		if got := FormatNeed(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	for n := int64(1); n < 1<<45; n += n/7 + 1 {
		size, err := ParseSize(FormatNeed(n))
		if err != nil || int64(size.Value) < n || size.Value > 1.11*float64(n) {
			t.Fatalf("%d: %s", n, FormatNeed(n))
		}
	}
}
