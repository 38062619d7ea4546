package main

import (
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"diskgnn/internal/fault"
)

// environment has the variables that give flags their values, where neither the command line
// nor a configuration file does. They are of run facts alone: what no byte of a result
// depends on, and what differs from machine to machine.
var environment = map[string]string{
	"memory":     "DISKGNN_MEMORY",
	"gpu-memory": "DISKGNN_GPU_MEMORY",
	"threads":    "DISKGNN_THREADS",
	"engine":     "DISKGNN_ENGINE",
	"io":         "DISKGNN_IO",
}

// applyEnvironment sets the flags that are not set yet, and returns their names.
func applyEnvironment(c *cli.Context, flags []cli.Flag) (names []string, err error) {
	for _, name := range flagNames(flags) {
		variable := environment[name]
		value := os.Getenv(variable)
		if variable == "" || value == "" || c.IsSet(name) {
			continue
		}
		if err := c.Set(name, value); err != nil {
			return nil, fault.New(fault.ErrUsage, "%s in the environment: %v", variable, err)
		}
		names = append(names, name)
	}
	return names, nil
}

// given returns the names of the flags that were set, but for those by the environment: to
// these a run that is resumed prefers its own.
func given(c *cli.Context, byEnvironment []string) []string {
	return slices.DeleteFunc(c.LocalFlagNames(), func(name string) bool { return slices.Contains(byEnvironment, name) })
}
