package train

import (
	"context"
	"fmt"
	"slices"
	"time"

	"diskgnn/featurestore"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/train/collective"
	"diskgnn/train/decide"
	"diskgnn/train/engine"
	"diskgnn/train/epoch"
	"diskgnn/train/exact"
	"diskgnn/train/monitor"
	"diskgnn/train/ranks"
	"diskgnn/train/rundir"
)

// parts are the constructors of a run's components; tests put faulty ones in.
type parts struct {
	stack  func(kind string, o iostack.Options) (iostack.Stack, string, error)
	engine func(w engineWish) (engine.Engine, engineNeeds, error)
	decide func(o decide.Options, f decide.Facts) (decide.Decision, error)
	enter  func(limit int64, delegated bool) (group, error) // see memgroup.Enter
	join   func(ctx context.Context, m *ranks.Membership, rep progress.Reporter) (*collective.Group, error)
	reduce *ranks.Reducing
	drive  func(ctx context.Context, s iostack.Stack, file string, seed uint64) (perSecond float64, single time.Duration, err error)
}

// group is a memory cgroup that the process is in.
type group interface{ Leave() error }

// process is the state that outlives the attempts at a run.
type process struct {
	fs        vfs.FS
	report    progress.Reporter
	parts     parts
	drawing   drawing
	recording *recording
	accesses  int64             // that suit the drive; 0: not measured
	group     *collective.Group // of the ranks
	monitor   *monitor.Monitor  // that shows the run; nil: none
}

// attempts repeats an attempt at a run or a plan until every drawn batch fits its memory: a larger
// batch changes the facts, and so the decision.
func (p *process) attempts(attempt func() error) error {
	for {
		err := attempt()
		if !p.drawing.again(err) {
			return err
		}
		p.report.Logf("%v: making room for it", p.drawing.grown)
	}
}

// runner holds the resources of an attempt, in the order in which they are opened.
type runner struct {
	*process
	out, source string       // the directories of the run and of its batches, as messages name them
	root        bool         // rank 0 is here
	began       time.Time    // when the run would have begun, had it never been interrupted
	was         *rundir.File // of the resumed run, or nil

	planning bool // a few batches are computed, nothing is written
	// consumer returns the memory of a consumer in the place of an engine; nil: there is none.
	consumer func(f *featurestore.Facts) decide.Needs
	unsummed bool // the file of weights that the run begins with has no checksum

	found    featurestore.Candidate
	facts    featurestore.Facts
	stack    iostack.Stack
	needs    engineNeeds
	decision decide.Decision
	exact    *exact.Validator // nil: weights are scored on batches, or by another rank
	store    featurestore.Store
	// replicas train together, each on one device or, as the only one, on the host.
	replicas []*epoch.Replica
	said     []string // of devices and ranks, while these were opened
	apart    bool     // the ranks' gradients are summed on the host
	reduceID []byte   // of the communicator of the ranks' devices, where they are summed there
	dir      *runDir
	from     *epoch.Point // nil: the beginning
	result   rundir.Result
	closes   []func() // in reverse

	trainer *epoch.Trainer
}

// say keeps a line that is printed with the decision.
func (r *runner) say(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

// onClose makes close call f, before it closes resources that were opened earlier.
func (r *runner) onClose(f func()) { r.closes = append(r.closes, f) }

// close releases the resources in reverse order.
func (r *runner) close() {
	for _, f := range slices.Backward(r.closes) {
		f()
	}
	r.closes = nil
}
