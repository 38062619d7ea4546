package train

import (
	"fmt"

	"diskgnn/featurestore"
	"diskgnn/internal/memgroup"
	"diskgnn/train/decide"
)

func enterGroup(limit int64, delegated bool) (group, error) {
	g, err := memgroup.Enter(limit, delegated)
	if err != nil {
		return nil, err
	}
	return g, nil
}

// confine puts the process into a memory cgroup with the planned limit, if the store leaves rows to
// the page cache and the options ask for it. It runs before any memory is taken: memory that a
// process already has is not charged to the cgroup. Without a cgroup the store drops pages by
// itself.
func (r *runner) confine(enter func(limit int64, delegated bool) (group, error)) error {
	c, ok := r.found.(featurestore.Confinable)
	if how := r.decision.Options.PageCache; !ok || how == "" || how == decide.PageCacheDrop {
		return nil
	}
	must := r.decision.Options.PageCache == decide.PageCacheCgroup
	l, ok := c.Confine(r.decision.Memory.Layout)
	if !ok {
		return nil // Layout.Note names the method in use
	}
	g, err := enter(r.decision.Memory.Total, !must)
	if err != nil && must {
		return fmt.Errorf("--page-cache %s: %w", r.decision.Options.PageCache, err)
	}
	if err != nil {
		r.decision.Memory.Layout.Note += fmt.Sprintf(" (no memory cgroup: %v)", err)
		return nil
	}
	r.decision.Memory.Layout, r.decision.Grouped = l, true
	r.onClose(func() {
		if err := g.Leave(); err != nil {
			r.report.Logf("%v", err)
		}
	})
	return nil
}
