package drives

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// GIDS's own figure: 5.8 GB/s and 11 µs want 854 accesses, twice as many on two drives.
func TestAccesses(t *testing.T) {
	d := Drive{LatencyMicros: 11, Requests: 1 << 40, Bytes: 5_800_000_000}
	if one, two := d.Accesses(1), d.Accesses(2); one != 854 || two != 1708 {
		t.Errorf("%d and %d accesses", one, two)
	}
	d.Requests = 5_800_000_000 / Page / 2
	if n := d.Accesses(1); n != 427 {
		t.Errorf("%d accesses at half the requests", n)
	}
}

func TestAccumulateByHand(t *testing.T) {
	batch := func(rows int64) Load {
		return Load{Sample: 1, Assemble: 6, Compute: 2, Reads: []Reads{{Bytes: Page, Count: rows}}, Direct: true, Zero: 3, Rows: rows, Hits: 4, Useful: 5}
	}
	got := Accumulate([]Load{batch(10), batch(11), batch(1), batch(30), batch(2)}, 20)
	two := func(rows int64) Load {
		l := batch(rows)
		l.Sample, l.Assemble, l.Compute, l.Zero, l.Hits, l.Useful, l.Merged = 2, 12, 4, 6, 8, 10, 1
		return l
	}
	want := []Load{two(21), two(31), batch(2)}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// Nothing is lost, and no merge but the last could have ended before.
func TestAccumulate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loads := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Load {
			l := drawLoad(t, 40)
			l.Rows = rapid.Int64Range(0, 30).Draw(t, "rows")
			return l
		}), 0, 8).Draw(t, "loads")
		need := rapid.Int64Range(0, 60).Draw(t, "need")
		got := Accumulate(loads, need)
		all := func(loads []Load) (n int, rows, requests, bytes, other int64) {
			for i := range loads {
				l := &loads[i]
				k, b := l.Requests()
				n, rows, requests, bytes = n+1+l.Merged, rows+l.Rows, requests+k, bytes+b
				other += int64(l.Sample+l.Assemble+l.Compute) + l.Zero + l.Copy + l.Touched + l.Hits + l.Useful
			}
			return n, rows, requests, bytes, other
		}
		a1, b1, c1, d1, e1 := all(loads)
		if a2, b2, c2, d2, e2 := all(got); a1 != a2 || b1 != b2 || c1 != c2 || d1 != d2 || e1 != e2 {
			t.Fatalf("%+v of %+v", got, loads)
		}
		at := 0
		for i, l := range got {
			last := loads[at+l.Merged].Rows
			if i < len(got)-1 && l.Rows <= need || l.Merged > 0 && l.Rows-last > need {
				t.Fatalf("%+v of %+v: %d are enough", got, loads, need)
			}
			at += 1 + l.Merged
		}
	})
}
