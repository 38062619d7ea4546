package epoch

import (
	"time"

	"diskgnn/pipeline"
	"diskgnn/train/engine"
)

// Names of the GPU's streams, which appear as links.
const (
	LinkCopy   = "GPU copy"
	LinkGather = "GPU gather"
)

// gpuTimes collects the GPU's times of finished steps, on the clock of the pipeline's links. A nil
// one collects nothing.
type gpuTimes struct {
	recorder *pipeline.Recorder // nil without a trace
	lanes    [3]pipeline.Lane
	step     int // that the next times belong to

	// Since the last call of add.
	busy   [3]time.Duration
	waited time.Duration // by the last link, for the GPU
}

var GPULinks = [3]string{LinkCopy, LinkGather, LinkCompute}

func newGPUTimes(r *pipeline.Recorder) *gpuTimes {
	g := &gpuTimes{recorder: r}
	if r != nil {
		for i, name := range GPULinks {
			g.lanes[i] = r.Lane(name)
		}
	}
	return g
}

// take notes the times of a step.
func (g *gpuTimes) take(t *engine.Times) {
	if g == nil {
		return
	}
	for i, p := range [3]engine.Period{t.Copy, t.Gather, t.Compute} {
		g.busy[i] += p.Took
		if g.recorder != nil && p.Took > 0 {
			g.recorder.AddSpan(g.lanes[i], g.step, p.Began, p.Took)
		}
	}
	g.waited += t.Waited
	g.step++
}

// add adds the GPU's streams as links to a table of the batches since the last call. While the
// chain's last link, which launches steps, waits for the streams, it does not work. While batches
// run the table has no idle time of the streams: idle adds it later.
func (g *gpuTimes) add(t pipeline.Table) pipeline.Table {
	if g == nil {
		return t
	}
	last := &t.Links[len(t.Links)-1]
	waited := min(g.waited, time.Duration(last.Busy*float64(time.Second))) // the rest is of a batch that is yet to leave it
	last.Busy, last.Blocked = last.Busy-waited.Seconds(), last.Blocked+waited.Seconds()
	for i, name := range GPULinks {
		t.Links = append(t.Links, pipeline.LinkTime{Link: name, Workers: 1, Busy: g.busy[i].Seconds()})
	}
	g.busy, g.waited = [3]time.Duration{}, g.waited-waited
	return t
}

// idle sets the blocked time of the GPU's links to the rest of the table's seconds.
func (g *gpuTimes) idle(t pipeline.Table, seconds float64) {
	if g == nil {
		return
	}
	for i := len(t.Links) - len(GPULinks); i < len(t.Links); i++ {
		s := &t.Links[i]
		s.Blocked = max(0, seconds-s.Busy)
	}
}
