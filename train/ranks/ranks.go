// Package ranks has the messages between the ranks of a run, except for the sums of their steps
// (package collective). Several ranks train one model: processes that each read their own part of
// every step. Rank 0 has the run's directory, evaluates, and decides; the others have a store and
// an engine. The messages, in order:
//
//	rank 0                                the others
//	run.json of a resumed run      ─────►                      before anything is opened
//	                                ◄──── reductions           before engines are made
//	the reduction               ─────►
//	                                ◄──── their identities     once it is open
//	the comparison          ─────►
//	the checkpoint                  ─────►
//	   ⟳ steps (package collective)
//	                                ◄──── a share              before checkpoints, after epochs
//	the epoch                       ─────►                     after it was judged
//	the result                      ─────►
//
// A process alone is a group of one rank, without messages.
package ranks

import (
	"encoding/json"

	"diskgnn/internal/fault"
	"diskgnn/train/collective"
)

// The most bytes of a message, as JSON: usually, and of a run.json without its epochs.
const (
	MostTold    = 1 << 20
	MostEarlier = 16 << 20
)

// Broadcast sends rank 0's value v to all ranks, and decodes it into their v, a pointer. The value
// has at most most bytes as JSON.
func Broadcast(g *collective.Group, v any, most int64) error {
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
		return fault.New(fault.ErrCorrupt, "rank 0's message cannot be decoded: %v", err)
	}
	return nil
}

// Gather returns the values of all ranks, by rank, on rank 0; nil on the others. Each has at most
// most bytes as JSON.
func Gather[T any](g *collective.Group, mine T, most int64) ([]T, error) {
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
			return nil, fault.New(fault.ErrCorrupt, "rank %d's message cannot be decoded: %v", rank+1, err)
		}
		all = append(all, v)
	}
	return all, nil
}

// Together waits until all ranks call it.
func Together(g *collective.Group) error {
	if _, err := g.Gather(nil, 0); err != nil {
		return err
	}
	_, err := g.Broadcast(nil, 0)
	return err
}
