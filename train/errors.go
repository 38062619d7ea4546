package train

import (
	"errors"
	"fmt"
	"strings"

	"diskgnn/device/cuda"
	"diskgnn/internal/fault"
	"diskgnn/internal/units"
	"diskgnn/train/epoch"
)

// remakePack adds to an error about a damaged pack how it is made again.
func remakePack(err error, dir string) error {
	if _, ok := errors.AsType[*epoch.DamagedPack](err); !ok {
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
