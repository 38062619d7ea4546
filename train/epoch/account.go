package epoch

import (
	"time"

	"diskgnn/featurestore"
	"diskgnn/pipeline"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// account sums up the epoch under way.
type account struct {
	now     rundir.Epoch
	loss    float64        // summed over labelled seed nodes
	seeds   int            // number of these
	table   pipeline.Table // where their time went
	gpu     *gpuTimes      // nil without a GPU
	running time.Time      // since when batches run; zero while none do
	preload float64        // seconds of filling the cache that no epoch has yet
}

// reset begins an epoch with this number of batches.
func (a *account) reset(epoch, batches int) {
	a.now = rundir.Epoch{Epoch: epoch, LR: score.Undefined, Loss: score.Undefined, TrainAccuracy: score.Undefined, ValidAccuracy: score.Undefined, Batches: batches}
	a.loss, a.seeds = 0, 0
}

// sum adds the loss of a batch.
func (a *account) sum(f Found) {
	for range f.Seeds {
		a.seeds++
		a.loss += f.Loss
	}
}

// meanLoss returns the mean over labelled seed nodes, undefined without any.
func (a *account) meanLoss() score.Score {
	if a.seeds == 0 {
		return score.Undefined
	}
	return score.Score(a.loss / float64(a.seeds))
}

// read adds the reads of a batch with that number of input nodes, of rowBytes bytes a row.
func (a *account) read(c featurestore.Counts, inputs int, rowBytes int64) {
	n := &a.now
	n.BytesRead += c.BytesRead
	n.UsefulBytes += c.UsefulBytes
	n.SSDBytesRead += c.SSDRead
	n.SSDUsefulBytes += c.SSDUseful
	n.GraphBytesRead += c.GraphRead
	n.TopologyBytesRead += c.TopologyRead
	n.TopologyRequests += c.TopologyRequests
	n.RAMBytes += int64(c.RAMRows) * rowBytes
	n.GPUServedBytes += int64(c.GPURows) * rowBytes
	n.InputNodes += int64(inputs)
	n.Requests += c.Requests
	n.BufferBytes += int64(c.BufferRows) * rowBytes
	n.PageHits += int64(c.PageHits)
	n.PageMisses += int64(c.PageMisses)
}

// tally adds the times of links since the last call. more is the time that the last link worked
// after the batches had run.
func (a *account) tally(p *pipeline.Pipeline[*Slot], more time.Duration) {
	u := p.Table()
	u.Seconds += more.Seconds()
	u.Links[len(u.Links)-1].Busy += more.Seconds()
	a.table.Add(a.gpu.add(u))
}

// restart begins a new table of links, with times from now on.
func (a *account) restart(p *pipeline.Pipeline[*Slot]) { a.table = a.gpu.add(p.Table()) }

// inherit continues the table of links with the times of an earlier process.
func (a *account) inherit(sums *rundir.Epoch) {
	a.table.Seconds = sums.Seconds
	for i := range a.table.Links {
		for _, was := range sums.Links {
			if s := &a.table.Links[i]; s.Link == was.Link {
				s.Busy, s.Blocked = was.Busy, was.Blocked
			}
		}
	}
}

// soFar returns the epoch's sums with its links and seconds, without the time of filling the cache.
func (a *account) soFar() rundir.Epoch {
	e := a.now
	e.Seconds = a.table.Seconds
	if !a.running.IsZero() {
		e.Seconds += time.Since(a.running).Seconds()
	}
	a.gpu.idle(a.table, e.Seconds)
	e.Links = a.table.Links
	return e
}

// finish settles the times of an epoch after its last batch.
func (a *account) finish() {
	a.now.Seconds, a.now.Links = a.table.Seconds+a.preload, a.table.Links
	bound := a.table.Bound()
	a.now.BoundLink, a.now.BoundSeconds = bound.Link, bound.Alone()
	for _, s := range a.table.Links {
		switch s.Link {
		case LinkRead:
			a.now.ReadSeconds = s.Busy
		case LinkCompute:
			a.now.ComputeSeconds = s.Busy
		}
	}
}
