package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"diskgnn/device/cuda"
	"diskgnn/internal/fault"
	"diskgnn/internal/shell"
)

// standing is how far a run came: epochs, and batches of the next.
type standing struct{ epoch, batch int }

func (t *trainer) describe(s standing) string {
	text := fmt.Sprintf("after %d of %d epochs", s.epoch, t.schedule.epochs)
	if s.batch > 0 {
		text += fmt.Sprintf(" and %d of %d batches", s.batch, t.schedule.perEpoch)
	}
	return text
}

// interrupted says how far the run came and how to go on.
func (r *runner) interrupted() error {
	t := r.trainer
	return fault.New(fault.ErrInterrupted, "interrupted %s; go on with: %s", t.describe(standing{t.now.Epoch, t.done}), r.resumeCommand())
}

// unprepared is the error of a run that did not begin, or not again.
func (r *runner) unprepared(ctx context.Context, err error) error {
	switch {
	case !fault.EndedBy(ctx, err):
		return r.drawing.noRoom(r.remake(err), r.options.Out)
	case r.was != nil:
		return fault.New(fault.ErrInterrupted, "interrupted before training went on; go on with: %s", r.resumeCommand())
	}
	return fault.New(fault.ErrInterrupted, "interrupted before training began; run the command again")
}

// passing are the kinds of failure whose cause lies outside the run: a device, a full disk,
// too little memory. When the cause is removed, the run can go on.
var passing = []error{fault.ErrDevice, fault.ErrBudget, syscall.EIO, syscall.ENOSPC, syscall.EDQUOT}

// failed adds to such a failure where the run goes on. What was done since is lost: it may
// be in a GPU that does not answer any more. A pack that is damaged is made again first.
func (r *runner) failed(err error) error {
	_, ofPack := errors.AsType[*damagedPack](err)
	err = r.remake(err)
	t := r.trainer
	if t == nil || !ofPack && !slices.ContainsFunc(passing, func(kind error) bool { return errors.Is(err, kind) }) {
		return err
	}
	then := ""
	if ofPack {
		then = "then "
	}
	if t.kept == nil {
		return fault.New(err, "%s; there is no checkpoint yet: %sbegin anew with: %s", once(err), then, r.resumeCommand())
	}
	return fault.New(err, "%s; %sgo on from the checkpoint %s with: %s", once(err), then, t.describe(*t.kept), r.resumeCommand())
}

// damagedPack is an error of kind fault.ErrCorrupt about a file of the pack.
type damagedPack struct{ error }

func (d *damagedPack) Unwrap() error { return d.error }

// ofPack marks an error of what reads a pack, if that is damaged.
func ofPack(err error) error {
	if err == nil || !errors.Is(err, fault.ErrCorrupt) {
		return err
	}
	return &damagedPack{err}
}

func (r *runner) remake(err error) error { return remakePack(err, r.options.source()) }

// remakePack adds to an error about a damaged pack how it is made again.
func remakePack(err error, dir string) error {
	if _, ok := errors.AsType[*damagedPack](err); !ok {
		return err
	}
	return Remake(err, dir, "its diskgnn pack")
}

// Remake adds to an error about a damaged directory how it is made again, unless it says
// so.
func Remake(err error, dir, by string) error {
	if !errors.Is(err, fault.ErrCorrupt) || strings.Contains(err.Error(), "make it again") {
		return err
	}
	return fault.New(err, "%s; %s is damaged: make it again, by %s with --force, or from a copy", once(err), dir, by)
}

// once returns an error's text in one line. A device that is lost answers everything with
// the same error: repetitions are left out.
func once(err error) string {
	first, rest, _ := strings.Cut(err.Error(), "\n")
	for line := range strings.SplitSeq(rest, "\n") {
		if !strings.HasSuffix(first, line) {
			first += "; " + line
		}
	}
	return first
}

func (r *runner) resumeCommand() string { return resumeCommand(r.options.Out) }

func resumeCommand(out string) string { return "diskgnn train --out " + shell.Word(out) + " --resume" }

// noGPUEngine says of an engine that was named and cannot be made what to
// do about it.
func noGPUEngine(err error) error {
	switch {
	case errors.Is(err, cuda.ErrNoDevice):
		return fault.New(fault.ErrUsage, "--engine %s: %w", EngineGPU, err)
	case errors.Is(err, fault.ErrBudget):
		return fmt.Errorf("--engine %s: %w; a smaller --hidden takes less, and so do samples of a smaller --batch-size or --fanout; --engine %s needs no GPU", EngineGPU, err, EngineCPU)
	case errors.Is(err, fault.ErrDevice):
		return fmt.Errorf("--engine %s: %w; --engine %s needs no GPU", EngineGPU, err, EngineCPU)
	}
	return err
}
