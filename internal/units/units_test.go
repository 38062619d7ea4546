package units

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 1: "0 µs", 1500: "2 µs", 999_499: "999 µs", 999_500: "1 ms", 340 * time.Millisecond: "340 ms",
		999_499_999: "999 ms", 999_500_000: "1.00 s", 9_690 * time.Millisecond: "9.69 s", 9_994 * time.Millisecond: "9.99 s",
		9_995 * time.Millisecond: "10.0 s", 57_210 * time.Millisecond: "57.2 s", 59_949 * time.Millisecond: "59.9 s",
		59_950 * time.Millisecond: "1 min", 59_960 * time.Millisecond: "1 min", time.Minute: "1 min", 60_499 * time.Millisecond: "1 min",
		60_500 * time.Millisecond: "1 min 1 s", 119_600 * time.Millisecond: "2 min", 30 * time.Minute: "30 min", 85 * time.Second: "1 min 25 s", time.Hour - time.Second: "59 min 59 s",
		time.Hour - 500*time.Millisecond: "1 h", 3599_499 * time.Millisecond: "59 min 59 s", 3599_600 * time.Millisecond: "1 h",
		time.Hour: "1 h", time.Hour + 29*time.Second: "1 h", time.Hour + 30*time.Second: "1 h 1 min", 2*time.Hour - 30*time.Second: "2 h",
		125*time.Minute + 29*time.Second: "2 h 5 min", 125*time.Minute + 30*time.Second: "2 h 6 min",
		100 * time.Hour: "100 h", 100*time.Hour + time.Minute: "100 h 1 min",
		-1: "0 µs", -499: "0 µs", -500: "-1 µs", -1500 * time.Millisecond: "-1.50 s", -59_960 * time.Millisecond: "-1 min", -30 * time.Minute: "-30 min", -90 * time.Minute: "-1 h 30 min",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%d ns: %q, want %q", d, got, want)
		}
	}
	for s, want := range map[float64]string{9.694: "9.69 s", math.NaN(): "–", math.Inf(1): Duration(math.MaxInt64), -1e300: "-" + Duration(math.MaxInt64), 0: "0 s"} {
		if got := Seconds(s); got != want {
			t.Errorf("%v s: %q, want %q", s, got, want)
		}
	}
	_ = Duration(math.MinInt64)
}

func TestCounts(t *testing.T) {
	for n, want := range map[int]string{0: "0", 7: "7", 999: "999", 1000: "1,000", -999: "-999", -123456: "-123,456", 1234567: "1,234,567"} {
		if got := Count(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	for want, got := range map[string]string{
		"1 epoch": Of(1, "epoch"), "0 epochs": Of(0, "epoch"), "2,000 batches": Of(int64(2000), "batch"), "3 classes": Of(3, "class"),
		"1 class": Of(1, "class"), "2 indexes": Of(2, "index"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 99999: "99999", 100000: "100k", 1e6: "1.0M", 12_300_000: "12.3M", 9_999_900_000: "9999.9M", 1e10: "10.0G"} {
		if got := Short(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestRates(t *testing.T) {
	for rate, want := range map[float64]string{0: "0.0/s", 3.24: "3.2/s", 12.9: "12/s", 1_250_000: "1.2M/s"} {
		if got := PerSecond(rate); got != want {
			t.Errorf("%v: %q, want %q", rate, got, want)
		}
	}
	if got := BytesPerSecond(2e9); got != "1.86 GiB/s" {
		t.Error(got)
	}
}

// TestDurationRoundsWell: what is written is never further from the duration than half of
// its last place.
func TestDurationRoundsWell(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(1, int64(100*time.Hour)).Draw(t, "d"))
		back, place := parse(t, Duration(d))
		if diff := (d - back).Abs(); diff > place/2 {
			t.Fatalf("%d ns is written %q", d, Duration(d))
		}
	})
}

// parse reads what Duration wrote, and returns the worth of its last place.
func parse(t *rapid.T, s string) (d, place time.Duration) {
	var a, b int
	var f float64
	switch {
	case scan(s, "%d h %d min", &a, &b):
		return time.Duration(a)*time.Hour + time.Duration(b)*time.Minute, time.Minute
	case scan(s, "%d min %d s", &a, &b):
		return time.Duration(a)*time.Minute + time.Duration(b)*time.Second, time.Second
	case scan(s, "%d h", &a):
		return time.Duration(a) * time.Hour, time.Minute
	case scan(s, "%d min", &a):
		return time.Duration(a) * time.Minute, time.Second
	case scan(s, "%d µs", &a):
		return time.Duration(a) * time.Microsecond, time.Microsecond
	case scan(s, "%d ms", &a):
		return time.Duration(a) * time.Millisecond, time.Millisecond
	case scan(s, "%f s", &f):
		d = time.Duration(math.Round(f*100)) * 10 * time.Millisecond
		if d >= 10*time.Second {
			return d, 100 * time.Millisecond
		}
		return d, 10 * time.Millisecond
	}
	t.Fatalf("%q", s)
	return 0, 0
}

func scan(s, format string, to ...any) bool {
	n, err := fmt.Sscanf(s, format, to...)
	return err == nil && n == len(to)
}
