// Package monitor serves a run under way over HTTP: its report, and its counts as metrics
// for Prometheus.
//
//	trainer ── Start, Step, Epoch ──► Monitor ◄── GET ── browser, Prometheus
//
//	/               the report below the run's progress; it renews itself
//	/report         the report alone
//	/now            the run's progress, as a piece of HTML
//	/metrics        Prometheus' text exposition format
//	/healthz        ok, as long as the run is under way
//	/debug/pprof/   profiles of the process
//
// The trainer leaves a copy of its state after each step, and the server uses only this copy: it
// neither reads the trainer's memory nor delays it. The pages load nothing from elsewhere, and are
// read-only.
//
// Requests must name the server by an IP address, by localhost, by the host's own name or by the
// name in the listening address; others get status 421. Beyond the loopback all but /healthz
// requires a token, in "Authorization: Bearer TOKEN" or as the password of basic authentication.
package monitor

import (
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"diskgnn/pipeline"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// Phase is a phase of a run.
type Phase string

// The phases in their order in a run; training and validating alternate.
const (
	Preparing  Phase = "preparing"
	Filling    Phase = "filling the cache"
	Training   Phase = "training"
	Validating Phase = "validating"
	Testing    Phase = "testing"
)

var phases = []Phase{Preparing, Filling, Training, Validating, Testing}

// Monitor serves the report and the metrics of one run over HTTP. One goroutine calls the methods that
// report the run's progress. The methods of a nil Monitor do nothing.
type Monitor struct {
	listener net.Listener
	server   *http.Server
	served   sync.WaitGroup
	names    map[string]bool // that requests may have for the server
	access   Access
	asks     bool // for the token

	counting sync.Mutex
	open     []net.Conn

	mu    sync.Mutex
	state state

	rendering sync.Mutex // held while the report is rendered
	rendered  []byte     // the report of a version of the run; nil: none yet
	version   int
}

// state is the progress of the run.
type state struct {
	phase Phase
	begun bool // the run has a directory: the fields below are set
	dir   string
	file  rundir.File
	page  func(io.Writer) error
	moved map[string]func() time.Time // by the names of open pipelines: when a batch last moved
	// version counts the changes of the report.
	version int

	sums   rundir.Epoch // of the epoch under way; its Links are the state's own
	done   int          // batches of it, in whole steps
	epochs int          // that are finished, also by earlier processes
	last   rundir.Epoch // the latest of them that is known
	valid  score.Score  // the latest
	best   score.Score
	bestAt int

	// Sums of this process. ended has the values of counters over its finished epochs, less the
	// first epoch's share of earlier processes.
	ended          []float64
	stages         []pipeline.LinkTime // never less than they were
	endedStages    []pipeline.LinkTime
	batches, steps int // of finished epochs, less those done before
	finished       int // epochs
	preloadBytes   int64
	preloadSeconds float64
	started        time.Time // when the first step began
	from           int       // batches of the run that were done then
}

// Listen listens at an address, HOST:PORT, and serves the phase of preparation. Without a host the
// address is the loopback's; port 0 is any free port. Errors while serving go to note.
func Listen(address string, access Access, note func(format string, args ...any)) (*Monitor, error) {
	l, err := listen(address)
	if err != nil {
		return nil, err
	}
	m, err := on(l, address, access, note)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return m, nil
}

// on serves on a listener, which it takes over unless it returns an error.
func on(l net.Listener, address string, access Access, note func(format string, args ...any)) (m *Monitor, err error) {
	m = &Monitor{listener: l, state: newState(), names: names(address), access: access}
	if m.asks, err = access.permit(address, m.Loopback()); err != nil {
		return nil, err
	}
	m.server = &http.Server{Handler: m.handler(), ErrorLog: log.New(firstLine(note), "", 0),
		ReadHeaderTimeout: 10 * time.Second, WriteTimeout: writeTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10, ConnState: m.count}
	m.serve()
	return m, nil
}

// writeTimeout is the time for an answer, counted for a recording from its end.
const writeTimeout = time.Minute

func newState() state {
	return state{phase: Preparing, valid: score.Undefined, best: score.Undefined, ended: make([]float64, len(counters)), moved: make(map[string]func() time.Time)}
}

// Begin sets the run's directory, its run.json and the epochs of earlier processes. From then on the
// metrics and the report of the run are served. page writes the present report; it is called from
// other goroutines, one at a time.
func (m *Monitor) Begin(dir string, file rundir.File, epochs []rundir.Epoch, page func(io.Writer) error) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.state
	s.dir, s.file, s.page, s.begun = dir, file, page, true
	s.version++
	s.epochs, s.valid, s.best = 0, score.Undefined, score.Undefined
	for i := range epochs {
		s.take(&epochs[i])
	}
}

// Phase sets the run's phase.
func (m *Monitor) Phase(p Phase) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.phase = p
}

// Opened adds a pipeline, until Closed with its name. moved returns when a batch of it last moved; it is
// called from other goroutines.
func (m *Monitor) Opened(name string, moved func() time.Time) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.moved[name] = moved
}

// Closed removes a pipeline.
func (m *Monitor) Closed(name string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.state.moved, name)
}

// Preloaded sets the bytes read to fill the cache, and the seconds that it took.
func (m *Monitor) Preloaded(bytes int64, seconds float64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.preloadBytes += bytes
	m.state.preloadSeconds += seconds
}

// Start sets the point where this process begins: in an epoch with done batches of earlier
// processes, which have these sums.
func (m *Monitor) Start(sums *rundir.Epoch, done int) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.state
	s.count(&s.sums, s.done, 1) // of an attempt before this one
	s.count(sums, done, -1)
	s.keep(sums, done)
	s.started, s.from = time.Now(), sums.Epoch*s.perEpoch()+done
}

// Step sets the sums of the epoch under way after a step, and its number of finished batches.
// Seconds are the epoch's training time so far, Loss the mean over batches with a known loss.
func (m *Monitor) Step(sums *rundir.Epoch, done int) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.keep(sums, done)
}

// Epoch reports a finished epoch: e is its line of metrics.jsonl.
func (m *Monitor) Epoch(e *rundir.Epoch) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.state
	s.keep(e, e.Batches)
	s.count(&s.sums, s.done, 1)
	s.finished++
	s.version++
	s.take(e)
	s.sums, s.done = rundir.Epoch{Epoch: e.Epoch + 1, Loss: score.Undefined}, 0
}

// take adds a finished epoch.
func (s *state) take(e *rundir.Epoch) {
	s.epochs = e.Epoch + 1
	s.last = *e
	s.last.Links = nil
	if e.ValidAccuracy.Defined() {
		s.valid = e.ValidAccuracy
		if !s.best.Defined() || s.valid > s.best {
			s.best, s.bestAt = s.valid, e.Epoch
		}
	}
}

// keep copies the sums of the epoch under way.
func (s *state) keep(sums *rundir.Epoch, done int) {
	own := append(s.sums.Links[:0], sums.Links...)
	s.sums, s.done = *sums, done
	s.sums.Links = own
	s.know(own)
	for i, l := range own {
		// The waiting of a GPU's streams is estimated anew at every look.
		s.stages[i].Busy = max(s.stages[i].Busy, s.endedStages[i].Busy+l.Busy)
		s.stages[i].Blocked = max(s.stages[i].Blocked, s.endedStages[i].Blocked+l.Blocked)
	}
}

// know stores the links. They are the same in all epochs.
func (s *state) know(links []pipeline.LinkTime) {
	for i := len(s.stages); i < len(links); i++ {
		l := pipeline.LinkTime{Link: links[i].Link, Workers: links[i].Workers}
		s.stages, s.endedStages = append(s.stages, l), append(s.endedStages, l)
	}
}

// count adds an epoch's sums to the process's sums, or subtracts them.
func (s *state) count(sums *rundir.Epoch, done int, sign int) {
	for i := range counters {
		s.ended[i] += float64(sign) * counters[i].of(sums)
	}
	s.know(sums.Links)
	for i, l := range sums.Links {
		s.endedStages[i].Busy += float64(sign) * l.Busy
		s.endedStages[i].Blocked += float64(sign) * l.Blocked
	}
	s.batches += sign * done
	s.steps += sign * s.stepsOf(done)
}

// stepsOf returns the number of steps of done batches of an epoch.
func (s *state) stepsOf(done int) int {
	each := max(1, s.file.Params.Accumulate)
	return (done + each - 1) / each
}

func (s *state) perEpoch() int { return s.file.PackFacts.BatchesPerEpoch }

// left returns the estimated rest of the training, 0 if unknown.
func (s *state) left(now time.Time) time.Duration {
	done := s.sums.Epoch*s.perEpoch() + s.done
	if s.started.IsZero() || done <= s.from {
		return 0
	}
	left := s.file.Params.Epochs*s.perEpoch() - done
	return time.Duration(float64(now.Sub(s.started)) * float64(left) / float64(done-s.from))
}

// look returns a copy of the state.
func (m *Monitor) look() state {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.state
	s.ended, s.stages = slices.Clone(s.ended), slices.Clone(s.stages)
	s.sums.Links, s.endedStages = nil, nil
	s.moved = maps.Clone(s.moved)
	return s
}
