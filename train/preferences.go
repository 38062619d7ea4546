package train

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"diskgnn/featurestore/all"
	"diskgnn/internal/budget"
	"diskgnn/internal/program"
	"diskgnn/presample/sampler/topology"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
)

// preference is a flag that decides nothing of the result: a run that goes on keeps what an earlier
// process was given, and says what became of it.
type preference struct {
	recipe.Option // its flag; without a name, what is compared follows from others
	value         func(o *Options) any
	// keep notes the value, and take takes it over from an earlier process: false where that had
	// none, or where the store has no use for it.
	keep func(p *rundir.Preferences, o *Options)
	take func(o *Options, p *rundir.Preferences) bool
	compared
}

// compared is a part of the setup that people read of where it changes.
type compared struct {
	name string // "": it is not compared
	of   func(s *rundir.Setup) any
}

// resource is the preference for a field of Resources, which serves the options or not; nil: always.
func resource[T comparable](flag recipe.Option, field func(r *rundir.Resources) *T, serves func(o *Options, v T) bool, c compared) preference {
	return preference{flag,
		func(o *Options) any { return field(&o.Resources) },
		func(p *rundir.Preferences, o *Options) { *field(&p.Resources) = *field(&o.Resources) },
		func(o *Options, p *rundir.Preferences) bool {
			var none T
			v := *field(&p.Resources)
			if v == none || serves != nil && !serves(o, v) {
				return false
			}
			*field(&o.Resources) = v
			return true
		}, c}
}

// preferences are all of them, in the order in which changes are told. Those without a help are flags
// that other commands have as well.
var preferences = []preference{
	resource(recipe.Option{Name: "threads"}, func(r *rundir.Resources) *int { return &r.Threads }, nil,
		compared{"threads", func(s *rundir.Setup) any { return s.Threads }}),
	resource(recipe.Option{Name: "io"}, func(r *rundir.Resources) *string { return &r.IO }, nil,
		compared{"io", func(s *rundir.Setup) any { return s.IO }}),
	resource(recipe.Option{Name: "memory"}, func(r *rundir.Resources) *int64 { return &r.Memory }, nil,
		compared{"memory", func(s *rundir.Setup) any { return budget.FormatBytes(s.Memory) }}),
	resource(recipe.Option{Name: "ram-cache", Help: "rows held in RAM: a share of them, or bytes; rounded down to a band edge", Shown: "as much as memory and the pack allow"},
		func(r *rundir.Resources) **budget.Size { return &r.RAMCache },
		func(o *Options, _ *budget.Size) bool { return !all.HoldsAll(o.store()) },
		compared{"cache", func(s *rundir.Setup) any { return budget.FormatBytes(s.CacheSize) }}),
	resource(recipe.Option{Name: "cache-policy", Help: "which rows the cache of --store rows holds: s3fifo (its default), lru, clock or sieve; ginex has belady, gnndrive standby, gids paper (its default) or script; other stores have none"},
		func(r *rundir.Resources) *string { return &r.CachePolicy },
		func(o *Options, v string) bool { return slices.Contains(all.Policies(o.store()), v) },
		compared{"cache policy", func(s *rundir.Setup) any { return s.CachePolicy }}),
	resource(recipe.Option{Name: "fault-threads", Help: "threads on which --store mmap waits for page faults", Shown: "16", Least: 1},
		func(r *rundir.Resources) *int { return &r.FaultThreads },
		func(o *Options, _ int) bool { return all.Maps(o.store()) },
		compared{"fault threads", func(s *rundir.Setup) any { return s.FaultThreads }}),
	resource(recipe.Option{Name: "topology"}, func(r *rundir.Resources) *string { return &r.Topology.Level },
		func(o *Options, _ string) bool { return o.Live() },
		compared{"topology", func(s *rundir.Setup) any { return cmp.Or(s.Topology, topology.Mapped) }}),
	resource(recipe.Option{Name: "topology-memory"}, func(r *rundir.Resources) **budget.Size { return &r.Topology.Memory },
		func(o *Options, _ *budget.Size) bool { return o.Topology.Level == topology.Cached },
		compared{"held topology", func(s *rundir.Setup) any { return budget.FormatBytes(s.TopologySize) }}),
	resource(recipe.Option{Name: "topology-order"}, func(r *rundir.Resources) *string { return &r.Topology.Order },
		func(o *Options, _ string) bool { return o.Topology.Level == topology.Cached }, compared{}),
	resource(recipe.Option{Name: "page-cache", Takes: "HOW", Names: PageCaches(),
		Help: "what holds the page cache of --store mmap to --memory: cgroup, one that the process makes and enters; drop, dropping pages; auto: cgroup where one was delegated"},
		func(r *rundir.Resources) *string { return &r.PageCache },
		func(o *Options, _ string) bool { return all.Maps(o.store()) },
		compared{"page cache", func(s *rundir.Setup) any { return s.PageCache }}),
	resource(recipe.Option{Name: "gpu-memory", Help: "GPU memory to stay under", Shown: "all that is free but 512 MiB"},
		func(r *rundir.Resources) *int64 { return &r.GPUMemory }, nil, compared{}),
	resource(recipe.Option{Name: "gpu-cache", Help: "rows held by the GPU: a share of them, or bytes", Shown: "as much as it has room for"},
		func(r *rundir.Resources) **budget.Size { return &r.GPUCache }, nil,
		compared{"GPU cache", func(s *rundir.Setup) any { return budget.FormatBytes(s.GPUCacheSize) }}),
	resource(recipe.Option{Name: "slots", Help: "batches under way at a time; 1: nothing overlaps", Shown: "what memory allows, up to 6"},
		func(r *rundir.Resources) *int { return &r.Slots }, nil,
		compared{"slots", func(s *rundir.Setup) any { return s.Slots }}),
	{compared: compared{"slots for evaluation", func(s *rundir.Setup) any { return s.EvalSlots }}},
	{compared: compared{"ranks", func(s *rundir.Setup) any { return max(1, s.Ranks) }}},
	{Option: recipe.Option{Name: "checkpoint-every", Help: "time between checkpoints, or batches; 0: at the ends of epochs", Takes: "TIME|N"},
		value: func(o *Options) any { return &o.CheckpointEvery },
		keep:  func(p *rundir.Preferences, o *Options) { p.CheckpointEvery = &o.CheckpointEvery },
		take:  func(o *Options, p *rundir.Preferences) bool { return takeOver(&o.CheckpointEvery, p.CheckpointEvery) }},
	{Option: recipe.Option{Name: "keep", Help: "checkpoints to keep", Least: 1},
		value: func(o *Options) any { return &o.Keep },
		keep:  func(p *rundir.Preferences, o *Options) { p.Keep = o.Keep },
		take:  func(o *Options, p *rundir.Preferences) bool { return p.Keep != 0 && takeOver(&o.Keep, &p.Keep) }},
	{Option: recipe.Option{Name: "trace", Help: "write trace.json, for chrome://tracing or Perfetto, and trace-1.json when the run is resumed"},
		value: func(o *Options) any { return &o.Trace },
		keep:  func(p *rundir.Preferences, o *Options) { p.Trace = &o.Trace },
		take:  func(o *Options, p *rundir.Preferences) bool { return takeOver(&o.Trace, p.Trace) }},
}

// takeOver sets v to what was given, if it was.
func takeOver[T any](v, given *T) bool {
	if given != nil {
		*v = *given
	}
	return given != nil
}

// Preference returns the row of a flag that decides nothing of the result, and a pointer to its
// value.
func (o *Options) Preference(flag string) (recipe.Option, any) {
	for _, p := range preferences {
		if p.Name == flag {
			return p.Option, p.value(o)
		}
	}
	panic("no preference " + flag)
}

// preferences returns what was given of them.
func (o *Options) preferences() (p rundir.Preferences) {
	for _, f := range preferences {
		if f.Name != "" && o.gave(f.Name) {
			f.keep(&p, o)
		}
	}
	return p
}

// prefer takes over what an earlier process was given and this one was not.
func (o *Options) prefer(p *rundir.Preferences) {
	for _, f := range preferences {
		if f.Name != "" && !o.gave(f.Name) && f.take(o, p) {
			o.Given = append(slices.Clip(o.Given), f.Name)
		}
	}
}

// changes says what differs that may, "" if nothing does.
func changes(f, now *rundir.File) string {
	var differ []string
	add := func(what string, was, now any) {
		if was != now {
			differ = append(differ, fmt.Sprintf("%s %v (was %v)", what, now, was))
		}
	}
	for _, p := range preferences {
		if p.name != "" {
			add(p.name, p.of(&f.Setup), p.of(&now.Setup))
		}
	}
	add("program", programOf(f, now), programOf(now, f))
	return strings.Join(differ, ", ")
}

// programOf names the program of a run as it is told apart from another run's.
func programOf(f, other *rundir.File) string {
	if f.ProgramHash == "" || other.ProgramHash == "" {
		return f.Version
	}
	return program.Name(f.Version, f.ProgramHash)
}
