package collective

import (
	"testing"
	"testing/synctest"
)

// A rank says for which other one it waits.
func TestAwaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		groups := Local(3, Usual)
		waits := func(of int) int {
			rank, waits := groups[of].Awaits()
			if !waits {
				return -1
			}
			return rank
		}
		see := func(when string, want ...int) {
			t.Helper()
			synctest.Wait()
			for of, want := range want {
				if got := waits(of); got != want {
					t.Errorf("%s, rank %d waits for %d, want %d", when, of, got, want)
				}
			}
		}
		gather := func(rank int) {
			go func() {
				if _, err := groups[rank].Gather(nil, 0); err != nil {
					t.Error(err)
				}
				if _, err := groups[rank].Broadcast(nil, 0); err != nil {
					t.Error(err)
				}
			}()
		}
		see("before", -1, -1, -1)
		gather(0)
		see("alone", 1, -1, -1)
		gather(1)
		see("without rank 2", 2, 0, -1)
		gather(2)
		see("after", -1, -1, -1)
		for _, g := range groups {
			go g.Close()
		}
	})
	if _, waits := One().Awaits(); waits {
		t.Error("one rank waits")
	}
}
