package cut

import (
	"errors"
	"slices"
	"testing"

	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/idset"
	"diskgnn/internal/shard"
	"diskgnn/pack/packfile"
	"diskgnn/presample/mbfile"
)

// TestPackBytesByHand adds up the files of a pack of 130 training batches, in three groups, by segments of two
// batches and of one.
func TestPackBytesByHand(t *testing.T) {
	d := costs{
		facts: packfile.Facts{RowBytes: 100, Train: 130, Valid: 3, Test: 4},
		form:  packfile.Form{RowBytes: 100},
		edges: []int64{500, 300}, eval: []int64{20, 50}, graphs: 8192,
	}
	const (
		hot       = 50_000 + 32 + 12*4       // 500 rows, which begin 12 pages after the first
		eval      = 2_000 + 32               // 20 rows
		cold      = 100_000 + 130*4095       // 1000 rows, each batch from a page on
		ssd       = 70_000 + 65*4095         // 700 rows, each segment from a page on: 82 whole pages
		sums      = 32 + 82*4                // of ssd
		places    = 4*900 + 7 + 130*(6+4095) // of the rows that a batch takes from a segment
		batches   = 130*(60+2*16) + 7*40     // entries of the index, with two bands for training
		pieces    = 4 * 130 * 2              // one for each batch and band
		head      = 64 + 2*8 + 4096          // of the index, and meta.json
		file      = 256                      // for a file's part in meta.json
		unshared  = hot + eval + cold + batches + pieces + head
		segmented = ssd + sums + 3*36 + places + 65*12 // in each of three groups, and for each of 65 segments
	)
	if got, want := d.bytes(0, level{cold: 1000, segment: 1}), int64(8192+unshared+(8+6)*file); got != want {
		t.Errorf("segments of one batch: %d bytes, want %d", got, want)
	}
	if got, want := d.bytes(0, level{cold: 1000, ssd: 700, uses: 900, segment: 2}), int64(8192+unshared+segmented+(8+6+6)*file); got != want {
		t.Errorf("segments of two batches: %d bytes, want %d", got, want)
	}
}

// TestEvalChunksByHand counts uses of the ranks 0 to 9 by three batches, of which one trains and one validates, at
// edges of 8, 5 and 2, and adds up their files.
func TestEvalChunksByHand(t *testing.T) {
	d := costs{facts: packfile.Facts{RowBytes: 100, Train: 1, Valid: 1, Test: 1}, edges: []int64{8, 5, 2}, eval: []int64{0, 0, 0}, form: packfile.Form{RowBytes: 100}}
	without := d.bytes(0, unshared(0))
	if d.evalChunks(false)(1, 9); d.evalCold != nil || d.evalChunkRows() != 0 {
		t.Errorf("counted without being wanted: %v", d.evalCold)
	}
	use := d.evalChunks(true)
	for batch := 1; batch < 3; batch++ {
		for rank := uint32(1); rank < 10; rank++ {
			use(batch, rank)
		}
	}
	if want := []int64{2, 3, 4}; !slices.Equal(d.evalCold, want) { // the last edge has ranks 2, 3, 4 and, as under min, 1
		t.Errorf("rows by edge: %v, want %v", d.evalCold, want)
	}
	const chunk = 400 + 4095
	if got, want := d.bytes(0, unshared(0))-without, int64(chunk+32+chunk/4096*4+2*12+2*256); d.evalChunkRows() != 4 || got != want {
		t.Errorf("%d rows, %d bytes, want %d", d.evalChunkRows(), got, want)
	}
	if d.edges = d.edges[:2]; d.evalChunkRows() != 3 {
		t.Errorf("%d rows at the second edge", d.evalChunkRows())
	}
}

// TestEvalChunksOfShards: the first of two shards of two groups has all chunks of validation batches.
func TestEvalChunksOfShards(t *testing.T) {
	for i, want := range []int64{1000*4 + 300, 300} {
		d := Decision{Facts: packfile.Facts{Train: 128, Segment: 1, RowBytes: 4, HotRows: 100, EvalRows: 200}, EvalCold: 700, Bytes: 1000*4 + 600}
		d.Part = packfile.PartOf(shard.Shard{Index: i, Count: 2}, &d.Facts)
		if got := d.ownBytes(0); got != want {
			t.Errorf("shard %d: %d bytes, want %d", i, got, want)
		}
	}
}

// TestSlotBytesByHand counts the memory of the larger batch, three times, and a mebibyte.
func TestSlotBytesByHand(t *testing.T) {
	large := mbfile.Summary{Max: graph.Sizes{Src: []int{100, 20}, Dst: []int{20, 5}, Edges: []int{300, 50}}}
	small := mbfile.Summary{Max: graph.Sizes{Src: []int{10}, Dst: []int{5}, Edges: []int{30}}}
	const want = 3*(4*300+8*20+4*50+8*5+48*100+4*5) + 1<<20 // edges, destinations, sources, targets
	if got := SlotBytes(mbfile.Facts{TargetBytes: 4, Train: small}); got != 3*(4*30+8*5+48*10+4*5)+1<<20 {
		t.Errorf("%d bytes for one layer", got)
	}
	for _, s := range []mbfile.Facts{{TargetBytes: 4, Train: large, Eval: small}, {TargetBytes: 4, Train: small, Eval: large}, {TargetBytes: 4, Eval: large}} {
		if got := SlotBytes(s); got != want {
			t.Errorf("%d bytes, want %d", got, want)
		}
	}
}

// TestSlotsByHand divides the memory beside the tables of a graph of 1000 nodes among batches of half a
// mebibyte in a census. In a simulation they are larger.
func TestSlotsByHand(t *testing.T) {
	s := mbfile.Facts{Nodes: 1000}
	census := HeldMemory(1000) + RecordMemory(s) + censusMemory(1000)
	simulated, batch := simulationMemory(1000, 10, 0), traceSlotBytes(s)+1<<16
	for _, c := range []struct {
		workers int
		batches int64 // that there is memory for
		more    int64 // bytes
		want    int
	}{{7, 3, 0, 3}, {7, 4, -1, 3}, {2, 3, 0, 3}, {1, 3, 0, 2}, {7, 1, 0, 1}, {7, 1, -1, 0}} {
		for name, slots := range map[string]func() (int, error){
			"census":     func() (int, error) { return censusSlots(s, c.workers, census+c.batches<<19+c.more) },
			"simulation": func() (int, error) { return simulationSlots(s, 10, 5, c.workers, 5+simulated+c.batches*batch+c.more) },
		} {
			if got, err := slots(); got != c.want || errors.Is(err, fault.ErrBudget) != (c.want == 0) {
				t.Errorf("%s, %+v: %d, %v", name, c, got, err)
			}
		}
	}
}

// TestSettleByHand takes 10 rows of batches and 3 of segments, with 4 bytes of scratch for each.
func TestSettleByHand(t *testing.T) {
	c := &Counts{Eval: idset.New(8), Rank: make([]uint32, 8), costs: costs{facts: packfile.Facts{RowBytes: 4}, edges: []int64{2}, eval: []int64{1}}}
	c.Facts = packfile.Facts{Nodes: 8, Train: 4}
	if d := c.settle(0, level{cold: 10, ssd: 3, segment: 2}); d.Cold != 10 || d.SSD != 3 || d.Shared != 3 || d.Scratch != 52 || d.Facts.HotRows != 2 || d.Facts.EvalRows != 1 || d.Facts.Segments != 2 {
		t.Errorf("%+v", d)
	}
}

// TestAmplification is 1 for rows that are not shared, and looked up for others that were measured.
func TestAmplification(t *testing.T) {
	q := &planner{Counts: &Counts{census: &Census{Segments: []int{1, 2}}}, pages: map[pageKey]float64{{0, 1, 16}: 3, {0, 2, 16}: 1.5}}
	for i, want := range []float64{1, 1.5} {
		if got, err := q.amplification(t.Context(), 0, i, 16); got != want || err != nil {
			t.Errorf("segments of %d batches: %v, %v, want %v", i+1, got, err, want)
		}
	}
}
