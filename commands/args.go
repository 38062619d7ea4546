package commands

import (
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"diskgnn/internal/fault"
)

// arrange moves a command's flags before its positional arguments. The flag library would treat flags
// after the first positional argument as further arguments.
func arrange(app *cli.App, args []string) []string {
	if len(args) < 2 || args[len(args)-1] == completing {
		return args
	}
	args = helpFor(app, args)
	cmd := app.Command(args[1])
	if cmd == nil {
		return args
	}
	words := args[:2]
	if len(cmd.Subcommands) > 0 {
		if len(args) < 3 || cmd.Command(args[2]) == nil {
			return args
		}
		words, cmd = args[:3], cmd.Command(args[2])
	}
	var flags, operands []string
	rest := args[len(words):]
	for i := 0; i < len(rest); i++ {
		a := rest[i]
		if a == "--" {
			operands = append(operands, rest[i+1:]...)
			break
		}
		if len(a) < 2 || a[0] != '-' {
			operands = append(operands, a)
			continue
		}
		flags = append(flags, a)
		name, _, hasValue := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if hasValue || !takesValue(cmd.Flags, name) {
			continue
		}
		if i++; i == len(rest) || isFlag(cmd.Flags, rest[i]) {
			// The value is missing. At the end of the flags, the flag library reports it.
			return append(slices.Clone(words), flags...)
		}
		flags = append(flags, rest[i])
	}
	out := append(slices.Clone(words), flags...)
	if len(operands) > 0 {
		out = append(append(out, "--"), operands...)
	}
	return out
}

// helpFor turns "help COMMAND SUBCOMMAND" into the arguments that show the subcommand's help. The flag
// library would show the help of the command.
func helpFor(app *cli.App, args []string) []string {
	if len(args) < 3 || args[1] != "help" && args[1] != "h" {
		return args
	}
	cmd := app.Command(args[2])
	if cmd == nil || len(cmd.Subcommands) == 0 {
		return args
	}
	if len(args) == 3 {
		return []string{args[0], args[2], "--help"} // this help lists the subcommands
	}
	if cmd.Command(args[3]) == nil {
		return append([]string{args[0]}, args[2:]...) // the command reports the unknown subcommand
	}
	return []string{args[0], args[2], args[3], "--help"}
}

func takesValue(flags []cli.Flag, name string) bool {
	for _, f := range flags {
		if d, ok := f.(cli.DocGenerationFlag); ok && slices.Contains(f.Names(), name) {
			return d.TakesValue()
		}
	}
	return false
}

// isFlag reports whether a word is exactly one of the flags, so that a slip like "--out --force" does not
// make a directory "--force".
func isFlag(flags []cli.Flag, word string) bool {
	name, ok := strings.CutPrefix(word, "--")
	name, _, _ = strings.Cut(name, "=")
	return ok && slices.Contains(flagNames(flags), name)
}

// asksForJSON reports whether the arguments have --json, for errors before they are parsed.
func asksForJSON(args []string) bool {
	for _, a := range args {
		switch a {
		case "--":
			return false
		case "--json", "-json", "--json=true":
			return true
		}
	}
	return false
}

var (
	undefinedFlag = regexp.MustCompile(`^flag provided but not defined: -+(.*)$`)
	invalidValue  = regexp.MustCompile(`(?s)^invalid (?:boolean )?value (?:"(?:[^"\\]|\\.)*") for (?:flag )?-([^:]+): (.*)$`)
	needsValue    = regexp.MustCompile(`^flag needs an argument: -+(.*)$`)
)

// usageError rewords the flag library's errors.
func usageError(err error, flags []cli.Flag, command string) error {
	text := err.Error()
	if m := undefinedFlag.FindStringSubmatch(text); m != nil {
		err := unknownFlag(m[1], flags)
		if !strings.Contains(err.Error(), ";") {
			err = fault.New(err, "%v; %s --help lists the commands and flags", err, command)
		}
		return err
	}
	if m := invalidValue.FindStringSubmatch(text); m != nil {
		return fault.New(fault.ErrUsage, "--%s: %s", m[1], strings.Replace(m[2], "parse error", "want true or false", 1))
	}
	if m := needsValue.FindStringSubmatch(text); m != nil {
		return fault.New(fault.ErrUsage, "--%s needs a value", m[1])
	}
	return fault.New(fault.ErrUsage, "%s", text)
}

func unknownFlag(name string, flags []cli.Flag) error {
	if strings.ReplaceAll(name, "_", "-") == "num-neighbors" && slices.Contains(flagNames(flags), "fanout") {
		return fault.New(fault.ErrUsage, "unknown flag --%s; --fanout has these numbers in the other order, the layer of the seeds last", name)
	}
	return fault.New(fault.ErrUsage, "unknown flag --%s%s", name, didYouMean(name, flagNames(flags), "--"))
}

func flagNames(flags []cli.Flag) []string {
	var names []string
	for _, f := range flags {
		names = append(names, f.Names()...)
	}
	return names
}

// didYouMean returns a suggestion of the nearest known word, or "" if no word is near enough for a typing
// error.
func didYouMean(word string, known []string, prefix string) string {
	best, distance := "", max(2, len(word)/3)+1
	for _, k := range known {
		if d := edits(strings.ReplaceAll(word, "_", "-"), k); d < distance {
			best, distance = k, d
		}
		if len(word) >= 3 && strings.HasPrefix(k, word) && distance > 1 {
			best, distance = k, 1
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + prefix + best + "?"
}

// edits returns the Levenshtein distance of two words.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
