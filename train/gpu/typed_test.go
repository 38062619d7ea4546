package gpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/graph"
	"diskgnn/graph/graphtest"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
)

// typedVariants are the typed models. Dims, dropout and types are the test's.
var typedVariants = map[string]model.Model{
	"rsage":       {Kind: model.RSAGE},
	"rsage elu":   {Kind: model.RSAGE, Activation: model.ELU},
	"rgcn":        {Kind: model.RGCN},
	"rgcn, bases": {Kind: model.RGCN, Bases: 2},
	"rgat":        {Kind: model.RGAT, Heads: 2},
	"rgat, 4":     {Kind: model.RGAT, Heads: 4, Activation: model.ReLU},
}

// Typed models compute the same as on the CPU, on graphs with types that no relation leads to, and types without
// features.
func TestTypedStepsLikeCPU(t *testing.T) {
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		for name, m := range typedVariants {
			for seed := range uint64(5) {
				types := graphtest.Types(rand.New(rand.NewPCG(seed, 9)), 2000)
				if seed == 4 {
					types = mostlyShared()
				}
				m.Types, m.Dims, m.Dropout = recipe.Types(types, 0), []int{5, 12, 3}, []float64{0, 0.4}[seed%2]
				if seed == 3 {
					m.Dims = []int{5, 12, 8, 3}
				}
				if m.Validate() != nil {
					continue // the seed nodes would have no logits
				}
				t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
					compareOn(t, d, m, seed, seed%2 == 0, 0, "", func(s graphtest.Shape, rng *rand.Rand) *graph.Batch { return s.Typed(rng, types) })
				})
			}
		}
	})
}

// mostlyShared has types of which most nodes share a row of features: batches have fewer input nodes than sources of the
// second block.
func mostlyShared() *graph.Types {
	t := &graph.Types{Nodes: []graph.NodeType{{Name: "paper", Count: 2000, Features: true}}}
	for i := range 9 {
		t.Nodes = append(t.Nodes, graph.NodeType{Name: fmt.Sprintf("type%d", i), Count: 2000})
		t.Relations = append(t.Relations, graph.Relation{Source: i + 1, Name: "to"})
	}
	for i := range 9 {
		t.Relations = append(t.Relations, graph.Relation{Name: "of", Destination: i + 1})
	}
	if err := t.Check(); err != nil {
		panic(err)
	}
	return t
}
