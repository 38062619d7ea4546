package shard

import (
	"fmt"
	"slices"
	"strings"

	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// Set is all shards of one directory.
type Set struct {
	Spec    stage.Spec // of the directory that they make
	Members []Member   // shard i at place i
}

// Member is one shard of a set.
type Member struct {
	Dir  string
	Meta *stage.Meta
}

// OpenSet opens the shards that dirs name, in whatever order, and makes sure that they are parts
// of one thing and that each part is there exactly once. It checks what stage.Open checks; the
// content of files is checked by their readers.
func OpenSet(fsys vfs.FS, dirs []string) (*Set, error) {
	if len(dirs) == 0 {
		return nil, fault.New(fault.ErrUsage, "no shards to merge")
	}
	var set *Set
	var first Shard // the shard that dirs[0] is, which the others must go with
	for _, dir := range dirs {
		m, err := open(fsys, dir)
		if err != nil {
			return nil, err
		}
		spec, s, err := specOf(m)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		if set == nil {
			set, first = &Set{Spec: spec, Members: make([]Member, s.Count)}, s
		}
		if spec.Format != set.Spec.Format || s.Count != first.Count {
			return nil, fault.New(fault.ErrUsage, "%s is shard %s of a %s, %s is shard %s of a %s: not of one directory",
				dirs[0], first, set.Spec.Format, dir, s, spec.Format)
		}
		if diff, err := stage.Difference(set.Spec, spec); err != nil {
			return nil, err
		} else if diff != "" {
			return nil, fault.New(fault.ErrLineage, "%s and %s were not made for one directory: of the second, %s", dirs[0], dir, diff)
		}
		if was := set.Members[s.Index]; was.Meta != nil {
			return nil, fault.New(fault.ErrUsage, "%s and %s are both shard %s", was.Dir, dir, s)
		}
		set.Members[s.Index] = Member{dir, m}
	}
	return set, set.complete()
}

// open opens a shard of any format.
func open(fsys vfs.FS, dir string) (*stage.Meta, error) {
	m, err := stage.ReadMeta(fsys, dir, "shard")
	if err != nil {
		return nil, err
	}
	return stage.Open(fsys, dir, "shard", m.Format)
}

// complete names the shards that are missing.
func (set *Set) complete() error {
	var missing []string
	for i, m := range set.Members {
		if m.Meta == nil {
			missing = append(missing, Shard{i, len(set.Members)}.String())
		}
	}
	if n := len(missing); n > 0 {
		if most := 8; n > most {
			missing = append(missing[:most], fmt.Sprintf("… (%d in all)", n))
		}
		have := slices.IndexFunc(set.Members, func(m Member) bool { return m.Meta != nil })
		return fault.New(fault.ErrUsage, "missing from the shards to merge with %s: %s", set.Members[have].Dir, strings.Join(missing, ", "))
	}
	return nil
}
