package packed

import (
	"slices"

	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/gpureads"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/pack/packfile"
)

// Name is the value of --store for this store.
const Name = "packed"

// Design describes the store.
func Design() featurestore.Design {
	return featurestore.Design{Name: Name, Find: Find, Shared: true, Remote: true}
}

// Find reads the metadata of a pack, or of a slice of a pack: the Candidate implements featurestore.Sliced.
func Find(fsys vfs.FS, dir string) (featurestore.Candidate, error) {
	r, err := packfile.OpenSlice(fsys, dir)
	if err != nil {
		return nil, err
	}
	return &candidate{fsys, r, Facts(r)}, nil
}

// candidate implements featurestore.Candidate for a pack.
type candidate struct {
	fs    vfs.FS
	pack  *packfile.Reader
	facts *featurestore.Facts
}

func (c *candidate) Name() string              { return Name }
func (c *candidate) Dir() string               { return c.pack.Dir() }
func (c *candidate) Facts() featurestore.Facts { return *c.facts }

func (c *candidate) Lineage() featurestore.Lineage {
	m := c.pack.Meta()
	return featurestore.Lineage{Dataset: m.Parents[stage.RoleDataset], Samples: m.Parents[stage.RoleSamples], Store: m.Fingerprint}
}

func (c *candidate) Describe() featurestore.Description {
	p, all := c.pack.Params(), c.pack.Describe()
	d := featurestore.Description{Codec: p.Codec, Policy: p.Policy, LeastCacheRows: p.CacheRows, Segment: all.Segment, DiskBytes: all.DiskBytes, Blowup: all.Blowup}
	for _, l := range all.Levels {
		d.Levels = append(d.Levels, featurestore.Level(l))
	}
	for _, k := range all.Caches {
		d.Caches = append(d.Caches, featurestore.Cache{Rows: k.Rows, Hits: k.Hits, ReadBytes: k.ColdBytes + k.SSDBytes})
	}
	return d
}

// Slice implements featurestore.Sliced.
func (c *candidate) Slice() (featurestore.Slice, bool) {
	if s := c.pack.Slice(); s != nil {
		return featurestore.Slice{Rank: s.Rank, World: s.World, Accumulate: s.Accumulate}, true
	}
	return featurestore.Slice{}, false
}

// InOrder reports whether the pack has policy min: batches change its cache.
func (c *candidate) InOrder() bool { return c.pack.Params().Policy == packfile.PolicyMin }

func (c *candidate) Plan(o featurestore.PlanOptions) (featurestore.Layout, error) {
	d := Design()
	if err := d.Refuse(&o); err != nil {
		return featurestore.Layout{}, err
	}
	if g := o.GPUCache; o.GPU == nil && g != nil && isMin(c.pack) {
		return featurestore.Layout{}, fault.New(fault.ErrUsage, "--gpu-cache %s: %s has the policy min, and every batch changes its cache; leave it out, or pack with --policy static", g, c.Dir())
	}
	if len(o.Peers) > 0 && isMin(c.pack) {
		return featurestore.Layout{}, fault.New(fault.ErrUsage, "%s has the policy min: its cache needs all batches in order, and cannot serve %d GPUs; pack with --policy static", c.Dir(), 1+len(o.Peers))
	}
	if o.Least {
		edges := c.pack.Index().Edges
		o.Cache = &budget.Size{Value: float64(edges[len(edges)-1] * int64(c.facts.RowBytes))}
	}
	o.Memory -= sumsBytes(c.pack)
	byHost := func() (featurestore.Layout, error) {
		l, err := Plan(c.pack, o)
		return c.layout(l), err
	}
	return gpureads.Choose(o, func() (_ featurestore.Layout, why, err error) {
		reads, why := newLateReads(c.pack, &o)
		if why != nil {
			return featurestore.Layout{}, why, nil
		}
		l, err := plan(c.pack, o, reads)
		return c.layout(l), nil, err
	}, byHost)
}

func (c *candidate) PlanEval(hold int64) (featurestore.Layout, error) {
	return c.layout(PlanEval(c.pack, hold)), nil
}

func (c *candidate) layout(l Layout) featurestore.Layout {
	l.TableBytes = sumsBytes(c.pack)
	all := l.Layout
	all.Own = l
	return all
}

func (c *candidate) Open(stack iostack.Stack, l featurestore.Layout) (featurestore.Store, error) {
	s, err := Open(c.fs, c.pack, stack, l.Own.(Layout))
	if err != nil {
		return nil, err
	}
	return s, nil
}

// sumsBytes returns the memory of the tables of page checksums, in bytes.
func sumsBytes(r *packfile.Reader) int64 {
	const perPage, page = 4, 4096
	f := r.Facts()
	chunks, _ := r.File(packfile.EvalColdFile)
	return ((f.HotRows+f.EvalRows+f.SSDRows)*int64(f.RowBytes) + chunks.Size) / page * perPage
}

// Facts returns the counts of a pack.
func Facts(r *packfile.Reader) *featurestore.Facts {
	f, ix := r.Facts(), r.Index()
	facts := &featurestore.Facts{
		Nodes: f.Nodes, Types: f.Types, SeedType: f.SeedType, Dim: f.Dim, DType: f.DType, RowBytes: f.RowBytes, Classes: f.Classes, TargetBytes: f.TargetBytes, Metric: f.Metric,
		Train: f.Train, Valid: f.Valid, Test: f.Test, Epochs: f.Epochs, BatchesPerEpoch: f.BatchesPerEpoch,
		TypeInputs: f.TypeInputs, Fanout: f.Fanout, EvalFanout: f.EvalFanout, TrainSizes: f.TrainSizes, TrainMeans: f.TrainMeans, EvalSizes: f.EvalSizes, InBits: r.InBits(),
	}
	for epoch := range slices.Chunk(ix.Train, max(1, f.BatchesPerEpoch)) {
		n := int64(0)
		for i := range epoch {
			n += int64(epoch[i].Seeds)
		}
		facts.EpochSeeds = max(facts.EpochSeeds, n)
	}
	for _, list := range [][]packfile.Eval{ix.Valid, ix.Test} {
		n := int64(0)
		for i := range list {
			n += int64(list[i].Seeds)
		}
		facts.EvalSeeds = max(facts.EvalSeeds, n)
	}
	return facts
}
