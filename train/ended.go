package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"diskgnn/internal/fault"
	"diskgnn/train/epoch"
	"diskgnn/train/ranks"
)

// interrupted is the error of an interrupted run: how far it came and how to resume it.
func (r *runner) interrupted() error {
	return fault.New(fault.ErrInterrupted, "interrupted %s; go on with: %s", r.trainer.Stands(), r.resumeCommand())
}

// ended adds to the error that ended training how far the run came and how to resume it.
func (r *runner) ended(ctx context.Context, err error) error {
	lost, isLost := ranks.AsLost(r.group, err)
	switch {
	case isLost:
		return r.lostRank(lost)
	case errors.Is(err, ranks.ErrStopped):
		return ranks.Agreed(r.interrupted())
	case fault.EndedBy(ctx, err):
		return r.interrupted()
	}
	return r.failed(err)
}

// unprepared is the error of a run that failed before its first step, or before it resumed.
func (r *runner) unprepared(ctx context.Context, err error) error {
	switch {
	case !fault.EndedBy(ctx, err):
		return r.drawing.noRoom(r.remake(err), r.out)
	case r.was != nil:
		return fault.New(fault.ErrInterrupted, "interrupted before training went on; go on with: %s", r.resumeCommand())
	}
	return fault.New(fault.ErrInterrupted, "interrupted before training began; run the command again")
}

// passing are the kinds of failure with a cause outside the run: a device, a full disk, a limit of file
// sizes, too little memory. When the cause is removed, the run can be resumed.
var passing = []error{fault.ErrDevice, fault.ErrBudget, syscall.EIO, syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}

// failed adds to such a failure where the run resumes. Work since that point is lost: it may be in
// a GPU that no longer answers. A damaged pack is made again first.
func (r *runner) failed(err error) error {
	_, ofPack := errors.AsType[*epoch.DamagedPack](err)
	err = r.remake(err)
	t := r.trainer
	if t == nil || !ofPack && !slices.ContainsFunc(passing, func(kind error) bool { return errors.Is(err, kind) }) {
		return err
	}
	then := ""
	if ofPack {
		then = "then "
	}
	if t.Kept() == nil {
		return fault.New(err, "%s; there is no checkpoint yet: %sbegin anew with: %s", fault.Unrepeated(err), then, r.resumeCommand())
	}
	return fault.New(err, "%s; %sgo on from the checkpoint %s with: %s", fault.Unrepeated(err), then, t.Kept(), r.resumeCommand())
}

func (r *runner) remake(err error) error { return epoch.RemakePack(err, r.source) }

func (r *runner) resumeCommand() string { return resumeCommand(r.out) }

// lostRank is the error of a run that has lost a rank of its group.
func (r *runner) lostRank(lost error) error {
	text := fault.Unrepeated(lost)
	switch t := r.trainer; {
	case !r.root:
	case t != nil && t.Kept() != nil:
		text += fmt.Sprintf("; the latest checkpoint is %s", t.Kept())
	default:
		text += "; there is no checkpoint yet"
	}
	return fault.New(fault.ErrInterrupted, "%s; all ranks go on with: %s", text, r.resumeCommand())
}
