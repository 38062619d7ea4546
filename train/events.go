package train

import (
	"time"

	"diskgnn/internal/progress"
	"diskgnn/pipeline"
	"diskgnn/train/monitor"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
)

// An event is something that happens while a run trains. The loop publishes events, and names
// none of those who take them: metrics.jsonl, the terminal and --progress json, the report, the
// monitor, the trace of reads. An event belongs to the loop, which uses it again: a subscriber
// copies what it keeps.
type event interface{ isEvent() }

type (
	// phaseBegan says what the run does from now on.
	phaseBegan struct{ phase phase }
	// filled says that the caches are.
	filled struct {
		bytes   int64
		seconds float64
	}
	// started says that batches are to come. From the first call on, sums returns what is summed
	// up of the epoch under way, of which so many batches are done in whole steps.
	started struct {
		name  string
		items int
		whole bool // the run's epochs, not a few batches
		sums  func() rundir.Epoch
		done  int
	}
	// ended says that no more come.
	ended struct{}
	// epochBegan says that another epoch is the one under way.
	epochBegan struct{}
	// batchesRan says since when batches of the epoch run.
	batchesRan struct{ since time.Time }
	// computed says that a batch was, for which so many bytes were read.
	computed struct {
		kept      *kept
		took      time.Duration // computing
		bytesRead int64
	}
	// outcome says what was found of a batch, maybe some batches after it was computed.
	outcome struct{ found }
	// stepTaken says how many of the epoch's batches are done.
	stepTaken struct {
		sums func() rundir.Epoch
		done int
	}
	// epochJudged says what an epoch came to; table is where its time went.
	epochJudged struct {
		epoch *rundir.Epoch
		best  bool // so far
		table *pipeline.Table
	}
	// evaluationBegan, evaluated and evaluationEnded are of batches that are scored.
	evaluationBegan struct {
		name    string
		batches int
	}
	evaluated       struct{}
	evaluationEnded struct{}
	// note is something to know.
	note struct{ text string }
)

func (*phaseBegan) isEvent()      {}
func (*filled) isEvent()          {}
func (*started) isEvent()         {}
func (*ended) isEvent()           {}
func (*epochBegan) isEvent()      {}
func (*batchesRan) isEvent()      {}
func (*computed) isEvent()        {}
func (*outcome) isEvent()         {}
func (*stepTaken) isEvent()       {}
func (*epochJudged) isEvent()     {}
func (*evaluationBegan) isEvent() {}
func (*evaluated) isEvent()       {}
func (*evaluationEnded) isEvent() {}
func (*note) isEvent()            {}

// phase is what a run does.
type phase int

const (
	phaseFilling phase = iota
	phaseTraining
	phaseValidating
	phaseTesting
)

// subscriber takes events, on the goroutine that publishes them, in their order. Its error ends
// the run.
type subscriber interface{ on(e event) error }

// stream is who takes events, in turn.
type stream []subscriber

func (s stream) publish(e event) error {
	for _, to := range s {
		if err := to.on(e); err != nil {
			return err
		}
	}
	return nil
}

// tell publishes what no subscriber fails by.
func (s stream) tell(e event) { _ = s.publish(e) }

// metricsFile writes metrics.jsonl.
type metricsFile struct{ dir *runDir }

func (m metricsFile) on(e event) error {
	if e, ok := e.(*epochJudged); ok {
		return m.dir.AppendMetrics(*e.epoch)
	}
	return nil
}

// reportPage renews the report of a run under way.
type reportPage struct{ dir *runDir }

func (p reportPage) on(e event) error {
	if _, ok := e.(*epochJudged); ok {
		p.dir.reportProgress()
	}
	return nil
}

// on writes the batch that was computed.
func (r *recording) on(e event) error {
	if e, ok := e.(*computed); ok {
		return r.add(e.kept, e.took)
	}
	return nil
}

// monitoring shows the run under way to whoever watches it.
type monitoring struct{ *monitor.Monitor }

var monitored = map[phase]monitor.Phase{phaseFilling: monitor.Filling, phaseTraining: monitor.Training, phaseValidating: monitor.Validating, phaseTesting: monitor.Testing}

func (w monitoring) on(e event) error {
	switch e := e.(type) {
	case *phaseBegan:
		w.Phase(monitored[e.phase])
	case *filled:
		w.Preloaded(e.bytes, e.seconds)
	case *started:
		sums := e.sums()
		w.Start(&sums, e.done)
	case *stepTaken:
		sums := e.sums()
		w.Step(&sums, e.done)
	case *epochJudged:
		w.Epoch(e.epoch)
	}
	return nil
}

// terminal says what happens: lines and bars, or the lines of --progress json.
type terminal struct {
	report    progress.Reporter
	recipe    *recipe.Recipe
	computes  bool // there is an engine
	validates bool // there are batches to evaluate on
	meter     meter
	bound     string // the link that was last said to be the slowest
	training  progress.Task
	scoring   progress.Task
}

// newTerminal returns the terminal of a run whose recipe is settled.
func newTerminal(report progress.Reporter, r *recipe.Recipe) *terminal {
	none := progress.Discard.Task("", 0, progress.Batches)
	return &terminal{report: report, recipe: r, training: none, scoring: none}
}

func (p *terminal) on(e event) error {
	switch e := e.(type) {
	case *started:
		p.training = p.report.Task(e.name, int64(e.items), progress.Batches)
		if e.whole {
			progress.Describe(p.training, p.meter.String)
		}
	case *ended:
		p.training.Done()
	case *epochBegan:
		p.meter.reset()
	case *batchesRan:
		p.meter.runs(e.since)
	case *computed:
		p.training.Add(1)
		p.meter.read(e.bytesRead)
	case *outcome:
		p.meter.found(e.found)
	case *epochJudged:
		p.report.Logf("%s", p.line(e.epoch, e.best))
		p.sayBound(e.table)
		progress.Record(p.report, "epoch", *e.epoch)
	case *evaluationBegan:
		p.scoring = progress.Discard.Task(e.name, 0, progress.Batches)
		if e.batches >= visibleBatches {
			p.scoring = p.report.Task(e.name, int64(e.batches), progress.Batches)
		}
	case *evaluated:
		p.scoring.Add(1)
	case *evaluationEnded:
		p.scoring.Done()
	case *note:
		p.report.Logf("%s", e.text)
	}
	return nil
}
