package epoch

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/pipeline"
	"diskgnn/train/collective"
	"diskgnn/train/decide"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/ranks"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// errBroken is what a fake fails by.
var errBroken = errors.New("broken")

// world is a run on a fake store and a fake engine, whose numbers follow from the batch's: training
// batch i has i mod 3 + 1 labelled seed nodes and an unlabelled one, of which all labelled ones are
// right if i is even, and its loss is i plus the weight. Its gradient is i + 1.
type world struct {
	t      *testing.T
	recipe recipe.Recipe
	facts  featurestore.Facts
	plan   decide.Schedule
	every  rundir.Interval
	serial bool
	none   bool              // no engine
	late   bool              // outcomes are known one batch later
	scores []int             // validation nodes that are right, by round, of eight in each batch
	fails  string            // what fails
	kind   error             // of its error; nil: errBroken
	on     func(string)      // called with every event
	at     func(i int) error // what the read of a training batch fails by; nil: none does
	slots  Slots

	mu     sync.Mutex
	open   int // slots and works
	events []string
	opened []*Opened
	filled []int  // batches that Fill was for
	held   []byte // the store's state
	added  []int  // labelled seed nodes of the batches that the reduction took
	device device.GPU
	times  engine.Times // of a batch on the device
	begun  bool         // events have the batches that are begun
	record *pipeline.Recorder
	result rundir.Result
	dir    *rundir.Dir
	engine *fakeEngine
	store  *fakeStore
}

// newWorld is of two epochs of three batches, one in a step, with a validation batch and two test ones.
func newWorld(t *testing.T) *world {
	w := &world{t: t, scores: []int{4, 5, 6, 7}, slots: Slots{Train: 2, Eval: 1}}
	w.recipe = recipe.Recipe{Epochs: 2, LR: 0.5, Metric: recipe.MetricAccuracy, ValidateEvery: 1}
	w.facts = featurestore.Facts{RowBytes: 10, Classes: 2, Train: 3, Valid: 1, Test: 2, Epochs: 1, BatchesPerEpoch: 3, EpochSeeds: 100, EvalSeeds: 100}
	w.plan = decide.Schedule{Epochs: 2, PerEpoch: 3, Sampled: 1, Accumulate: 1, World: 1}
	w.result = rundir.Result{BestEpoch: -1, ValidAccuracy: score.Undefined}
	return w
}

// begin makes the run's directory.
func (w *world) begin() {
	w.t.Helper()
	var err error
	file := rundir.File{Store: "fake", Params: rundir.Params{Recipe: w.recipe}}
	if w.dir, err = rundir.Begin(vfs.Unsynced(vfs.OS), w.t.TempDir()+"/run", false, file); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { w.dir.Close() })
}

// trainer returns the trainer of a rank.
func (w *world) trainer(g *collective.Group, from *Point) (*Trainer, error) {
	if w.dir == nil && g.Rank() == 0 {
		w.begin()
	}
	w.engine, w.store = &fakeEngine{world: w}, &fakeStore{world: w}
	rep := &Replica{Device: w.device, View: w.store, Group: g, Reduction: collective.Alone{}}
	if !w.none {
		rep.Engine = w.engine
	}
	if g.World() > 1 {
		rep.Reduction = &talk{g, w}
	}
	plan := w.plan
	plan.Rank, plan.World = g.Rank(), g.World()
	c := Config{Recipe: &w.recipe, Schedule: plan, Facts: &w.facts, Store: w.store, Stack: &fakeStack{}, Serial: w.serial,
		CheckpointEvery: w.every, Keep: 100, Result: &w.result, Events: Stream{w}, Began: time.Now(), From: from, Recorder: w.record}
	if g.Rank() == 0 {
		c.Dir = w.dir
	}
	return New(c, rep)
}

// run trains from a checkpoint, or from the beginning, and looks for slots that nobody freed.
func (w *world) run(ctx context.Context, g *collective.Group, from *Point) error {
	t, err := w.trainer(g, from)
	if err == nil {
		err = t.Start(ctx, w.slots)
		if err == nil {
			err = t.Run(ctx)
		}
		t.Close()
	}
	if w.open != 0 {
		w.t.Errorf("%d slots and works are not freed", w.open)
	}
	return err
}

// must is run from the beginning, alone, which nothing ends.
func (w *world) must() {
	w.t.Helper()
	if err := w.run(context.Background(), collective.One(), nil); err != nil {
		w.t.Fatal(err)
	}
}

// On implements Subscriber: it notes the event in words.
func (w *world) On(e Event) error {
	s := words(e)
	w.mu.Lock()
	if e, ok := e.(*Opened); ok {
		w.opened = append(w.opened, e)
	}
	w.events = append(w.events, s)
	w.mu.Unlock()
	if w.on != nil {
		w.on(s)
	}
	if w.fails == s {
		return errBroken
	}
	return nil
}

func words(e Event) string {
	switch e := e.(type) {
	case *PhaseBegan:
		return [...]string{"filling", "training", "validating", "testing"}[e.Phase]
	case *Opened:
		return "opened " + e.Name
	case *Closed:
		return "closed " + e.Name
	case *Filled:
		return fmt.Sprintf("filled %d", e.Bytes)
	case *Started:
		e.Sums()
		return fmt.Sprintf("started %s: %d, %t, %d", e.Name, e.Items, e.Whole, e.Done)
	case *Ended:
		return "ended"
	case *Began:
		return "began"
	case *BatchesRan:
		return "ran"
	case *Computed:
		return fmt.Sprintf("computed %d, %d bytes", e.Slot.Slot.(*fakeSlot).ref.Index, e.BytesRead)
	case *Outcome:
		return fmt.Sprintf("outcome %v of %d", e.Loss, e.Seeds)
	case *StepTaken:
		return fmt.Sprintf("step %d", e.Done)
	case *Judged:
		return fmt.Sprintf("judged %d, %t", e.Epoch.Epoch, e.Best)
	case *EvaluationBegan:
		return fmt.Sprintf("%s %d", e.Name, e.Batches)
	case *Evaluated:
		return "evaluated"
	case *EvaluationEnded:
		return "evaluation ended"
	case *Note:
		return "note: " + e.Text
	}
	return fmt.Sprintf("%T", e)
}

// fail returns the error of what is to fail.
// broken makes a method fail from now on.
func (w *world) broken(method string) {
	w.mu.Lock()
	w.fails = method
	w.mu.Unlock()
}

// fail returns an error if that is to fail. Goroutines that load ahead call it too.
func (w *world) fail(what string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fails == what {
		return cmp.Or(w.kind, errBroken)
	}
	return nil
}

func (w *world) count(n int) {
	w.mu.Lock()
	w.open += n
	w.mu.Unlock()
}

// fakeStack has read 1000 bytes more each time that it is asked, in 1, 3, 5, … seconds.
type fakeStack struct {
	iostack.Stack
	asked int64
	more  time.Duration
	reads int // under way
}

func (s *fakeStack) Stats() iostack.Stats {
	s.asked++
	return iostack.Stats{BytesRead: 1000 * s.asked, InFlight: time.Duration(s.asked*s.asked)*time.Second + s.more, UnderWay: s.reads}
}

// fakeStore is a store of which slots are counted.
type fakeStore struct {
	featurestore.Store
	*world
	made  int
	state []byte
}

func (s *fakeStore) Fill(_ context.Context, next int, _ progress.Reporter) (int64, error) {
	s.filled = append(s.filled, next)
	return 77, s.fail("Fill")
}

func (s *fakeStore) State() ([]byte, error) { return s.held, s.fail("Store.State") }

func (s *fakeStore) LoadState(b []byte) error {
	s.state = slices.Clone(b)
	return s.fail("Store.LoadState")
}

func (s *fakeStore) NewSlot(eval bool) (featurestore.Slot, error) {
	if s.made++; s.fails == fmt.Sprintf("NewSlot %d", s.made) {
		return nil, errBroken
	}
	s.count(1)
	return &fakeSlot{world: s.world, eval: eval}, nil
}

type fakeSlot struct {
	featurestore.Slot
	*world
	eval  bool
	ref   featurestore.Ref
	batch graph.Batch
	under context.Context // of the latest link
}

func (s *fakeSlot) Start(r featurestore.Ref) error {
	if s.eval != (r.Split != featurestore.Train) {
		return fmt.Errorf("%v in a slot with eval %t", r, s.eval)
	}
	s.ref = r
	i := r.Index
	if s.begun {
		s.mu.Lock()
		if s.events = append(s.events, fmt.Sprintf("begun %d", i)); s.eval {
			s.events[len(s.events)-1] = fmt.Sprintf("evaluation begun: %v", r)
		}
		s.mu.Unlock()
	}
	labelled := i%3 + 1
	if s.eval {
		labelled = 8
	}
	s.batch = graph.Batch{Input: make([]uint32, 5+i), Labels: append(make([]int32, labelled), graph.Unlabelled)}
	if s.world.at != nil && !s.eval {
		return s.world.at(i)
	}
	return s.fail("Start")
}

func (s *fakeSlot) LoadGraph(ctx context.Context) error { return s.link(ctx, "LoadGraph") }
func (s *fakeSlot) Wait(ctx context.Context) error      { return s.link(ctx, "Wait") }
func (s *fakeSlot) Assemble(ctx context.Context) error  { return s.link(ctx, "Assemble") }
func (s *fakeSlot) Batch() *graph.Batch                 { return &s.batch }
func (s *fakeSlot) X() []float32                        { return nil }
func (s *fakeSlot) Matrix() []byte                      { return nil }
func (s *fakeSlot) Free()                               { s.count(-1) }
func (s *fakeSlot) Fill(device.Stream, device.Buffer) (device.Span, error) {
	return nil, errBroken
}

// link keeps the latest context, and fails where that is wanted.
func (s *fakeSlot) link(ctx context.Context, name string) error {
	s.under = ctx
	return s.fail(name)
}

func (s *fakeSlot) Counts() featurestore.Counts {
	return featurestore.Counts{BytesRead: int64(100 + s.ref.Index), UsefulBytes: 50, RAMRows: 1, Requests: 3}
}

// fakeEngine has one weight. A step adds the rate times its batches' gradients to it.
type fakeEngine struct {
	engine.Engine
	*world
	weight, gradient float32
	rate             float64
	held             *engine.Outcome // of the latest batch, which is not yet told
	places           []engine.Place
	rounds           int // of validation
	steps            int
	wrong            float32
}

type fakeWork struct {
	*world
	eval bool
}

func (k *fakeWork) Prepare(*graph.Batch) error { return k.fail("Prepare") }
func (k *fakeWork) Close()                     { k.count(-1) }

func (e *fakeEngine) NewWork(eval bool, _ []byte) (engine.Work, error) {
	if err := e.fail(fmt.Sprintf("NewWork %t", eval)); err != nil {
		return nil, err
	}
	e.count(1)
	return &fakeWork{world: e.world, eval: eval}, nil
}

// logits are those of labels of class 0, of which so many are right.
func logits(labels []int32, right int) []float32 {
	l := make([]float32, 2*len(labels))
	for i := range labels {
		l[2*i+1] = 1
		if i < right {
			l[2*i] = 2
		}
	}
	return l
}

func (e *fakeEngine) Backward(_ context.Context, w engine.Work, f engine.Features, at engine.Place) (*engine.Outcome, error) {
	if w.(*fakeWork).eval {
		return nil, errors.New("trained in the work of evaluation")
	}
	s := f.(*fakeSlot)
	i := s.ref.Index
	e.places = append(e.places, at)
	e.gradient += float32(i + 1)
	right := 0
	if i%2 == 0 {
		right = len(s.batch.Labels)
	}
	o := &engine.Outcome{Loss: float64(i) + float64(e.weight), Labels: slices.Clone(s.batch.Labels), Logits: logits(s.batch.Labels, right), Times: e.times}
	switch e.fails {
	case "NaN":
		o.Loss = math.NaN()
	case "Inf":
		o.Loss = math.Inf(1)
		return o, errBroken
	}
	if e.late {
		o, e.held = e.held, o
	}
	return o, e.fail("Backward")
}

func (e *fakeEngine) apply(gradient float32) error {
	e.weight += float32(e.rate) * gradient
	e.gradient = 0
	if e.steps++; e.fails == "diverge" && e.steps == 3 {
		e.weight = float32(math.Inf(1))
	}
	return e.fail("Apply")
}

func (e *fakeEngine) Apply() error { return e.apply(e.gradient) }

func (e *fakeEngine) Finish() (*engine.Outcome, error) {
	o := e.held
	e.held = nil
	return o, e.fail("Finish")
}

func (e *fakeEngine) Infer(_ context.Context, w engine.Work, f engine.Features) ([]float32, error) {
	if !w.(*fakeWork).eval {
		return nil, errors.New("evaluated in the work of training")
	}
	s := f.(*fakeSlot)
	right := int(e.weight) % 8 // of test nodes
	if s.ref.Split == featurestore.Valid {
		right = e.scores[e.rounds]
		if s.ref.Index == e.facts.Valid-1 {
			e.rounds++
		}
	}
	l := logits(s.batch.Labels, right)
	if e.fails == "logits" {
		l[0] = float32(math.NaN())
	}
	return l, e.fail("Infer")
}

func (e *fakeEngine) SetLR(rate float64) error { e.rate = rate; return e.fail("SetLR") }

func (e *fakeEngine) Snapshot(dst []float32) ([]float32, error) {
	return append(dst, e.weight), e.fail("Snapshot")
}

func (e *fakeEngine) Restore(weights []float32) error {
	if len(weights) != 1 {
		return fmt.Errorf("%d weights", len(weights))
	}
	e.weight = weights[0]
	return e.fail("Restore")
}

func (e *fakeEngine) State() (map[string][]byte, error) {
	b := binary.LittleEndian.AppendUint32(nil, math.Float32bits(e.weight+e.wrong))
	return map[string][]byte{"weight": b, "moment": {7}}, e.fail("State")
}

func (e *fakeEngine) LoadState(state map[string][]byte) error {
	if len(state) != 2 || len(state["weight"]) != 4 || len(state["moment"]) != 1 {
		return fmt.Errorf("the state %v", state)
	}
	e.weight = math.Float32frombits(binary.LittleEndian.Uint32(state["weight"]))
	return e.fail("LoadState")
}

func (e *fakeEngine) Params() []model.Param {
	return []model.Param{{Name: "w", Rows: 1, Cols: 1, Shape: []int{1}}}
}

// talk is a reduction that sums by messages.
type talk struct {
	g *collective.Group
	*world
}

func (r *talk) Add(_ engine.Engine, labelled int) error {
	r.added = append(r.added, labelled)
	return nil
}

func (r *talk) Step(e engine.Engine, ask collective.Signals) (collective.Signals, error) {
	type part struct {
		Ask      collective.Signals
		Gradient float32
	}
	mine := part{Ask: ask}
	f, ok := e.(*fakeEngine)
	if ok {
		mine.Gradient = f.gradient
	}
	all, err := ranks.Gather(r.g, mine, ranks.MostTold)
	if err != nil {
		return 0, err
	}
	for _, p := range all[min(1, len(all)):] {
		mine.Ask |= p.Ask
		mine.Gradient += p.Gradient
	}
	if err := ranks.Broadcast(r.g, &mine, ranks.MostTold); err != nil {
		return 0, err
	}
	if !ok {
		return mine.Ask, nil
	}
	return mine.Ask, f.apply(mine.Gradient)
}

// checkpoints returns the run's checkpoints, the oldest first.
func (w *world) checkpoints() (list []*Point) {
	w.t.Helper()
	names, err := w.dir.Checkpoints().List()
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Reverse(names)
	for _, name := range names {
		head, sections, err := w.dir.Checkpoints().Read(name, 1<<20)
		if err != nil {
			w.t.Fatal(err)
		}
		p := &Point{Name: name, Sections: sections}
		if err := json.Unmarshal(head, &p.At); err != nil {
			w.t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}
