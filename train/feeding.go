package train

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/program"
	"diskgnn/internal/progress"
	"diskgnn/internal/shard"
	"diskgnn/internal/vfs"
	"diskgnn/train/checkpoint"
	"diskgnn/train/collective"
	"diskgnn/train/decide"
	"diskgnn/train/engine"
	"diskgnn/train/epoch"
	"diskgnn/train/feed"
	"diskgnn/train/recipe"
)

// FeedOptions are the batches that Feed loads.
type FeedOptions struct {
	Options
	Split featurestore.Split
	// From is the number of batches to leave out at the beginning, over all epochs.
	From int
	// DType is the type of the features that the consumer gets: float32, the zero value, float16 or bfloat16.
	DType dtype.Type
	// GPUCache is the part of the rows that the consumer holds; nil: none.
	GPUCache *budget.Size
	// State is a state of the store that a feed of the same batches sent at the same position; nil: there is none.
	State io.Reader
	// Share is the consumer's rank among several: it gets every Count-th training batch.
	Share shard.Shard

	ranks int // consumers
}

// spareSlots is the number of slots that several consumers do not use at a time: batches that are loaded meanwhile.
const spareSlots = 3

// EnsureDefaults replaces zero values by defaults. A feed has no engine and no directory of its own. All nodes are loaded
// once.
func (o *FeedOptions) EnsureDefaults() {
	o.Engine, o.Out = EngineNone, "feed"
	o.DType = cmp.Or(o.DType, dtype.Float32)
	if o.ranks > 1 && o.Slots == 0 {
		o.Slots = o.ranks + spareSlots
	}
	if o.AllNodes && !o.gave("epochs") {
		o.Epochs = 1
	}
	o.Options.EnsureDefaults()
}

// Validate returns an error of kind fault.ErrUsage that names the first invalid flag.
func (o *FeedOptions) Validate() error {
	switch {
	case o.From < 0:
		return usage("--from %d: give a number of batches from 0 up", o.From)
	case !isCache(o.GPUCache):
		return noCache("gpu-cache", o.GPUCache)
	case o.world() > 1:
		return usage("feed is for one consumer: leave the ranks of the job out")
	case o.DType.Quantized():
		return usage("--dtype %s: a consumer takes float32, float16 or bfloat16", o.DType)
	case o.ranks > 1 && (o.Share.Count > 1 || o.split() != dataset.Train):
		return usage("several sockets are for the ranks of a training: leave --rank and --split out")
	case o.ranks > o.Slots && o.Slots > 0:
		return usage("--slots %d: each of %d ranks uses a batch at a time", o.Slots, o.ranks)
	case o.Share.Count > 1 && o.split() != dataset.Train:
		return usage("--rank %s: ranks divide training batches; load %s batches in one process", o.Share, o.split())
	case o.AllNodes && !o.Live():
		return usage("--split %s draws batches: give --dataset and --fanout, no pack and no samples", AllNodes)
	case o.AllNodes && (o.TrainRatio != 1 || o.ShuffleBatches):
		return usage("--split %s has all nodes, in ascending order: leave --train-ratio and --shuffle-batches out", AllNodes)
	}
	return o.Options.Validate()
}

// AllNodes is the split of all nodes.
const AllNodes = "all"

// FeedSplits are the names of splits on the command line and in the feed's messages, by featurestore.Split, then
// AllNodes.
var FeedSplits = []string{dataset.Train, dataset.Valid, dataset.Test, AllNodes}

// SetSplit sets the batches to load: split is one of FeedSplits.
func (o *FeedOptions) SetSplit(split string) {
	if o.AllNodes = split == AllNodes; !o.AllNodes {
		o.Split = featurestore.Split(slices.Index(FeedSplits, split))
	}
}

// split returns the name of the batches to load. Batches of all nodes are drawn as training batches.
func (o *FeedOptions) split() string {
	if o.AllNodes {
		return AllNodes
	}
	return FeedSplits[o.Split]
}

// PlanFeed predicts the memory, the reads and the time of Feed for all nodes, and counts the rows that its batches take.
// It draws them, loads a few, and writes nothing.
func PlanFeed(ctx context.Context, fsys vfs.FS, o FeedOptions, rep progress.Reporter) (Plan, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return Plan{}, err
	}
	if !o.AllNodes {
		return Plan{}, usage("--plan is for --split %s; train --engine none --plan is for training batches", AllNodes)
	}
	g := newGPUDevice(0)
	defer g.close()
	p, err := makePlan(ctx, fsys, o.Options, o.consumer, rep, usual(g.openStack, g.newEngine))
	p.DiskBytes = 0
	return p, err
}

// Feed loads batches for the processes at the other ends of the connections, which it closes, until the last batch, an
// error, or until one of them closes its connection. Several processes are ranks, in this order. It writes nothing but
// tables that a store makes beside its rows. The consumers get the error as well.
func Feed(ctx context.Context, fsys vfs.FS, o FeedOptions, conns []*net.UnixConn, rep progress.Reporter) (err error) {
	to := feed.NewServer(conns...)
	defer func() { _ = to.Close() }()
	o.ranks = len(conns)
	o.EnsureDefaults()
	if err = o.Validate(); err == nil {
		g := newGPUDevice(0)
		defer g.close()
		o.Options.GPUCache = o.GPUCache // Validate refuses it for an engine that computes nothing
		err = o.feed(ctx, fsys, to, rep, usual(g.openStack, g.newEngine))
	}
	sent := to.End(err)
	if err == nil {
		err = sent
	}
	if errors.Is(err, feed.ErrGone) {
		return nil
	}
	return err
}

func (o FeedOptions) feed(ctx context.Context, fsys vfs.FS, to *feed.Server, rep progress.Reporter, parts parts) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(to.Gone(), func() { cancel(context.Cause(to.Gone())) })()
	p := &process{fs: fsys, report: rep, parts: parts, group: collective.One()}
	defer p.drawing.close()
	r := &runner{process: p, out: o.Out, source: o.source(), root: true, began: time.Now(), planning: true, consumer: o.consumer}
	defer r.close()
	err := r.prepare(ctx, &o.Options)
	if err == nil {
		err = r.feed(ctx, to, &o)
	}
	if fault.EndedBy(ctx, err) {
		return context.Cause(ctx)
	}
	if p.drawing.again(err) {
		return fmt.Errorf("%w, and the memory of a consumer cannot grow: give --dry-epochs %s", err, recipe.DryAll)
	}
	return r.remake(err)
}

// consumer returns the memory of the slots beside the matrices. With Engine above 0 the plan has slots for evaluation.
func (o *FeedOptions) consumer(f *featurestore.Facts) decide.Needs {
	named := o.Pack == "" // a pack has no ids of nodes
	n := decide.Needs{Work: feed.Bytes(&f.TrainSizes, f.TargetBytes, named), Shared: true, Stored: o.DType == f.DType && f.DType != dtype.Float32}
	if o.Split != featurestore.Train {
		n.Engine, n.EvalWork = feed.MessageBytes, feed.Bytes(&f.EvalSizes, f.TargetBytes, named)
	}
	return n
}

// feed loads the batches for the consumer.
func (r *runner) feed(ctx context.Context, to *feed.Server, o *FeedOptions) error {
	split, from := o.Split, o.From
	rep, f, eval := r.replicas[0], &r.facts, split != featurestore.Train
	l := epoch.Loading{Split: split, Schedule: r.decision.Schedule(0), Epochs: r.decision.Options.Epochs, Batches: f.Batches(split), From: from, Ranks: o.ranks, Share: o.Share, Slots: r.decision.Memory.Slots, Use: to.Use}
	sizes, each := &f.TrainSizes, l.PerEpoch()
	if eval {
		sizes, l.Slots = &f.EvalSizes, r.decision.Memory.EvalSlots
	}
	switch {
	case o.Share.Count > 1 && r.found.InOrder():
		return usage("--rank %s: the cache of %s needs all batches in order", o.Share, r.source)
	case each == 0:
		return fault.New(fault.ErrUsage, "%s has no %s batches", r.source, o.split())
	case from > each*l.Epochs:
		return fault.New(fault.ErrUsage, "--from %d: there are %d batches", from, each*l.Epochs)
	}
	if !eval {
		to.State = r.storeState
		if err := r.takeOver(o.State); err != nil {
			return err
		}
	}
	if _, err := r.store.Fill(ctx, l.First(), r.report); err != nil {
		return epoch.OfPack(err)
	}
	held := r.decision.Memory.Layout.GPURows
	to.Stored = r.decision.Memory.Layout.Stored
	l.Work = func(sl featurestore.Slot) (engine.Work, error) { return to.Slot(sl, held, sizes, f.TargetBytes) }
	l.Made = func() error {
		if err := to.Greet(feed.Hello{Program: program.Version(), Split: o.split(), Fingerprint: r.fingerprint(o.split(), &l), Batches: each*l.Epochs - from, PerEpoch: each, From: from, DType: o.DType, Dim: f.Dim, Classes: f.Classes, TargetBytes: f.TargetBytes, Held: held, Types: f.Types, SeedType: f.SeedType}); err != nil || held == 0 {
			return err
		}
		_, err := r.store.(featurestore.Remote).RemoteRows(ctx, r.report, func(x []float32) error { return to.Rows(ctx, x) })
		return epoch.OfPack(err)
	}
	l.Hand = func(ctx context.Context, w engine.Work, sl featurestore.Slot, number int, ranks []int) error {
		c := sl.Counts()
		return to.Hand(ctx, w, c.BytesRead-c.GraphRead, number, ranks)
	}
	return rep.Load(ctx, &l)
}

// storeState returns the pieces of a checkpoint with the store's state alone.
func (r *runner) storeState() ([][]byte, error) {
	b, err := r.store.State()
	if err != nil || b == nil {
		return nil, err
	}
	return checkpoint.Encode(struct{}{}, map[string][]byte{epoch.SectionStore + r.found.Name(): b})
}

// takeOver gives the store a state that storeState returned. Another store, or one with another cache, begins without
// it.
func (r *runner) takeOver(state io.Reader) error {
	if state == nil {
		return nil
	}
	most := r.decision.Memory.Layout.StateBytes + checkpoint.MostFront
	b, err := io.ReadAll(io.LimitReader(state, most+1))
	if err != nil || int64(len(b)) > most {
		return err
	}
	_, sections, err := checkpoint.Decode(b)
	if err != nil {
		return fmt.Errorf("the state of the store: %w", err)
	}
	if held, ok := sections[epoch.SectionStore+r.found.Name()]; ok {
		return r.store.LoadState(held)
	}
	return nil
}

// fingerprint returns a hash of the batches and of their order, the same for every store of the same samples.
func (r *runner) fingerprint(split string, loading *epoch.Loading) string {
	l, s, order := r.found.Lineage(), &loading.Schedule, "as sampled"
	if s.Shuffle && split == dataset.Train {
		order = fmt.Sprint("shuffled by ", s.Seed)
	}
	if n := loading.Ranks; n > 1 {
		order = fmt.Sprint(order, ", by one feed for ranks: ", n)
	}
	if n := loading.Share.Count; n > 1 {
		order = fmt.Sprint(order, ", for ranks: ", n)
	}
	sum := sha256.Sum256(fmt.Appendln(nil, l.Dataset, l.Samples, split, order))
	return hex.EncodeToString(sum[:])
}
