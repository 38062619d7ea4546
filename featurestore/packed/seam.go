package packed

import (
	"context"
	"slices"

	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/pack/packfile"
)

// Name is the store's in --store.
const Name = "packed"

// Find reads the metadata of a pack.
func Find(fsys vfs.FS, dir string) (featurestore.Candidate, error) {
	r, err := packfile.Open(fsys, dir)
	if err != nil {
		return nil, err
	}
	return &candidate{fsys, r, Facts(r)}, nil
}

// candidate is a pack that was found.
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
	f, p := c.pack.Facts(), c.pack.Params()
	d := featurestore.Description{Codec: p.Codec, Policy: p.Policy, LeastCacheRows: p.CacheRows, Segment: f.Segment}
	for _, file := range c.pack.Meta().Files {
		d.DiskBytes += file.Size
	}
	d.Blowup = float64(d.DiskBytes) / float64(max(f.TableBytes, 1))
	return d
}

// InOrder reports whether the pack's cache follows the batches, as policy min's does.
func (c *candidate) InOrder() bool { return c.pack.Params().Policy == packfile.PolicyMin }

func (c *candidate) Plan(o featurestore.PlanOptions) (featurestore.Layout, error) {
	if o.Least {
		edges := c.pack.Index().Edges
		o.Cache = &budget.Size{Value: float64(edges[len(edges)-1] * int64(c.facts.RowBytes))}
	}
	l, err := Plan(c.pack, PlanOptions{Cache: o.Cache, Memory: o.Memory - sumsBytes(c.pack), Slots: o.Slots, EvalSlots: o.EvalSlots,
		GPU: o.GPU, GPUMemory: o.GPUMemory, GPUCache: o.GPUCache, Direct: o.Direct, MostSlots: o.MostSlots})
	return c.layout(l), err
}

func (c *candidate) PlanEval() (featurestore.Layout, error) { return c.layout(PlanEval(c.pack)), nil }

func (c *candidate) layout(l Layout) featurestore.Layout {
	return featurestore.Layout{
		CacheRows: l.CacheRows, TableBytes: sumsBytes(c.pack), RAMBytes: l.RAMBytes, KeepBytes: l.KeepBytes,
		SlotBytes: l.SlotBytes, EvalSlotBytes: l.EvalSlotBytes, DecodeBytes: l.DecodeBytes,
		GPU: l.GPU, GPURows: l.GPURows, GPUCacheBytes: l.GPUCacheBytes, GPUBytes: l.GPUBytes, GPUSlotBytes: l.GPUSlotBytes,
		Note: l.Note, Own: l,
	}
}

func (c *candidate) Open(stack iostack.Stack, l featurestore.Layout) (featurestore.Store, error) {
	s, err := Open(c.fs, c.pack, stack, l.Own.(Layout))
	if err != nil {
		return nil, err
	}
	return &shared{s}, nil
}

// sumsBytes returns the size of the tables of page checksums in memory.
func sumsBytes(r *packfile.Reader) int64 {
	const perPage, page = 4, 4096
	f := r.Facts()
	return (f.HotRows + f.EvalRows + f.SSDRows) * int64(f.RowBytes) / page * perPage
}

// shared is a store as package featurestore has it. It has one view: today one device, or
// the host, computes.
type shared struct{ of *Store }

func (s *shared) View(int) featurestore.View { return s }
func (s *shared) State() ([]byte, error)     { return nil, nil }
func (s *shared) LoadState([]byte) error     { return nil }
func (s *shared) Close() error               { return s.of.Close() }
func (s *shared) Fill(ctx context.Context, next int, rep progress.Reporter) (int64, error) {
	return s.of.PreloadFor(ctx, next, rep)
}

func (s *shared) NewSlot(eval bool) (featurestore.Slot, error) {
	take := s.of.NewSlot
	if eval {
		take = s.of.NewEvalSlot
	}
	sl, err := take()
	if err != nil {
		return nil, err
	}
	return &travelling{store: s.of, slot: sl, eval: eval}, nil
}

// travelling is a slot as package featurestore has it.
type travelling struct {
	store *Store
	slot  *Slot
	eval  bool // its batches are not training's
	ref   featurestore.Ref
}

func (t *travelling) Start(ref featurestore.Ref) error {
	if t.ref = ref; t.eval {
		return nil
	}
	return t.store.Start(t.slot, ref.Index)
}

// LoadGraph loads an evaluation batch whole: its reads do not overlap those of others yet.
func (t *travelling) LoadGraph(ctx context.Context) error {
	if t.eval {
		return t.store.LoadEval(ctx, t.slot, t.ref.Split == featurestore.Test, t.ref.Index)
	}
	return t.store.LoadGraph(ctx, t.slot)
}

func (t *travelling) Wait(ctx context.Context) error {
	if t.eval {
		return nil
	}
	return t.store.Wait(ctx, t.slot)
}

func (t *travelling) Assemble(ctx context.Context) error {
	if t.eval {
		return nil
	}
	return t.store.Assemble(ctx, t.slot)
}

func (t *travelling) Batch() *graph.Batch { return &t.slot.Batch }

func (t *travelling) Counts() featurestore.Counts {
	s := t.slot
	return featurestore.Counts{BytesRead: s.BytesRead, UsefulBytes: s.UsefulBytes, GraphRead: s.GraphRead, SSDRead: s.SSDRead, SSDUseful: s.SSDUseful, RAMRows: s.RAMRows}
}

func (t *travelling) X() []float32   { return t.slot.X() }
func (t *travelling) Matrix() []byte { return t.slot.Matrix() }
func (t *travelling) Free()          { t.slot.Free() }

func (t *travelling) Fill(copies *cuda.Stream, x cuda.Buffer) (*cuda.Span, error) {
	return t.slot.Fill(copies, x)
}

// Facts returns a pack's counts as runs know them.
func Facts(r *packfile.Reader) *featurestore.Facts {
	f, ix := r.Facts(), r.Index()
	facts := &featurestore.Facts{
		Nodes: f.Nodes, Dim: f.Dim, DType: f.DType, RowBytes: f.RowBytes, Classes: f.Classes, TargetBytes: f.TargetBytes, Metric: f.Metric,
		Train: f.Train, Valid: f.Valid, Test: f.Test, Epochs: f.Epochs, BatchesPerEpoch: f.BatchesPerEpoch,
		Fanout: f.Fanout, EvalFanout: f.EvalFanout, TrainSizes: f.TrainSizes, TrainMeans: f.TrainMeans, EvalSizes: f.EvalSizes,
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
