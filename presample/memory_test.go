package presample

import (
	"errors"
	"testing"

	"diskgnn/internal/fault"
)

func TestWorstCase(t *testing.T) {
	for _, c := range []struct {
		nodes, edges int64
		seeds        int
		fanout       []int
		want         worst
	}{
		// 10 seeds draw 3 each: 30 edges, 40 nodes; those draw 2: 80 edges, 120 nodes.
		{1000, 9999, 10, []int{2, 3}, worst{nodes: 120, dst: 50, edges: 110}},
		{100, 9999, 10, []int{2, 3}, worst{nodes: 100, dst: 50, edges: 110}}, // no more than there are
		{1000, 50, 10, []int{2, 3}, worst{nodes: 90, dst: 50, edges: 80}},
		{1000, 5000, 10, []int{all, 3}, worst{nodes: 1000, dst: 50, edges: 5030}},
		{5, 7, 10, []int{1}, worst{nodes: 5, dst: 5, edges: 5}},
	} {
		if got := worstCase(c.nodes, c.edges, c.seeds, c.fanout); got != c.want {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

func TestDivide(t *testing.T) {
	const mib = 1 << 20
	w := worstCase(1<<21, 40_000_000, 1024, []int{10, 15, 20})
	for _, c := range []struct {
		nodes, memory int64
		w             worst
		want          plan
	}{
		{1 << 21, 2048 * mib, w, plan{workers: 8}},
		{1 << 21, 320 * mib, w, plan{workers: 2}},
		{1 << 31, 4096 * mib, w, plan{workers: 8, hash: true}}, // arrays of 8 GiB each
		{1 << 31, 1 << 40, w, plan{workers: 8}},
		{1 << 32, 1 << 40, w, plan{workers: 8, hash: true}}, // beyond what arrays can number
		{1 << 21, 64 * mib, w, plan{workers: 1, share: 64 * mib}},
		{1 << 25, 200 * mib, worst{1 << 25, 1 << 24, 1 << 28}, plan{workers: 1, hash: true, share: 200 * mib}},
	} {
		o := Options{Workers: 8, BatchSize: 1024, Memory: c.memory}
		got, err := divide(&o, 0, c.nodes, c.w)
		if err != nil || got != c.want {
			t.Errorf("%d nodes, %d MiB: %+v, %v", c.nodes, c.memory/mib, got, err)
		}
	}
	o := Options{Workers: 8, BatchSize: 1024, Memory: mib}
	if p, err := divide(&o, mib-9999, 1<<21, w); !errors.Is(err, fault.ErrBudget) {
		t.Errorf("ten kilobytes: %+v, %v", p, err)
	}
}
