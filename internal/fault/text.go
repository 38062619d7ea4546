package fault

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Text returns an error as one line that names each failure and each file once. A wrapped error of the
// operating system may name its file twice, as in "write x: write x: no space left on device", and the
// joined errors of several workers may be equal.
func Text(err error) string {
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if line = once(line); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return Line(strings.Join(lines, "\n"))
}

// attempt matches an operation on a file in the text of an error.
var attempt = regexp.MustCompile(`^(?:check|clear|create|load|lock|make|open|read|remove|sync|write) (.+)$`)

// once removes from a line each attempt that is repeated by the next one, with the same file or with its
// whole path.
func once(line string) string {
	const between = ": "
	parts := strings.Split(line, between)
	file := func(part string) string {
		if m := attempt.FindStringSubmatch(part); m != nil {
			return m[1]
		}
		return ""
	}
	var kept []string
	for i, part := range parts {
		if i+1 < len(parts) {
			outer, inner := file(part), file(parts[i+1])
			if outer != "" && (inner == outer || strings.HasSuffix(inner, "/"+outer)) {
				continue
			}
		}
		kept = append(kept, part)
	}
	return strings.Join(kept, between)
}

// Line returns a text as one line that is safe for a terminal, even if it has names from untrusted
// input: it joins lines, and escapes other control characters, which may move the cursor or change
// colours, as in a quoted string.
func Line(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' }), "; ")
	if strings.IndexFunc(text, unicode.IsControl) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unicode.IsControl(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Unrepeated returns an error as one line, without the lines that repeat the end of the first one: a
// lost device returns the same error from every call.
func Unrepeated(err error) string {
	first, rest, _ := strings.Cut(err.Error(), "\n")
	for line := range strings.SplitSeq(rest, "\n") {
		if !strings.HasSuffix(first, line) {
			first += "; " + line
		}
	}
	return first
}

// Remake adds to an error of kind ErrCorrupt about the directory dir the command, by, that makes it
// again, unless the error already names a command. Other errors are returned unchanged.
func Remake(err error, dir, by string) error {
	if !errors.Is(err, ErrCorrupt) || strings.Contains(err.Error(), "make it again") {
		return err
	}
	return New(err, "%s; %s is damaged: make it again, by %s with --force, or from a copy", Unrepeated(err), dir, by)
}
