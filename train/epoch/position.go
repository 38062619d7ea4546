package epoch

import (
	"fmt"
	"strings"

	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// Position is the head of a checkpoint: the progress of a run, and its sums so far.
type Position struct {
	// Run is a hash over the inputs of the weights: only a run with the same hash resumes from the
	// checkpoint.
	Run string `json:"run"`
	// Epoch is under way, Batch of its batches are trained on, in whole steps. After the last batch
	// the epoch still has to be validated.
	Epoch int `json:"epoch"`
	Batch int `json:"batch"`

	Sums      rundir.Epoch `json:"sums"` // of the epoch under way, so far
	Loss      float64      `json:"loss"` // summed over its labelled seed nodes
	SeedNodes int          `json:"seed_nodes"`

	BestEpoch      int         `json:"best_epoch"`
	ValidAccuracy  score.Score `json:"valid_accuracy"` // of the best epoch
	PreloadBytes   int64       `json:"preload_bytes"`
	PreloadSeconds float64     `json:"preload_seconds"`
	Seconds        float64     `json:"seconds"` // of the whole run

	Metrics rundir.MetricsEnd `json:"metrics"`
}

// Check refuses a position that is impossible in a run with this number of epochs.
func (p *Position) Check(epochs int, l Limits) error {
	whole := func(v int64, most float64) bool { return v >= 0 && float64(v) <= most }
	const long = 1 << 60 // bytes that no run reads, and seconds that none takes
	s := &p.Sums
	switch {
	case p.Epoch < 0 || p.Epoch > epochs || p.Batch < 0 || p.Batch > l.PerEpoch || p.Epoch == epochs && p.Batch > 0:
		return fmt.Errorf("its position, epoch %d and batch %d, is outside %d epochs of %d batches", p.Epoch, p.Batch, epochs, l.PerEpoch)
	case p.Batch < l.PerEpoch && p.Batch%l.Accumulate != 0:
		return fmt.Errorf("its position, batch %d, is within a step of %d batches", p.Batch, l.Accumulate)
	case s.Epoch != p.Epoch || s.Batches != l.PerEpoch:
		return fmt.Errorf("its sums are of epoch %d with %d batches, but its position is in epoch %d with %d batches", s.Epoch, s.Batches, p.Epoch, l.PerEpoch)
	case !whole(int64(p.SeedNodes), float64(l.Seeds)):
		return fmt.Errorf("it counts %d seed nodes in an epoch of at most %d", p.SeedNodes, l.Seeds)
	case p.BestEpoch < -1 || p.BestEpoch >= max(p.Epoch, 0):
		return fmt.Errorf("its best epoch is %d, after %d epochs", p.BestEpoch, p.Epoch)
	case !whole(p.PreloadBytes, long) || !whole(s.BytesRead, long) || !whole(s.UsefulBytes, long) || !whole(s.SSDBytesRead, long) ||
		!whole(s.SSDUsefulBytes, long) || !whole(s.GraphBytesRead, long) || !whole(s.RAMBytes, long) || !whole(s.GPUServedBytes, long) || !whole(s.BufferBytes, long) ||
		!whole(s.TopologyBytesRead, long) || !whole(s.TopologyRequests, long):
		return fmt.Errorf("its numbers of bytes are impossible")
	case !whole(s.InputNodes, long) || !whole(s.Requests, long):
		return fmt.Errorf("its numbers of rows or requests are impossible")
	case !whole(s.PageHits, long) || !whole(s.PageMisses, long):
		return fmt.Errorf("its numbers of page accesses are impossible")
	case !(p.PreloadSeconds >= 0 && p.PreloadSeconds < 1e9) || !(p.Seconds >= 0 && p.Seconds < 1e9) || !(s.Seconds >= 0 && s.Seconds < 1e9):
		return fmt.Errorf("its times are impossible")
	}
	return nil
}

// Names of a checkpoint's sections.
const (
	SectionEngine = "engine/" // begins the names of the engine's parts
	SectionBest   = "best"    // weights of the best epoch, absent before the first
	SectionScorer = "scorer"
	SectionStore  = "store/" // begins the name of a store's state, followed by the store's name
)

// CheckSections refuses unknown sections, a missing scorer's section, and best weights that are present
// without a best epoch or absent with one.
func (p *Position) CheckSections(sections map[string][]byte) error {
	for name := range sections {
		if name != SectionBest && name != SectionScorer && !strings.HasPrefix(name, SectionEngine) && !strings.HasPrefix(name, SectionStore) {
			return fmt.Errorf("it has the unknown section %.40q", name)
		}
	}
	if _, ok := sections[SectionScorer]; !ok {
		return fmt.Errorf("it has no section %q", SectionScorer)
	}
	if _, ok := sections[SectionBest]; ok != (p.BestEpoch >= 0) {
		return fmt.Errorf("its best epoch is %d, but the section %q is present: %t", p.BestEpoch, SectionBest, ok)
	}
	return nil
}

// engineSections returns the engine's parts of a checkpoint.
func engineSections(sections map[string][]byte) map[string][]byte {
	state := make(map[string][]byte)
	for name, b := range sections {
		if part, ok := strings.CutPrefix(name, SectionEngine); ok {
			state[part] = b
		}
	}
	return state
}

// Point is a checkpoint from which a run resumes.
type Point struct {
	Name     string // of its file, for errors
	At       Position
	Sections map[string][]byte
	Epochs   []rundir.Epoch // those before
	Damaged  []string       // newer checkpoints that cannot be used
}

// Limits bound a checkpoint of the run.
type Limits struct {
	PerEpoch   int   // batches
	Accumulate int   // of them in a step
	Seeds      int64 // seed nodes of an epoch
	Sections   int64 // bytes
}
