package onthefly

import (
	"slices"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/featurestore"
	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler/topology"
)

var _ featurestore.Lists = (*Source)(nil)

// A store chooses whose in-neighbours are held by how often the dry pass drew from them, which
// is once for each hop that has the node as a destination. What is held then is the store's to
// count, and batches stay what they are.
func TestStoresChooseLists(t *testing.T) {
	data := create(t, datasettest.Params{Nodes: 3000, AvgDegree: 9, Seed: 4})
	of := Options{Dataset: data, Params: params(64, 2, []int{3, 4}, []int{3, 4}), DryEpochs: 1,
		Topology: topology.Choice{Level: topology.Cached}, Choose: true}
	plain := of
	plain.Topology, plain.Choose = topology.Choice{}, false
	mapped, s := open(t, plain), open(t, of)
	if mapped.Draws() != nil {
		t.Error("a mapped topology leaves a choice")
	}
	draws, before, beforeLoader := make([]uint32, 3000), s.TableBytes(), s.TopologyBytes()
	train, _, _ := newLoaders(t, s)
	for i := range s.Facts().BatchesPerEpoch {
		b, err := load(train, featurestore.Ref{Index: i})
		if err != nil {
			t.Fatal(err)
		}
		for l := range b.Blocks {
			of := b.Input // of the block's sources
			for k := range l {
				dst := make([]uint32, b.Blocks[k].NumDst)
				for i := range dst {
					dst[i] = of[b.Blocks[k].DstPos(i)]
				}
				of = dst
			}
			for i := range b.Blocks[l].NumDst {
				draws[of[b.Blocks[l].DstPos(i)]]++
			}
		}
	}
	if !slices.Equal(s.Draws(), draws) || beforeLoader != 0 {
		t.Errorf("draws %v, want %v; %d bytes are held", s.Draws(), draws, beforeLoader)
	}
	if c := train.Counts(); c.TopologyRead == 0 {
		t.Error("nothing is read")
	}
	var nodes []uint32
	sum := int64(0)
	for v, n := range draws {
		if n > 0 {
			nodes = append(nodes, uint32(v))
			sum += s.ListBytes(uint32(v))
		}
	}
	read, err := s.HoldLists(t.Context(), nodes, progress.Discard)
	if err != nil || read == 0 {
		t.Fatal(read, err)
	}
	if s.TableBytes() != before || s.HostBytes() != topology.StackBytes || s.TopologyBytes() > s.ListsBytes(sum) || s.TopologyBytes() < sum {
		t.Errorf("%d bytes without lists, before %d; the lists take %d of %d", s.TableBytes(), before, s.TopologyBytes(), s.ListsBytes(sum))
	}
	if free := s.free(); free != s.options.Memory-budget.Reserve-before-s.TopologyBytes() {
		t.Errorf("%d bytes are free to draw with", free)
	}
	if _, err := load(train, featurestore.Ref{}); err != nil {
		t.Fatal(err)
	}
	if c := train.Counts(); c.TopologyRead != 0 {
		t.Errorf("%d bytes are read of lists that are held", c.TopologyRead)
	}
}

// What a user says of a topology is no store's choice.
func TestUsersChooseLists(t *testing.T) {
	share := cachedShare(10)
	for _, c := range []struct {
		topology topology.Choice
		choose   bool
		want     bool
	}{
		{topology.Choice{Level: topology.Cached}, true, true},
		{topology.Choice{Level: topology.Cached}, false, false},
		{topology.Choice{Level: topology.Mapped}, true, false},
		{share, true, false},
		{topology.Choice{Level: topology.Cached, Order: topology.ByDegree}, true, false},
	} {
		if o := (Options{Topology: c.topology, Choose: c.choose}); o.chooses() != c.want {
			t.Errorf("%+v: %t", c, !c.want)
		}
	}
}

// LABOR and the fanout all look at every neighbour: a draw reads all pages of a list.
func TestDrawsThatLookAtAll(t *testing.T) {
	data := create(t, datasettest.Params{Nodes: 60, AvgDegree: 4000, Seed: 1})
	whole := []int64{}
	for _, p := range []mbfile.Params{params(8, 1, []int{mbfile.AllNeighbours}, []int{1}), func() mbfile.Params {
		p := params(8, 1, []int{1}, []int{1})
		p.Method = mbfile.Labor
		return p
	}(), params(8, 1, []int{1}, []int{1})} {
		s := open(t, Options{Dataset: data, Params: p, DryEpochs: 1, Topology: topology.Choice{Level: topology.Cached}, Choose: true})
		whole = append(whole, s.ListRead(0))
	}
	if whole[0] <= 4096 || whole[1] != whole[0] || whole[2] != 4096 {
		t.Errorf("bytes of a draw: %v", whole)
	}
}
