package train

import (
	"errors"
	"fmt"

	"diskgnn/device/cuda"
	"diskgnn/internal/fault"
	"diskgnn/internal/units"
)

func resumeCommand(out string) string {
	return "diskgnn train --out " + units.ShellWord(out) + " --resume"
}

// noGPUEngine adds advice to the error of a GPU engine that the user named and that cannot be made.
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
