package epoch

import (
	"maps"
	"slices"

	"diskgnn/internal/fault"
	"diskgnn/train/collective"
	"diskgnn/train/ranks"
	"diskgnn/train/rundir"
)

// stand is the message to the other ranks about the checkpoint to resume from. The sections follow
// it, one by one.
type stand struct {
	At       *Position      `json:"at,omitempty"` // nil: at its beginning
	Epochs   []rundir.Epoch `json:"epochs,omitempty"`
	Sections []string       `json:"sections,omitempty"` // the engine's
}

// ShareStand sends rank 0's checkpoint from to all ranks, and returns it on each: nil for a new run.
// The position and the finished epochs must have at most most bytes as JSON, and fit a run of epochs
// epochs and the limits.
func ShareStand(g *collective.Group, from *Point, epochs int, most int64, l Limits) (*Point, error) {
	var s stand
	sections := make(map[string][]byte)
	if from != nil {
		sections = engineSections(from.Sections)
		s = stand{At: &from.At, Epochs: from.Epochs, Sections: slices.Sorted(maps.Keys(sections))}
	}
	if err := ranks.Broadcast(g, &s, most); err != nil {
		return nil, err
	}
	received := make(map[string][]byte)
	for _, name := range s.Sections {
		b, err := g.Broadcast(sections[name], l.Sections+ranks.MostTold)
		if err != nil {
			return nil, err
		}
		received[SectionEngine+name] = b
	}
	if g.Rank() == 0 || s.At == nil {
		return from, nil
	}
	if err := s.At.Check(epochs, l); err != nil {
		return nil, fault.New(fault.ErrCorrupt, "the checkpoint of rank 0: %v", err)
	}
	return &Point{Name: "the checkpoint of rank 0", At: *s.At, Epochs: s.Epochs, Sections: received}, nil
}
