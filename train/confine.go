package train

import (
	"fmt"

	"diskgnn/featurestore"
	"diskgnn/internal/memgroup"
)

// group is a memory cgroup that the process is in.
type group interface{ Leave() error }

func enterGroup(limit int64, delegated bool) (group, error) {
	g, err := memgroup.Enter(limit, delegated)
	if err != nil {
		return nil, err
	}
	return g, nil
}

// confine puts the process into a memory cgroup of what was planned, if the store leaves rows
// to the page cache and the options want it: before any memory is taken, since what a process
// has already is not charged to the cgroup. Without one the store drops pages by itself.
func (r *runner) confine(enter func(limit int64, delegated bool) (group, error)) error {
	c, ok := r.found.(featurestore.Confinable)
	if how := r.options.PageCache; !ok || how == "" || how == PageCacheDrop {
		return nil
	}
	must := r.options.PageCache == PageCacheCgroup
	l, ok := c.Confine(r.plan.layout)
	if !ok {
		return nil // its note says what is done instead
	}
	g, err := enter(r.plan.total, !must)
	if err != nil && must {
		return fmt.Errorf("--page-cache %s: %w", r.options.PageCache, err)
	}
	if err != nil {
		r.plan.layout.Note += fmt.Sprintf(" (no memory cgroup: %v)", err)
		return nil
	}
	r.around, r.plan.layout = g, l
	return nil
}

// release ends what confine did.
func (r *runner) release() {
	if r.around == nil {
		return
	}
	if err := r.around.Leave(); err != nil {
		r.report.Logf("%v", err)
	}
	r.around = nil
}

// pageCache names what holds the page cache, of a store that leaves rows to it.
func (r *runner) pageCache() string {
	_, ok := r.found.(featurestore.Confinable)
	switch {
	case !ok:
		return ""
	case r.around != nil:
		return PageCacheCgroup
	}
	return PageCacheDrop
}
