package train

import (
	"diskgnn/device/cuda"
	"diskgnn/internal/fault"
	"diskgnn/internal/units"
	"errors"
	"fmt"
	"strings"
)

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

func resumeCommand(out string) string {
	return "diskgnn train --out " + units.ShellWord(out) + " --resume"
}

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
