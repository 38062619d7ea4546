package decide

import (
	"encoding/json"
	"fmt"

	"diskgnn/train/engine"
	"diskgnn/train/rundir"
)

// Identity is the part of a decision that decides the weights. It is the same on all ranks, which
// may differ in memory, paths and devices.
type Identity struct {
	Pack       string      `json:"pack,omitempty"`
	Samples    string      `json:"samples,omitempty"`
	Dataset    string      `json:"dataset"`
	Store      string      `json:"store"`
	Recipe     string      `json:"recipe"` // as JSON
	Engine     string      `json:"engine"`
	Arithmetic engine.Info `json:"arithmetic"`
}

// Identity returns the identity of the run with this run.json.
func (d *Decision) Identity(f *rundir.File) (Identity, error) {
	l := d.Facts.Store.Lineage
	text, err := json.Marshal(f.Params)
	return Identity{Pack: l.Store, Samples: l.Samples, Dataset: l.Dataset, Store: f.Store,
		Recipe: string(text), Engine: f.Setup.Engine, Arithmetic: f.Setup.Info}, err
}

// Differs describes, in a clause for the user, the first difference between a rank's identity and rank
// 0's, root; "" if they are equal.
func (t *Identity) Differs(root *Identity) string {
	short := func(s string) string {
		if s == "" {
			return "none"
		}
		return fmt.Sprintf("%.12s…", s)
	}
	switch {
	case t.Pack != root.Pack:
		return fmt.Sprintf("its pack is %s, rank 0's is %s", short(t.Pack), short(root.Pack))
	case t.Samples != root.Samples:
		return fmt.Sprintf("its samples are %s, rank 0's are %s", short(t.Samples), short(root.Samples))
	case t.Dataset != root.Dataset:
		return fmt.Sprintf("its dataset is %s, rank 0's is %s", short(t.Dataset), short(root.Dataset))
	case t.Store != root.Store:
		return fmt.Sprintf("its store is %s, rank 0's is %s", t.Store, root.Store)
	case t.Engine != root.Engine:
		return fmt.Sprintf("its engine is %s, rank 0's is %s", t.Engine, root.Engine)
	case t.Recipe != root.Recipe:
		var a, b rundir.Params
		if json.Unmarshal([]byte(t.Recipe), &a) == nil && json.Unmarshal([]byte(root.Recipe), &b) == nil {
			for _, d := range a.Difference(&b.Recipe) {
				return fmt.Sprintf("its --%s is %v, rank 0's is %v", d.Flag, d.Value, d.Than)
			}
		}
		return "its options differ from rank 0's"
	}
	if d := DifferentArithmetic(&root.Arithmetic, t.Arithmetic); d != "" {
		return "its results would differ in rounding: " + d
	}
	return ""
}
