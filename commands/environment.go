package commands

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"diskgnn/internal/fault"
	"diskgnn/train"
)

// environment has the environment variables of flags that neither the command line nor the configuration
// file sets. These flags describe the machine or the run; none is a content parameter.
var environment = map[string]string{
	"memory":     "DISKGNN_MEMORY",
	"gpu-memory": "DISKGNN_GPU_MEMORY",
	"threads":    "DISKGNN_THREADS",
	"engine":     "DISKGNN_ENGINE",
	"io":         "DISKGNN_IO",
}

// applyEnvironment sets the unset flags of a command, and returns their names. It skips the flags
// of simulations, which describe other machines.
func applyEnvironment(c *cli.Context, command string, flags []cli.Flag) (names []string, err error) {
	if strings.HasPrefix(command, "simulate ") {
		return nil, nil
	}
	for _, name := range flagNames(flags) {
		variable := environment[name]
		value := os.Getenv(variable)
		if variable == "" || value == "" || c.IsSet(name) || name == "gpu-memory" && withoutGPU(c) {
			continue
		}
		if err := c.Set(name, value); err != nil {
			return nil, fault.New(fault.ErrUsage, "%s in the environment: %v", variable, err)
		}
		names = append(names, name)
	}
	return names, nil
}

// withoutGPU reports whether a command computes without a GPU, which limits of its memory do not concern.
func withoutGPU(c *cli.Context) bool {
	engine := os.Getenv(environment["engine"])
	if c.IsSet("engine") {
		engine = fmt.Sprint(c.Generic("engine"))
	}
	return slices.Contains([]string{train.EngineCPU, train.EngineNone}, strings.TrimSpace(engine))
}

// given returns the names of the set flags, except those set by the environment: a resumed run prefers
// its previous values to the environment's.
func given(c *cli.Context, byEnvironment []string) []string {
	return slices.DeleteFunc(c.LocalFlagNames(), func(name string) bool { return slices.Contains(byEnvironment, name) })
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expanded replaces ${NAME} in a value of a configuration file by the environment variable, and $$ by a
// dollar sign. It keeps other dollar signs. An unset variable is an error. The value of a variable is not
// expanded again.
func expanded(value string, lookup func(name string) (string, bool)) (string, error) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(value, "$")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		switch {
		case strings.HasPrefix(after, "$"):
			b.WriteByte('$')
			value = after[1:]
		case strings.HasPrefix(after, "{"):
			name, rest, closed := strings.Cut(after[1:], "}")
			if !closed || !variableName.MatchString(name) {
				return "", fault.New(fault.ErrUsage, "%q is no ${NAME} of a variable; write $$ for a dollar sign", "$"+after)
			}
			text, set := lookup(name)
			if !set {
				return "", fault.New(fault.ErrUsage, "${%s}: the environment has no variable %s; write $$ for a dollar sign", name, name)
			}
			b.WriteString(text)
			value = rest
		default:
			b.WriteByte('$')
			value = after
		}
	}
}
