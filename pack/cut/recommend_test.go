package cut

import (
	"strings"
	"testing"
)

// Of samples without training batches a trainer holds no batch.
func TestTrainerSlotWithoutTraining(t *testing.T) {
	if got := (&planner{Counts: &Counts{}}).trainerSlot(16); got != 0 {
		t.Errorf("%d bytes", got)
	}
}

// The choices are of two caches and two lengths of segments, then of a narrower type.
func TestRecommendByHand(t *testing.T) {
	const gib = 1 << 30
	choices := func() []Choice {
		return []Choice{
			{DType: "float32", CacheRows: 50, DiskBytes: 40 * gib, RAMBytes: 2 * gib, EpochSeconds: 100, BreakEven: 1},
			{DType: "float32", CacheRows: 50, DiskBytes: 20 * gib, RAMBytes: 2 * gib, EpochSeconds: 120, BreakEven: 1},
			{DType: "float32", CacheRows: 90, DiskBytes: 30 * gib, RAMBytes: 4 * gib, EpochSeconds: 60, BreakEven: 2},
			{DType: "float32", CacheRows: 90, DiskBytes: 18 * gib, RAMBytes: 4 * gib, EpochSeconds: 65, BreakEven: 2},
			{DType: "bfloat16", CacheRows: 50, DiskBytes: 10 * gib, RAMBytes: 1 * gib, EpochSeconds: 50, BreakEven: 1},
			{DType: "bfloat16", CacheRows: 90, DiskBytes: 10 * gib, RAMBytes: 2 * gib, EpochSeconds: 50, BreakEven: 1},
		}
	}
	for name, c := range map[string]struct {
		memory, free, limit int64
		change              func([]Choice)
		want                int
		why                 string
	}{
		"nearly as fast, and smaller": {8 * gib, 100 * gib, 0, nil, 3, "fit in 8.00 GiB of memory and 100.00 GiB of free disk"},
		"too slow to be smaller":      {8 * gib, 100 * gib, 0, func(l []Choice) { l[3].EpochSeconds = 67 }, 2, "smallest"},
		"little memory":               {3 * gib, 100 * gib, 0, nil, 0, "3.00 GiB of memory"},
		"little memory and disk":      {3 * gib, 30 * gib, 0, nil, 1, "30.00 GiB of free disk"},
		"a limit":                     {3 * gib, 100 * gib, 30 * gib, nil, 1, "30.00 GiB of --max-disk"},
		"another type, less cache":    {8 * gib, 12 * gib, 0, nil, 4, "no pack of float32 pays and fits"},
		"those that never pay":        {8 * gib, 100 * gib, 0, func(l []Choice) { l[2].BreakEven, l[3].BreakEven = 0, 0 }, 0, "that pay"},
		"none pays": {8 * gib, 100 * gib, 0, func(l []Choice) {
			for i := range l {
				l[i].BreakEven = 0
			}
		}, None, "no pack pays"},
		"none fits": {8 * gib, gib, 0, nil, None, "no pack fits in 8.00 GiB of memory and 1.00 GiB of free disk"},
	} {
		p := Plan{Choices: choices()}
		p.Params.MaxDisk = c.limit
		if c.change != nil {
			c.change(p.Choices)
		}
		p.Recommend(c.memory, c.free)
		if p.Recommended != c.want || !strings.Contains(p.Why, c.why) {
			t.Errorf("%s: %d, %q; want %d, %q", name, p.Recommended, p.Why, c.want, c.why)
		}
	}
}
