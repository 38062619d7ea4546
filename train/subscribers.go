package train

import (
	"fmt"

	"diskgnn/train/epoch"
	"diskgnn/train/monitor"
	"diskgnn/train/rundir"
	"diskgnn/train/terminal"
)

// subscribers returns the subscribers to the events of the process' first replica. Those that write
// to the disk come first.
func (r *runner) subscribers() epoch.Stream {
	var s epoch.Stream
	if r.recording != nil {
		s = append(s, r.recording)
	}
	if r.dir != nil {
		s = append(s, metricsFile{r.dir.Dir})
	}
	s = append(s, terminal.New(r.report, &r.decision.Options.Recipe, r.engine() != nil, r.decision.Memory.EvalSlots > 0 || r.exact != nil), terminal.Watch(r.report, ""))
	if r.dir != nil {
		s = append(s, reportPage{r.dir})
	}
	if r.monitor != nil {
		s = append(s, monitoring{r.monitor})
	}
	return s
}

// watches returns the subscribers to the events of another replica.
func (r *runner) watches(rep *epoch.Replica) epoch.Stream {
	return epoch.Stream{terminal.Watch(r.report, fmt.Sprintf("rank %d, ", rep.Group.Rank()))}
}

// metricsFile writes metrics.jsonl, while the run goes on.
type metricsFile struct{ dir *rundir.Dir }

func (m metricsFile) On(e epoch.Event) error {
	if e, ok := e.(*epoch.Judged); ok {
		line := *e.Epoch
		m.dir.Later(func() error { return m.dir.AppendMetrics(line) })
	}
	return nil
}

// reportPage renews the report of a run under way.
type reportPage struct{ dir *runDir }

func (p reportPage) On(e epoch.Event) error {
	if _, ok := e.(*epoch.Judged); ok {
		p.dir.Later(p.dir.reportProgress)
	}
	return nil
}

// monitoring passes the events to the monitor.
type monitoring struct{ *monitor.Monitor }

var monitored = map[epoch.Phase]monitor.Phase{epoch.Filling: monitor.Filling, epoch.Training: monitor.Training,
	epoch.Validating: monitor.Validating, epoch.Testing: monitor.Testing}

func (w monitoring) On(e epoch.Event) error {
	switch e := e.(type) {
	case *epoch.Opened:
		w.Opened(e.Name, e.Moved)
	case *epoch.Closed:
		w.Closed(e.Name)
	case *epoch.PhaseBegan:
		w.Phase(monitored[e.Phase])
	case *epoch.Filled:
		w.Preloaded(e.Bytes, e.Seconds)
	case *epoch.Started:
		sums := e.Sums()
		w.Start(&sums, e.Done)
	case *epoch.StepTaken:
		sums := e.Sums()
		w.Step(&sums, e.Done)
	case *epoch.Judged:
		w.Epoch(e.Epoch)
	}
	return nil
}
