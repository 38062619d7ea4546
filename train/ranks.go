package train

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"diskgnn/featurestore"
	"diskgnn/internal/budget"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/train/collective"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// Several ranks train one model: processes that each read their own part of every step. Rank 0
// has the run's directory, evaluates, and decides; the others have a store and an engine. What
// they tell each other, in order:
//
//	rank 0                                the others
//	run.json of a run that goes on ─────►                      before anything is opened
//	                                ◄──── what they train on   once it is open
//	whether it is the same          ─────►
//	the checkpoint                  ─────►
//	   ⟳ steps (package collective)
//	                                ◄──── a share              before checkpoints, after epochs
//	the epoch                       ─────►                     after it was judged
//	the result                      ─────►

// joinRanks joins the group that the options' place is of, nil where it is alone.
func joinRanks(ctx context.Context, o *Options, rep progress.Reporter) (*collective.Group, error) {
	if o.Job.Count < 2 {
		return nil, nil
	}
	j := &o.Job
	m := collective.Member{Rank: j.Index, World: j.Count, Run: o.RunID, Program: version(), Limits: collective.Usual, Note: rep.Logf}
	if j.Index > 0 {
		return collective.Dial(ctx, m, j.Addresses())
	}
	l, err := j.Listen(ctx)
	if err != nil {
		return nil, err
	}
	return collective.Listen(ctx, m, l)
}

// world returns the number of ranks: processes, or the replicas of one.
func (o *Options) world() int { return max(1, o.Job.Count, o.Replicas) }

// replicas returns how many ranks are this process's.
func (o *Options) replicas() int { return max(1, o.Replicas) }

// root tells whether the process has the run's directory.
func (o *Options) root() bool { return o.Job.Index == 0 }

// writes tells whether the process makes the run's directory: a plan has none.
func (o *Options) writes() bool { return o.root() && !o.planning }

// accumulates settles how many batches a step has, and refuses a number that the ranks cannot
// divide.
func (o *Options) accumulates() error {
	if o.Accumulate == 0 {
		o.Accumulate = o.world()
	}
	if o.Accumulate%o.world() != 0 {
		return fault.New(fault.ErrUsage, "--accumulate %d: %d ranks cannot have equal parts of a step; give a multiple of their number, or another number of ranks", o.Accumulate, o.world())
	}
	return nil
}

// checkRanks names what several ranks cannot do.
func (o *Options) checkRanks() error {
	switch {
	case o.world() == 1:
		return nil
	case o.Job.Count > 1 && o.Replicas > 1:
		return fault.New(fault.ErrUsage, "%d processes with %d replicas each: start a process for every device", o.Job.Count, o.Replicas)
	case o.Record != "":
		return fault.New(fault.ErrUsage, "--record: a trace is of one process; train with one rank")
	case o.Live() && o.DryEpochs != recipe.DryAll:
		return fault.New(fault.ErrUsage, "--fanout with %d ranks: all of them must know how large batches become: give --dry-epochs all", o.world())
	}
	return nil
}

// earlier is what rank 0 tells of the run that goes on, before the others open anything.
type earlier struct {
	Resume bool           `json:"resume"`
	Was    *rundir.File   `json:"was,omitempty"`
	Done   *rundir.Result `json:"done,omitempty"`
}

// shareEarlier gives every rank what rank 0 knows of the run.
func shareEarlier(g *collective.Group, o *Options, was *rundir.File) (*rundir.File, *rundir.Result, error) {
	e := earlier{Resume: o.Resume}
	var epochs []rundir.Epoch
	if was != nil {
		short := *was // epochs are many
		if short.Result != nil {
			done := *short.Result
			epochs, done.Epochs = done.Epochs, nil
			if short.Result = nil; o.done(was) {
				e.Done = &done
			}
		}
		e.Was = &short
	}
	if err := broadcast(g, &e); err != nil {
		return nil, nil, err
	}
	o.Resume = e.Resume
	if e.Done != nil {
		e.Done.Epochs = epochs
	}
	return e.Was, e.Done, nil
}

// broadcast replaces v by rank 0's.
func broadcast(g *collective.Group, v any) error {
	if g == nil {
		return nil
	}
	var b []byte
	if g.Rank() == 0 {
		var err error
		if b, err = json.Marshal(v); err != nil {
			return err
		}
	}
	b, err := g.Broadcast(b)
	if err != nil || g.Rank() == 0 {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fault.New(fault.ErrCorrupt, "what rank 0 says: %v", err)
	}
	return nil
}

// gather returns what the ranks say, by rank, on rank 0.
func gather[T any](g *collective.Group, mine T) ([]T, error) {
	b, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	texts, err := g.Gather(b)
	if err != nil || g.Rank() > 0 {
		return nil, err
	}
	all := []T{mine}
	for rank, text := range texts[1:] {
		var v T
		if err := json.Unmarshal(text, &v); err != nil {
			return nil, fault.New(fault.ErrCorrupt, "what rank %d says: %v", rank+1, err)
		}
		all = append(all, v)
	}
	return all, nil
}

// trainedOn is what the weights follow from: the same on all ranks.
type trainedOn struct {
	Pack       string      `json:"pack,omitempty"`
	Samples    string      `json:"samples,omitempty"`
	Dataset    string      `json:"dataset"`
	Store      string      `json:"store"`
	Recipe     string      `json:"recipe"` // as JSON
	Engine     string      `json:"engine"`
	Arithmetic engine.Info `json:"arithmetic"`
}

// agree refuses ranks that train on something else than rank 0, on all of them.
func (r *runner) agree(file *rundir.File) error {
	if r.group == nil {
		return nil
	}
	text, err := json.Marshal(file.Params)
	if err != nil {
		return err
	}
	l := r.found.Lineage()
	all, err := gather(r.group, trainedOn{Pack: l.Store, Samples: l.Samples, Dataset: l.Dataset, Store: file.Store,
		Recipe: string(text), Engine: file.Setup.Engine, Arithmetic: file.Setup.Info})
	if err != nil {
		return err
	}
	var verdict struct {
		Why string `json:"why,omitempty"`
	}
	for rank := 1; rank < len(all) && verdict.Why == ""; rank++ {
		if d := all[rank].differs(&all[0]); d != "" {
			verdict.Why = fmt.Sprintf("rank %d cannot train with rank 0: %s", rank, d)
		}
	}
	if err := broadcast(r.group, &verdict); err != nil {
		return err
	}
	if verdict.Why != "" {
		return agreed{fault.New(fault.ErrLineage, "%s", verdict.Why)}
	}
	return nil
}

// differs says what a rank has that rank 0 has not, "" if it is the same.
func (t *trainedOn) differs(root *trainedOn) string {
	print := func(s string) string {
		if s == "" {
			return "none"
		}
		return fmt.Sprintf("%.12s…", s)
	}
	switch {
	case t.Pack != root.Pack:
		return fmt.Sprintf("its pack is %s, rank 0's is %s", print(t.Pack), print(root.Pack))
	case t.Samples != root.Samples:
		return fmt.Sprintf("its samples are %s, rank 0's are %s", print(t.Samples), print(root.Samples))
	case t.Dataset != root.Dataset:
		return fmt.Sprintf("its dataset is %s, rank 0's is %s", print(t.Dataset), print(root.Dataset))
	case t.Store != root.Store:
		return fmt.Sprintf("its store is %s, rank 0's is %s", t.Store, root.Store)
	case t.Recipe != root.Recipe:
		var a, b rundir.Params
		if json.Unmarshal([]byte(t.Recipe), &a) == nil && json.Unmarshal([]byte(root.Recipe), &b) == nil {
			for _, d := range a.Difference(&b.Recipe) {
				return fmt.Sprintf("its --%s is %v, rank 0's is %v", d.Flag, d.Value, d.Than)
			}
		}
		return "its options are others"
	case t.Engine != root.Engine:
		return fmt.Sprintf("its engine is %s, rank 0's is %s", t.Engine, root.Engine)
	}
	before := rundir.File{}
	before.Setup.Info = root.Arithmetic
	if err := sameArithmetic(&before, t.Arithmetic); err != nil {
		return "it would round otherwise: " + differentArithmetic(&before.Setup.Info, t.Arithmetic)
	}
	return ""
}

// newEngines makes the engine of every replica, which share the threads.
func (r *runner) newEngines(p *parts, f featurestore.Facts) (all engineNeeds, err error) {
	o := &r.options
	for i := range o.replicas() {
		each := *o
		each.replica, each.Threads = i, max(1, o.Threads/o.replicas())
		e, needs, err := p.engine(&each, f)
		if err != nil {
			return all, err
		}
		r.replicas = append(r.replicas, &replica{device: needs.gpu, engine: e, reduction: collective.Alone{}})
		if o.Engine = each.Engine; i == 0 {
			all = needs
		} else {
			all.engine += needs.engine
			all.gpuLeft = min(all.gpuLeft, needs.gpuLeft)
		}
	}
	return all, nil
}

// engine returns the first replica's, nil where nothing is computed.
func (r *runner) engine() engine.Engine { return r.replicas[0].engine }

// reducing counts the memory of what brings the ranks' gradients together.
func (r *runner) reducing(needs *engineNeeds) {
	o := &r.options
	if !o.apart {
		return
	}
	for i := range o.replicas() {
		needs.engine += collective.OrderedBytes(r.layout(), o.Accumulate, o.Accumulate/o.world(), o.Job.Index+i, o.world())
	}
}

// layout returns that of the weights, or of nothing.
func (r *runner) layout() *model.Layout {
	if r.engine() == nil {
		return &model.Layout{Offsets: []int{0}}
	}
	l := r.options.network().Layout()
	return &l
}

// network returns the model of the resolved options.
func (o *Options) network() *model.Model {
	m := o.Network()
	return &m
}

// unite gives every replica its place among the ranks, and its reduction: before any rank may
// send anything of a step.
func (r *runner) unite() error {
	o := &r.options
	groups := []*collective.Group{r.group}
	if o.replicas() > 1 {
		groups = collective.Local(o.replicas(), collective.Usual)
	}
	for i, rep := range r.replicas {
		switch rep.group = groups[i]; {
		case rep.group == nil:
		case o.apart:
			rep.reduction = collective.NewOrdered(rep.group, r.layout(), o.Accumulate, o.Accumulate/o.world())
		default:
			var err error
			if rep.devices, err = collective.NewDevices(rep.group, rep.comm, rep.engine, o.Accumulate, o.Accumulate/o.world()); err != nil {
				return err
			}
			rep.reduction = rep.devices
		}
	}
	return nil
}

// separate ends what unite made, which may be nothing: preparing may have failed before.
func (r *runner) separate() {
	for _, rep := range r.replicas {
		if rep.group != nil && rep.group != r.group {
			rep.group.Close()
		}
	}
}

// each trains with all replicas of the process, the first one on this goroutine. What ends one
// of them ends all.
func (r *runner) each(f func(rep *replica) error) error {
	var others errgroup.Group
	for _, rep := range r.replicas[1:] {
		others.Go(func() error { return r.alone(rep, f) })
	}
	err := r.alone(r.replicas[0], f)
	if other := others.Wait(); other != nil {
		if _, lost := errors.AsType[*collective.Lost](err); lost || err == nil {
			return other // which is why
		}
	}
	return err
}

// alone trains with one of the replicas.
func (r *runner) alone(rep *replica, f func(rep *replica) error) error {
	err := f(rep)
	if err != nil && rep.group != r.group && !errors.Is(err, errStopped) {
		rep.group.Fail(err)
	}
	return err
}

// together waits until all ranks are about to take steps.
func (r *runner) together() error {
	if r.group == nil {
		return nil
	}
	if _, err := r.group.Gather(nil); err != nil {
		return err
	}
	_, err := r.group.Broadcast(nil)
	return err
}

// stand is where a run goes on, as the other ranks need it. The sections follow it, one by one.
type stand struct {
	At       *position      `json:"at,omitempty"` // nil: at its beginning
	Epochs   []rundir.Epoch `json:"epochs,omitempty"`
	Sections []string       `json:"sections,omitempty"` // the engine's
}

// shareStand gives every rank the checkpoint that rank 0 goes on from.
func (r *runner) shareStand() error {
	if r.group == nil {
		return nil
	}
	var s stand
	sections := make(map[string][]byte)
	if r.from != nil {
		sections = engineSections(r.from.sections)
		s = stand{At: &r.from.at, Epochs: r.from.epochs, Sections: slices.Sorted(maps.Keys(sections))}
	}
	if err := broadcast(r.group, &s); err != nil {
		return err
	}
	received := make(map[string][]byte)
	for _, name := range s.Sections {
		b, err := r.group.Broadcast(sections[name])
		if err != nil {
			return err
		}
		sections[name] = b
		received[sectionEngine+name] = b
	}
	if r.options.root() || s.At == nil {
		return nil
	}
	if err := s.At.check(r.options.Epochs, limits{perEpoch: r.facts.BatchesPerEpoch, accumulate: r.options.Accumulate, seeds: trainJudging(r.options.Metric, &r.facts).Rows}); err != nil {
		return fault.New(fault.ErrCorrupt, "the checkpoint of rank 0: %v", err)
	}
	r.from = &resumePoint{name: "the checkpoint of rank 0", at: *s.At, epochs: s.Epochs, sections: received}
	r.from.restore(&r.result)
	r.began = r.began.Add(-r.from.earlier())
	r.report.Logf("rank %d goes on after %d epochs and %d batches", r.options.Job.Index, s.At.Epoch, s.At.Batch)
	return nil
}

// found is what was found of a batch.
type found struct {
	Loss  float64 `json:"loss"`
	Seeds int     `json:"seeds"`
}

// share is what a rank has summed up since the last time that it told rank 0.
type share struct {
	Sums   rundir.Epoch `json:"sums"`
	Found  []found      `json:"found,omitempty"` // of its batches, in order
	Scorer []byte       `json:"scorer"`
	State  string       `json:"state,omitempty"` // a checksum over the engine's, after an epoch
}

// gatherShares brings what the ranks have summed up to rank 0, whose sums are the run's then,
// with the bits that one rank's have. After an epoch their engines are compared.
func (t *trainer) gatherShares(epochEnds bool) error {
	if t.group == nil {
		return nil
	}
	if err := t.settle(); err != nil {
		return err
	}
	mine := share{Sums: t.now, Found: t.found}
	if !t.root() {
		mine.Scorer = t.scorer.State()
	}
	if epochEnds && t.engine != nil {
		var err error
		if mine.State, err = stateSum(t.engine); err != nil {
			return err
		}
	}
	all, err := gather(t.group, mine)
	if err != nil {
		return err
	}
	done := t.shared
	t.shared, t.found = t.done, t.found[:0]
	if !t.root() {
		t.now = rundir.Epoch{Epoch: t.now.Epoch, LR: t.now.LR, Loss: t.now.Loss, TrainAccuracy: t.now.TrainAccuracy, ValidAccuracy: t.now.ValidAccuracy, Batches: t.now.Batches}
		return t.scorer.Load(t.unscored)
	}
	for rank := 1; rank < len(all); rank++ {
		s := &all[rank]
		if s.State != mine.State {
			return fault.New(fault.ErrDevice, "the weights of rank %d are not those of rank 0 after epoch %d: one of them computes wrong", rank, t.now.Epoch)
		}
		t.now.Add(&s.Sums)
		if err := t.scorer.Join(s.Scorer); err != nil {
			return fmt.Errorf("what rank %d has scored: %w", rank, err)
		}
	}
	return t.sumShares(all, done)
}

// sumShares sums up what was found of the batches from done on, in their order.
func (t *trainer) sumShares(all []share, done int) error {
	each := t.schedule.accumulate / t.schedule.world
	for b := done; b < t.done && t.engine != nil; b++ {
		of := &all[b%t.schedule.accumulate/each]
		if len(of.Found) == 0 {
			return fault.New(fault.ErrCorrupt, "no rank says anything of batch %d", b)
		}
		t.sum(of.Found[0])
		of.Found = of.Found[1:]
	}
	return nil
}

// sum sums up what was found of a batch.
func (t *trainer) sum(f found) {
	for range f.Seeds {
		t.seeds++
		t.loss += f.Loss
	}
}

// stateSum returns a checksum over everything that an engine trains.
func stateSum(e engine.Engine) (string, error) {
	state, err := e.State()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(state)) {
		fmt.Fprintf(h, "%s %d ", name, len(state[name]))
		h.Write(state[name])
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// judged is what rank 0 tells of an epoch.
type judged struct {
	Stop          bool         `json:"stop,omitempty"` // the run ends before it is judged
	Epoch         rundir.Epoch `json:"epoch"`
	BestEpoch     int          `json:"best_epoch"`
	ValidAccuracy score.Score  `json:"valid_accuracy"` // of the best epoch
}

// errStopped ends a rank after a step, since one of them is to end.
var errStopped = fault.New(fault.ErrInterrupted, "the ranks stopped after a step")

// lostRank is the error of a run whose group has lost a rank.
func (r *runner) lostRank(lost error) error {
	text := once(lost)
	switch t := r.trainer; {
	case !r.options.root():
	case t != nil && t.kept != nil:
		text += fmt.Sprintf("; the latest checkpoint is %s", t.describe(*t.kept))
	default:
		text += "; there is no checkpoint yet"
	}
	return fault.New(fault.ErrInterrupted, "%s; all ranks go on with: %s", text, r.resumeCommand())
}

// agreed is the end of a rank that all ranks have agreed on: none of them is lost by it.
type agreed struct{ error }

func (a agreed) Unwrap() []error { return []error{a.error, errAgreed} }

var errAgreed = errors.New("all ranks end")

// asLost returns why the group ended if that is why a run ends with err.
func asLost(g *collective.Group, err error) (error, bool) {
	if g == nil || err == nil {
		return nil, false
	}
	lost := g.Lost()
	_, is := errors.AsType[*collective.Lost](err)
	return lost, lost != nil && (is || errors.Is(err, context.Canceled) || errors.Is(err, lost))
}

// DivideDefaults divides what the machine has, of which nothing is said, among the processes
// that train on it, and reports whether there are several.
func (o *Options) DivideDefaults() bool {
	n := o.Job.LocalCount
	if n < 2 {
		return false
	}
	if o.Threads == 0 {
		o.Threads = max(1, defaultThreads()/n)
	}
	if o.Memory == 0 {
		whole, _ := budget.Default()
		o.Memory = whole / int64(n)
	}
	return true
}
