package main

import (
	"regexp"
	"strings"

	"diskgnn/internal/fault"
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expanded returns a value of a configuration file with ${NAME} replaced by the variable of the
// environment, and $$ by a dollar sign. Any other dollar sign stands for itself. A variable that
// is not set is refused; what one holds is not expanded again.
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
				return "", fault.New(fault.ErrUsage, "%q is no ${NAME} of a variable; $$ is a dollar sign", "$"+after)
			}
			text, set := lookup(name)
			if !set {
				return "", fault.New(fault.ErrUsage, "${%s}: the environment has no variable %s; $$ is a dollar sign", name, name)
			}
			b.WriteString(text)
			value = rest
		default:
			b.WriteByte('$')
			value = after
		}
	}
}
