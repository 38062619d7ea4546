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

	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/train/collective"
	"diskgnn/train/decide"
	"diskgnn/train/engine"
	"diskgnn/train/model"
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

// writes tells whether the process makes the run's directory: a plan has none.
func (r *runner) writes() bool { return r.options.root() && !r.planning }

// earlier is what rank 0 tells of the run that goes on, before the others open anything.
type earlier struct {
	Resume bool           `json:"resume"`
	Was    *rundir.File   `json:"was,omitempty"`
	Done   *rundir.Result `json:"done,omitempty"`
}

// shareEarlier gives every rank what rank 0 knows of the run.
func shareEarlier(g *collective.Group, o *Options, was *rundir.File) (*rundir.File, *rundir.Result, error) {
	if g.World() == 1 {
		return was, nil, nil
	}
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
	if err := broadcast(g, &e, mostEarlier); err != nil {
		return nil, nil, err
	}
	o.Resume = e.Resume
	if e.Done != nil {
		e.Done.Epochs = epochs
	}
	return e.Was, e.Done, nil
}

// The most bytes of what ranks tell each other, as JSON: usually, and of a run.json without its
// epochs.
const (
	mostTold    = 1 << 20
	mostEarlier = 16 << 20
)

// broadcast replaces v by rank 0's, which has at most so many bytes as JSON.
func broadcast(g *collective.Group, v any, most int64) error {
	if g.World() == 1 {
		return nil
	}
	var b []byte
	if g.Rank() == 0 {
		var err error
		if b, err = json.Marshal(v); err != nil {
			return err
		}
	}
	b, err := g.Broadcast(b, most)
	if err != nil || g.Rank() == 0 {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fault.New(fault.ErrCorrupt, "what rank 0 says: %v", err)
	}
	return nil
}

// gather returns what the ranks say, by rank, on rank 0. Each has at most so many bytes as JSON.
func gather[T any](g *collective.Group, mine T, most int64) ([]T, error) {
	if g.World() == 1 {
		return []T{mine}, nil
	}
	b, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	texts, err := g.Gather(b, most)
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
	text, err := json.Marshal(file.Params)
	if err != nil {
		return err
	}
	l := r.found.Lineage()
	all, err := gather(r.group, trainedOn{Pack: l.Store, Samples: l.Samples, Dataset: l.Dataset, Store: file.Store,
		Recipe: string(text), Engine: file.Setup.Engine, Arithmetic: file.Setup.Info}, mostTold)
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
	if err := broadcast(r.group, &verdict, mostTold); err != nil {
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
	if err := decide.SameArithmetic(&before, t.Arithmetic); err != nil {
		return "it would round otherwise: " + decide.DifferentArithmetic(&before.Setup.Info, t.Arithmetic)
	}
	return ""
}

// engine returns the first replica's, nil where nothing is computed.
func (r *runner) engine() engine.Engine { return r.replicas[0].engine }

// reducing counts the memory of what brings the ranks' gradients together.
func (r *runner) reducing(needs *engineNeeds) {
	o := &r.options
	if !r.apart {
		return
	}
	for i := range o.replicas() {
		needs.Engine += collective.OrderedBytes(r.layout(), o.Accumulate, o.Accumulate/o.world(), o.Job.Index+i, o.world())
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
		case rep.alone():
		case r.apart:
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

// separate ends what unite made.
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
	if _, err := r.group.Gather(nil, 0); err != nil {
		return err
	}
	_, err := r.group.Broadcast(nil, 0)
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
	var s stand
	sections := make(map[string][]byte)
	if r.from != nil {
		sections = engineSections(r.from.sections)
		s = stand{At: &r.from.at, Epochs: r.from.epochs, Sections: slices.Sorted(maps.Keys(sections))}
	}
	if err := broadcast(r.group, &s, max(mostEarlier, r.options.Memory/8)); err != nil {
		return err
	}
	received := make(map[string][]byte)
	for _, name := range s.Sections {
		b, err := r.group.Broadcast(sections[name], r.decision.Checkpoint()+mostTold)
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
	if t.alone() {
		return nil // its sums are the run's
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
	all, err := gather(t.group, mine, t.mostShare())
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

// mostShare returns the most bytes of a rank's share: of its batches, and of a scorer's state in
// base64.
func (t *trainer) mostShare() int64 {
	const each = 64
	return mostTold + each*int64(t.done-t.shared) + 4*(t.scorerState/3+1)
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
	if err == nil {
		return nil, false
	}
	lost := g.Lost()
	_, is := errors.AsType[*collective.Lost](err)
	return lost, lost != nil && (is || errors.Is(err, context.Canceled) || errors.Is(err, lost))
}
