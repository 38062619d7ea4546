package epoch

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"diskgnn/internal/fault"
	"diskgnn/train/engine"
	"diskgnn/train/ranks"
	"diskgnn/train/rundir"
)

// share is a rank's sums since it last sent them to rank 0.
type share struct {
	Sums   rundir.Epoch `json:"sums"`
	Found  []Found      `json:"Found,omitempty"` // of its batches, in order
	Scorer []byte       `json:"scorer"`
	State  string       `json:"state,omitempty"` // a checksum over the engine's, after an epoch
}

// gatherShares brings the ranks' sums to rank 0, which then has the run's sums, with the same bits
// as for one rank. After an epoch the engines' weights are compared.
func (t *Trainer) gatherShares(epochEnds bool) error {
	if t.Alone() {
		return nil // its sums are the run's
	}
	if err := t.settle(); err != nil {
		return err
	}
	mine := share{Sums: t.now, Found: t.found}
	if !t.Root() {
		mine.Scorer = t.scorer.State()
	}
	if epochEnds && t.Engine != nil {
		var err error
		if mine.State, err = stateSum(t.Engine); err != nil {
			return err
		}
	}
	all, err := ranks.Gather(t.Group, mine, t.mostShare())
	if err != nil {
		return err
	}
	done := t.shared
	t.shared, t.found = t.done, t.found[:0]
	if !t.Root() {
		t.now = rundir.Epoch{Epoch: t.now.Epoch, LR: t.now.LR, Loss: t.now.Loss, TrainAccuracy: t.now.TrainAccuracy, ValidAccuracy: t.now.ValidAccuracy, Batches: t.now.Batches}
		return t.scorer.Load(t.unscored)
	}
	for rank := 1; rank < len(all); rank++ {
		s := &all[rank]
		if s.State != mine.State {
			return fault.New(fault.ErrDevice, "the weights of rank %d differ from rank 0's after epoch %d: one of the two computes wrong", rank, t.now.Epoch)
		}
		t.now.Add(&s.Sums)
		if err := t.scorer.Join(s.Scorer); err != nil {
			return fmt.Errorf("the scores of rank %d: %w", rank, err)
		}
	}
	return t.sumShares(all, done)
}

// mostShare returns the most bytes of a rank's share: its batches, and a scorer's state in base64.
func (t *Trainer) mostShare() int64 {
	const each = 64
	return ranks.MostTold + each*int64(t.done-t.shared) + 4*(t.scorerState/3+1)
}

// sumShares sums up the outcomes of the batches from done on, in their order.
func (t *Trainer) sumShares(all []share, done int) error {
	each := t.schedule.Accumulate / t.schedule.World
	for b := done; b < t.done && t.Engine != nil; b++ {
		of := &all[b%t.schedule.Accumulate/each]
		if len(of.Found) == 0 {
			return fault.New(fault.ErrCorrupt, "no rank sent an outcome of batch %d", b)
		}
		t.sum(of.Found[0])
		of.Found = of.Found[1:]
	}
	return nil
}

// stateSum returns a checksum over an engine's trained state.
func stateSum(e engine.Engine) (string, error) {
	state, err := e.State()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(state)) {
		fmt.Fprintf(h, "%s %d ", name, len(state[name]))
		h.Write(state[name])
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
