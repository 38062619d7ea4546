package packed

import "diskgnn/pack/packfile"

// PlanEval returns the layout of a store that loads each evaluation batch once and
// nothing else. It has no cache: to fill one would read more than it saves.
func PlanEval(r *packfile.Reader) Layout {
	l := layout(r, len(r.Index().Edges)-1, new(PlanOptions), 0)
	l.CacheRows, l.RAMBytes = 0, 0
	return l
}
