package volume

import (
	"errors"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
)

// Any loads of any directories, cut off by losses of power and by operations that fail: what is
// found is what was in force, or what was being loaded, whole.
func TestLoads(t *testing.T) {
	sources := []source{
		newSource(t, 1, map[string]int{"a": 5000, "b": 200}),
		newSource(t, 2, map[string]int{"a": mib + 1, "c": 0}),
		newSource(t, 3, map[string]int{"a": 40000, "x": 40000, "y": 40000, "z": 1}),
		newSource(t, 4, map[string]int{"most": mib + 800000}),
	}
	rapid.Check(t, func(t *rapid.T) {
		drives := rapid.IntRange(1, 3).Draw(t, "drives")
		// Room for any of them, but not for any two.
		m := newMemory(drives, int64(2*mib+(5*mib/2)/drives+4096*8), rapid.SampledFrom([]int{512, 4096}).Draw(t, "block"))
		m.rng = rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
		unit := int64(4096) << rapid.IntRange(0, 6).Draw(t, "unit")
		in := -1       // force
		begun := false // something was written once, so that a load by force may have given it up
		for range rapid.IntRange(1, 5).Draw(t, "loads") {
			want := rapid.IntRange(0, len(sources)-1).Draw(t, "which")
			o := Options{Unit: unit, Force: rapid.Bool().Draw(t, "force")}
			m.ops, m.cut, m.fail = 0, rapid.IntRange(-1, 40).Draw(t, "cut"), map[int]bool{rapid.IntRange(0, 60).Draw(t, "fail"): true}
			r, err := sources[want].load(m.all(), o)
			if err == nil && (r.State == stage.StateDone) != (in == want) {
				t.Fatalf("%v, though %d was in force and %d is loaded", r.State, in, want)
			}
			if errors.Is(err, fault.ErrExists) && (o.Force || !begun && in < 0) {
				t.Fatalf("%v, though nothing is there, or by force", err)
			}
			done := err == nil
			m.crash()
			v, err := Open(m.all())
			switch {
			case err != nil && (done || !errors.Is(err, fault.ErrInput)):
				t.Fatal(err)
			case err != nil && in >= 0 && !o.Force:
				t.Fatalf("what was in force is lost without force: %v", err)
			case err != nil:
				in = -1
			default:
				found := -1
				for i, s := range sources {
					if v.Contents().Fingerprint == s.meta.Fingerprint {
						found = i
					}
				}
				if found != want && (found != in || done) {
					t.Fatalf("%d is found; %d was in force and %d was loaded", found, in, want)
				}
				if what := sources[found].differs(v); what != "" {
					t.Fatal(what)
				}
				in = found
			}
			begun = true
		}
		// In the end, anything can be loaded.
		r, err := sources[0].load(m.all(), Options{Unit: unit, Force: true})
		if err != nil {
			t.Fatal(err)
		}
		if what := sources[0].differs(r.Volume); what != "" {
			t.Fatal(what)
		}
	})
}
