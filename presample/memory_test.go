package presample

import (
	"testing"
)

func TestBound(t *testing.T) {
	for _, c := range []struct {
		nodes, edges int64
		seeds        int
		fanout       []int
		want         extent
	}{
		// 10 seeds draw 3 each: 30 edges, 40 nodes; those draw 2: 80 edges, 120 nodes.
		{1000, 9999, 10, []int{2, 3}, extent{nodes: 120, dst: 50, edges: 110}},
		{100, 9999, 10, []int{2, 3}, extent{nodes: 100, dst: 50, edges: 110}}, // no more than there are
		{1000, 50, 10, []int{2, 3}, extent{nodes: 90, dst: 50, edges: 80}},
		{1000, 5000, 10, []int{all, 3}, extent{nodes: 1000, dst: 50, edges: 5030}},
		{5, 7, 10, []int{1}, extent{nodes: 5, dst: 5, edges: 5}},
	} {
		if got := bound(c.nodes, c.edges, c.seeds, c.fanout); got != c.want {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

func TestDivide(t *testing.T) {
	const mib = 1 << 20
	most := bound(1<<21, 40_000_000, 1024, []int{10, 15, 20})
	likely := extent{nodes: 400_000, dst: 60_000, edges: 1_400_000}
	for _, c := range []struct {
		nodes, free int64
		extent
		want plan
	}{
		{1 << 21, 2048 * mib, most, plan{workers: 8, share: 256 * mib}},
		{1 << 21, 400 * mib, most, plan{workers: 2, share: 200 * mib}},
		{1 << 21, 320 * mib, likely, plan{workers: 8, share: 40 * mib}},
		{1 << 31, 4096 * mib, most, plan{workers: 8, hash: true, share: 512 * mib}}, // arrays of 8 GiB each
		{1 << 31, 1 << 40, most, plan{workers: 8, share: 1 << 37}},
		{1 << 32, 1 << 40, most, plan{workers: 8, hash: true, share: 1 << 37}}, // beyond what arrays number
		{1 << 21, 64 * mib, most, plan{workers: 1, share: 64 * mib}},           // may turn out not to fit
	} {
		if got := divide(8, c.free, c.nodes, c.extent); got != c.want {
			t.Errorf("%d nodes, %d MiB: %+v, want %+v", c.nodes, c.free/mib, got, c.want)
		}
	}
	if got, want := (plan{workers: 7, hash: true, share: 10}).halved(), (plan{workers: 3, hash: true, share: 23}); got != want {
		t.Errorf("halved: %+v, want %+v", got, want)
	}
}

func TestTwice(t *testing.T) {
	if got, want := (extent{10, 20, 30}).twice(extent{15, 100, 45}), (extent{15, 40, 45}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
