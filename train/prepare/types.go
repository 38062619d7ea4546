package prepare

import (
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/train/model"
)

// rows returns the most rows of block l.
func (r *Preparer) rows(l int) int {
	if r.types == nil {
		return r.sizes.Dst[l]
	}
	return r.sizes.RowsOf(l)
}

// checkTypes checks that a batch is of the graph that the model is for.
func (r *Preparer) checkTypes(b *graph.Batch) error {
	switch t := r.types; {
	case t == nil && b.Types == nil:
		return nil
	case t == nil:
		return fault.New(fault.ErrInput, "prepare: the batch has %d node types, but the model is for graphs without", len(b.Types.Nodes))
	case b.Types == nil:
		return fault.New(fault.ErrInput, "prepare: the model is for graphs with node types, but the batch has none")
	case !sameTypes(t, b.Types):
		return fault.New(fault.ErrInput, "prepare: the batch has other node types or relations than the model")
	case b.SeedType != t.Seed:
		return fault.New(fault.ErrInput, "prepare: the seed nodes have type %s, but the model has logits for type %s", b.Types.Nodes[b.SeedType].Name, t.Nodes[t.Seed])
	}
	return nil
}

func sameTypes(t *model.Types, g *graph.Types) bool {
	if len(t.Nodes) != len(g.Nodes) || len(t.Relations) != len(g.Relations) {
		return false
	}
	for i, name := range t.Nodes {
		if name != g.Nodes[i].Name {
			return false
		}
	}
	for i, k := range t.Relations {
		if k != model.Relation(g.Relations[i]) {
			return false
		}
	}
	return true
}

// endTypes sets Ends of block l.
func (p *Block) endTypes(b *graph.Batch, l int) {
	p.Ends = p.Ends[:len(b.Types.Nodes)]
	if l+1 < len(b.Blocks) {
		copy(p.Ends, b.Blocks[l+1].Ends)
		return
	}
	for kind := range p.Ends {
		if p.Ends[kind] = 0; kind >= b.SeedType {
			p.Ends[kind] = uint32(b.NumSeeds())
		}
	}
}
