package cpu

import (
	"fmt"
	"math"
	"strings"

	"diskgnn/graph"
	"diskgnn/train/model"
)

// typedReference is the typed models written out in float64, a node at a time, as HeteroConv and RGCNConv compute them:
// with dictionaries by type.
type typedReference struct {
	m       *model.Model
	params  map[string][]float64
	factors [][]float64 // of hidden units: see reference
	leaks   bool        // units below zero count, where they are not dropped: the activation is ELU
}

func newTypedReference(e *Engine) *typedReference {
	r := &typedReference{m: e.plan.model, params: map[string][]float64{}, leaks: e.plan.model.Unit() == model.ELU}
	for _, p := range e.Values() {
		r.params[p.Name] = widen(p.Data)
	}
	return r
}

// times adds v·W to z, where W is inputs by outputs.
func times(z, v, w []float64) {
	for c := range z {
		for k := range v {
			z[c] += v[k] * w[k*len(z)+c]
		}
	}
}

func plus(z, v []float64) {
	for c := range z {
		z[c] += v[c]
	}
}

// name returns the beginning of the names of a relation's parameters.
func (r *typedReference) name(l int, t *graph.Types, k graph.Relation) string {
	name := fmt.Sprintf("<%s___%s___%s>", t.Nodes[k.Source].Name, k.Name, t.Nodes[k.Destination].Name)
	return fmt.Sprintf("convs.%d.convs.%s.", l, strings.ReplaceAll(name, ".", "#"))
}

// logits returns the logits of the seed nodes. x has a row for every source of the outermost block.
func (r *typedReference) logits(b *graph.Batch, x []float64) []float64 {
	h := make([][]float64, b.Blocks[0].NumSrc) // by position; nil: the type has no representation
	for i := range h {
		h[i] = x[i*r.m.Features() : (i+1)*r.m.Features()]
	}
	present := map[int]bool{}
	for kind := range b.Types.Nodes {
		present[kind] = true
	}
	for l := range b.Blocks {
		h, present = r.layer(b, l, h, present)
	}
	var z []float64
	for _, row := range h {
		z = append(z, row...)
	}
	return z
}

// layer returns a layer's output rows by position, and the types that have any.
func (r *typedReference) layer(b *graph.Batch, l int, h [][]float64, present map[int]bool) (next [][]float64, out map[int]bool) {
	k, t, row, dst := &b.Blocks[l], b.Types, 0, 0
	out = map[int]bool{}
	for _, rel := range t.Relations {
		if present[rel.Source] {
			out[rel.Destination] = true
		}
	}
	for kind := range t.Nodes {
		if r.m.Kind == model.RGCN {
			out[kind] = true
		}
		for range int(b.DstEnds(l)[kind]) - dst {
			z, own := make([]float64, r.m.Out(l)), h[k.Dst[dst]]
			for i, rel := range t.Relations {
				if rel.Destination != kind {
					continue
				}
				var sources [][]float64
				for _, s := range k.Indices[k.Indptr[row]:k.Indptr[row+1]] {
					sources = append(sources, h[s])
				}
				row++
				if present[rel.Source] {
					r.relate(z, l, i, rel, t, sources, own)
				}
			}
			if r.m.Kind == model.RGCN {
				times(z, own, r.params[fmt.Sprintf("convs.%d.root", l)])
				plus(z, r.params[fmt.Sprintf("convs.%d.bias", l)])
			}
			if !out[kind] {
				z = nil
			}
			if l < r.m.Layers()-1 {
				r.activate(z, l, dst)
			}
			next, dst = append(next, z), dst+1
		}
	}
	return next, out
}

func (r *typedReference) activate(z []float64, l, i int) {
	for c, v := range z {
		switch {
		case v >= 0:
		case r.leaks:
			z[c] = math.Expm1(v)
		default:
			z[c] = 0
		}
		if r.factors != nil {
			z[c] *= r.factors[l][i*len(z)+c]
		}
	}
}

// relate adds relation i's part of a destination.
func (r *typedReference) relate(z []float64, l, i int, rel graph.Relation, t *graph.Types, sources [][]float64, own []float64) {
	name, in := r.name(l, t, rel), r.m.In(l)
	mean := make([]float64, in)
	for _, s := range sources {
		for c := range mean {
			mean[c] += s[c] / float64(len(sources))
		}
	}
	switch r.m.Kind {
	case model.RGAT:
		r.attend(z, name, sources, own, l == r.m.Layers()-1)
	case model.RSAGE:
		times(z, mean, r.params[name+"lin_l.weight"])
		plus(z, r.params[name+"lin_l.bias"])
		times(z, own, r.params[name+"lin_r.weight"])
	case model.RGCN:
		weight, size := r.params[fmt.Sprintf("convs.%d.weight", l)], in*len(z)
		if r.m.Bases == 0 {
			times(z, mean, weight[i*size:(i+1)*size])
			return
		}
		w := make([]float64, size)
		for j := range r.m.Bases {
			for e := range w {
				w[e] += r.params[fmt.Sprintf("convs.%d.comp", l)][i*r.m.Bases+j] * weight[j*size+e]
			}
		}
		times(z, mean, w)
	}
}

// attend adds GATConv's output for a destination, without self-loops.
func (r *typedReference) attend(z []float64, name string, sources [][]float64, own []float64, last bool) {
	heads, asrc, adst := r.m.Heads, r.params[name+"att_src"], r.params[name+"att_dst"]
	part := len(asrc) / heads
	project := func(x []float64) []float64 {
		h := make([]float64, heads*part)
		times(h, x, r.params[name+"lin.weight"])
		return h
	}
	dot := func(a, b []float64) (sum float64) {
		for i := range a {
			sum += a[i] * b[i]
		}
		return sum
	}
	mine := project(own)
	for k := range heads {
		of := func(v []float64) []float64 { return v[k*part : (k+1)*part] }
		var weights []float64
		sum := 0.0
		for _, s := range sources {
			score := dot(of(asrc), of(project(s))) + dot(of(adst), of(mine))
			if score < 0 {
				score *= 0.2
			}
			weights = append(weights, math.Exp(score))
			sum += math.Exp(score)
		}
		for e, s := range sources {
			for c, v := range of(project(s)) {
				if last {
					z[c] += weights[e] / sum * v / float64(heads)
				} else {
					z[k*part+c] += weights[e] / sum * v
				}
			}
		}
	}
	plus(z, r.params[name+"bias"])
}

func (r *typedReference) loss(b *graph.Batch, x []float64) float64 {
	return plainLoss(b, r.logits(b, x), r.m.Classes())
}
