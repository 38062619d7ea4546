package commands

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"
)

const (
	// helpWidth is the most columns of the program's help, and of its plans.
	helpWidth = 80
	// flagWidth is the most columns of a flag with its value on the line of its meaning. A longer flag
	// has a line of its own.
	flagWidth = 24
)

// group is a group of flags in a command's help. The group without a title comes first.
type group struct {
	title string
	flags []cli.Flag
}

// helpOf returns the help of a command, as a template without actions. It returns "" if no word of the
// command line can ask for help: laying out all flags takes milliseconds at every start.
func (g *globals) helpOf(cmd *command) string {
	asks := func(word string) bool { return strings.HasPrefix(strings.TrimLeft(word, "-"), "h") }
	if g.args != nil && !slices.ContainsFunc(g.args, asks) {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "NAME:\n%s\n\n", indented(wrap("diskgnn "+cmd.name+" - "+cmd.usage, helpWidth-3)))
	fmt.Fprintf(&b, "USAGE:\n   %s\n\n", usageOf(cmd))
	fmt.Fprintf(&b, "DESCRIPTION:\n%s\n\nOPTIONS:\n", indented(reflow(cmd.teaches, helpWidth-3)))
	for _, g := range cmd.groups {
		writeFlags(&b, g)
	}
	writeFlags(&b, group{flags: []cli.Flag{cli.HelpFlag}})
	return strings.ReplaceAll(b.String(), "{{", `{{"{{"}}`)
}

// usageOf returns the form of a command line.
func usageOf(cmd *command) string {
	return strings.Join(append([]string{"diskgnn", cmd.name, "[flags]"}, cmd.operands...), " ")
}

// writeFlags writes a group of flags, each with its meaning beside it.
func writeFlags(b *strings.Builder, g group) {
	if g.title != "" {
		fmt.Fprintf(b, "\n   %s\n\n", g.title)
	}
	for _, f := range g.flags {
		name, meaning, _ := strings.Cut(f.String(), "\t")
		lines := strings.Split(wrap(meaning, helpWidth-3-flagWidth-2), "\n")
		if utf8.RuneCountInString(name) > flagWidth {
			fmt.Fprintf(b, "   %s\n", name)
			name = ""
		}
		for _, l := range lines {
			fmt.Fprintf(b, "   %-*s  %s\n", flagWidth, name, l)
			name = ""
		}
	}
}

// reflow wraps paragraphs to a width. Lines that begin with a space are examples: a long example is
// continued on the next line with a backslash.
func reflow(text string, width int) string {
	var out, paragraph []string
	flush := func() {
		if len(paragraph) > 0 {
			out = append(out, wrap(strings.Join(paragraph, " "), width))
			paragraph = nil
		}
	}
	for l := range strings.SplitSeq(text, "\n") {
		if l != "" && l[0] != ' ' && !strings.HasPrefix(l, "- ") {
			paragraph = append(paragraph, l)
			continue
		}
		flush()
		out = append(out, example(l, width)...)
	}
	flush()
	return strings.Join(out, "\n")
}

// example wraps a command before its flags. A comment follows the command after three spaces; if the line
// is too long, the comment moves closer to the command, or above it.
func example(line string, width int) []string {
	if utf8.RuneCountInString(line) <= width {
		return []string{line}
	}
	body := strings.TrimLeft(line, " ")
	indent := line[:len(line)-len(body)]
	body, remark, _ := strings.Cut(body, "   ")
	var out []string
	if remark = strings.TrimSpace(remark); remark != "" {
		if near := indent + body + "  " + remark; utf8.RuneCountInString(near) <= width {
			return []string{near}
		}
		out = append(out, indent+"# "+strings.TrimPrefix(remark, "# "))
	}
	now := indent
	for i, part := range strings.Split(body, " --") {
		if i > 0 {
			part = " --" + part
			if utf8.RuneCountInString(now+part)+len(" \\") > width {
				out = append(out, now+" \\")
				now = indent + "  "
			}
		}
		now += part
	}
	return append(out, now)
}

// wrap wraps a text between words into lines of at most width columns.
func wrap(text string, width int) string {
	return strings.Join(filled(words(text, width), width), "\n")
}

// filled puts words into lines of at most width characters, without breaking a word.
func filled(words []string, width int) (lines []string) {
	at := 0 // characters of the last line
	for _, word := range words {
		n := utf8.RuneCountInString(word)
		if len(lines) == 0 || at+1+n > width {
			lines, at = append(lines, word), n
			continue
		}
		lines[len(lines)-1] += " " + word
		at += 1 + n
	}
	return lines
}

// words splits a text at white space. A word that is longer than a line is also split after commas.
func words(text string, width int) (list []string) {
	for _, word := range strings.Fields(text) {
		for utf8.RuneCountInString(word) > width {
			comma := strings.LastIndexByte(word[:width], ',')
			if comma < 0 {
				break
			}
			list, word = append(list, word[:comma+1]), word[comma+1:]
		}
		list = append(list, word)
	}
	return list
}

// indented indents lines for the help.
func indented(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if l != "" {
			lines[i] = "   " + l
		}
	}
	return strings.Join(lines, "\n")
}
