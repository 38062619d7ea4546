package samplertest

import (
	"cmp"
	"math"
	"math/big"
	"slices"

	"diskgnn/graph"
	"diskgnn/internal/rng"
	"diskgnn/presample/mbfile"
)

// Lots returns the number by which LABOR chooses an edge: the lower it is, the sooner the edge is
// taken. The edge comes from node v, behind the given number of parallel edges.
type Lots func(hop int, v uint32, behind int) *big.Int

// Labor draws a batch by LABOR: it sorts all neighbours. Labels are left out.
func Labor(g *graph.CSC, seeds []uint32, fanout []int, lots Lots) *graph.Batch {
	return sample(g, seeds, fanout, func(hop int, v uint32, n, k int) []int {
		at := Draw(n, mbfile.AllNeighbours, 0)
		if k == mbfile.AllNeighbours || n <= k {
			return at
		}
		list, lot := g.Neighbors(v), make([]*big.Int, n)
		for i, u := range list {
			first := i
			for first > 0 && list[first-1] == u {
				first--
			}
			lot[i] = lots(hop, u, i-first)
		}
		slices.SortStableFunc(at, func(i, j int) int {
			return cmp.Or(lot[i].Cmp(lot[j]), cmp.Compare(list[i], list[j]))
		})
		at = at[:k]
		slices.Sort(at)
		return at
	})
}

// Which names the batch that lots are for: a batch of a training epoch, which has PerEpoch batches, or
// of an evaluation, with the Epoch that it draws as and a PerEpoch of 0.
type Which struct {
	Epoch           uint64
	Index, PerEpoch int
}

// LotsOf returns the lots of a batch.
func LotsOf(p mbfile.Params, of Which) Lots {
	return func(hop int, v uint32, behind int) *big.Int {
		if p.LayerDependency {
			hop = 0
		}
		key := func(words ...uint64) uint64 {
			words = append(words, uint64(hop), uint64(v))
			if behind > 0 {
				words = append(words, uint64(behind))
			}
			return rng.Key(words...)
		}
		if p.BatchDependency == 0 {
			return new(big.Int).SetUint64(key(p.Seed, 5, of.Epoch, uint64(of.Index)))
		}
		epoch, i := of.Epoch, of.Index
		if of.PerEpoch > 0 {
			epoch, i = 0, i+of.PerEpoch*int(of.Epoch)
		}
		group, f := uint64(i/p.BatchDependency), float64(i%p.BatchDependency)/float64(p.BatchDependency)
		sin, cos := math.Sincos(math.Pi / 2 * f)
		sum := new(big.Int)
		for i, weight := range []float64{cos, sin} {
			n := normal(key(p.Seed, 6, epoch, group+uint64(i)))
			sum.Add(sum, n.Mul(n, big.NewInt(int64(math.Round(weight*(1<<24))))))
		}
		return sum
	}
}

// normal returns 2³² times the set bits of one random word, above 32, and the difference of
// another's halves.
func normal(key uint64) *big.Int {
	src := rng.New(key)
	bits, halves := src.Uint64(), src.Uint64()
	n := big.NewInt(-32)
	for b := range 64 {
		n.Add(n, big.NewInt(int64(bits>>b&1)))
	}
	n.Lsh(n, 32)
	n.Add(n, big.NewInt(int64(halves>>32)))
	return n.Sub(n, big.NewInt(int64(halves%(1<<32))))
}
