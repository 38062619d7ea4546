package ranks

import (
	"fmt"

	"diskgnn/internal/fault"
	"diskgnn/train/collective"
	"diskgnn/train/decide"
	"diskgnn/train/rundir"
)

// Earlier is rank 0's knowledge of the resumed run, before the others open anything.
type Earlier struct {
	Resume bool           `json:"resume"`
	Was    *rundir.File   `json:"was,omitempty"`  // nil: a run is begun
	Done   *rundir.Result `json:"done,omitempty"` // the result, if the run is finished and not made longer
}

// Share gives every rank rank 0's Earlier, without the result in Was, and on other ranks without Done's
// epochs, which may be many.
func (e *Earlier) Share(g *collective.Group) error {
	var epochs []rundir.Epoch
	if e.Done != nil {
		done := *e.Done
		epochs, done.Epochs = done.Epochs, nil
		e.Done = &done
	}
	if e.Was != nil {
		short := *e.Was
		short.Result = nil
		e.Was = &short
	}
	if err := Broadcast(g, e, MostEarlier); err != nil {
		return err
	}
	if e.Done != nil {
		e.Done.Epochs = epochs
	}
	return nil
}

// Agree refuses, on all ranks, an identity that differs from rank 0's.
func Agree(g *collective.Group, mine decide.Identity) error {
	all, err := Gather(g, mine, MostTold)
	if err != nil {
		return err
	}
	var verdict struct {
		Why string `json:"why,omitempty"`
	}
	for rank := 1; rank < len(all) && verdict.Why == ""; rank++ {
		if d := all[rank].Differs(&all[0]); d != "" {
			verdict.Why = fmt.Sprintf("rank %d cannot train with rank 0: %s", rank, d)
		}
	}
	if err := Broadcast(g, &verdict, MostTold); err != nil {
		return err
	}
	if verdict.Why != "" {
		return Agreed(fault.New(fault.ErrLineage, "%s", verdict.Why))
	}
	return nil
}
