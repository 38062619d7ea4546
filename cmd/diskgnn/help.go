package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"
)

const (
	// helpWidth is the most columns of what the program says of itself, and of its plans.
	helpWidth = 80
	// flagWidth is the most columns of a flag with its value, beside what it means. A longer
	// one has a line of its own.
	flagWidth = 24
)

// group is flags that are listed together in a command's help.
type group struct {
	title string
	flags []string
}

// everywhere is the group of what all commands have.
var everywhere = group{"Configuration and output", []string{"config", "json", "quiet", "progress", "help"}}

// groups are those of commands with many flags, in the order of their help. A flag that is in
// none of them is listed before them.
var groups = map[string][]group{
	"train": {
		{"What to train on", []string{"pack", "dataset", "samples", "store"}},
		{"The run", []string{"out", "plan", "resume", "force", "checkpoint-every", "keep", "trace", "record", "listen"}},
		{"The model", []string{"model", "hidden", "heads", "aggregator", "gcn-norm", "norm", "residual", "input-projection", "activation", "dropout", "layer-order"}},
		{"Learning", []string{"epochs", "lr", "optimizer", "weight-decay", "label-smoothing", "schedule", "warmup", "min-lr", "plateau-factor", "plateau-patience",
			"patience", "validate-every", "loss", "metric", "seed", "accumulate", "shuffle-batches", "init-from"}},
		{"Drawing batches while training", []string{"fanout", "eval-fanout", "batch-size", "train-ratio", "sampler", "batch-dependency", "layer-dependency", "sample-seed",
			"dry-epochs", "topology", "topology-memory", "topology-order"}},
		{"Memory and caches", []string{"memory", "ram-cache", "gpu-cache", "gpu-memory", "slots", "cache-policy", "fault-threads", "page-cache"}},
		{"Computing and reading", []string{"engine", "threads", "blas", "precision", "io", "gpus", "rank", "reduce", "secret-file", "insecure"}},
	},
	"presample": {
		{"What to draw", []string{"dataset", "out", "batch-size", "fanout", "eval-fanout", "epochs", "train-ratio", "order", "partitions", "buffer", "walk", "sampler",
			"batch-dependency", "layer-dependency", "seed"}},
		{"How to draw it", []string{"plan", "shard", "topology", "topology-memory", "topology-order", "workers", "memory", "skip-space-check", "force"}},
	},
}

// helpOf returns the help of a command as a template without fields.
func helpOf(cmd *command, flags []cli.Flag) string {
	var b strings.Builder
	fmt.Fprintf(&b, "NAME:\n%s\n\n", indented(wrap("diskgnn "+cmd.name+" - "+cmd.usage, helpWidth-3)))
	fmt.Fprintf(&b, "USAGE:\n   %s\n\n", usageOf(cmd))
	fmt.Fprintf(&b, "DESCRIPTION:\n%s\n\nOPTIONS:\n", indented(reflow(cmd.teaches, helpWidth-3)))
	flags = append(slices.Clone(flags), cli.HelpFlag)
	list := append(slices.Clone(groups[cmd.name]), everywhere)
	rest := slices.DeleteFunc(slices.Clone(flags), func(f cli.Flag) bool {
		return slices.ContainsFunc(list, func(g group) bool { return slices.Contains(g.flags, f.Names()[0]) })
	})
	writeFlags(&b, "", rest)
	for _, g := range list {
		var of []cli.Flag
		for _, name := range g.flags {
			if i := slices.IndexFunc(flags, func(f cli.Flag) bool { return f.Names()[0] == name }); i >= 0 {
				of = append(of, flags[i])
			}
		}
		writeFlags(&b, g.title, of)
	}
	return strings.ReplaceAll(b.String(), "{{", `{{"{{"}}`)
}

// usageOf returns the form of a command line.
func usageOf(cmd *command) string {
	return strings.Join(append([]string{"diskgnn", cmd.name, "[flags]"}, cmd.operands...), " ")
}

// writeFlags writes a group of flags: what each means stands beside it.
func writeFlags(b *strings.Builder, title string, flags []cli.Flag) {
	if len(flags) == 0 {
		return
	}
	if title != "" {
		fmt.Fprintf(b, "\n   %s\n\n", title)
	}
	for _, f := range flags {
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

// reflow breaks the lines of paragraphs anew. Lines that begin with a space are examples: one that
// is too long goes on in the next line, as in a shell.
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

// example breaks a command before its flags. What is said of it, after three spaces, comes nearer
// or, where there is no room, before it.
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

// wrap breaks a text between words, so that lines have so many columns at most.
func wrap(text string, width int) string {
	return strings.Join(filled(words(text, width), width), "\n")
}

// filled puts words into lines of at most width characters, and breaks none of them.
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

// words splits a text at white space, and a word that is longer than a line after its commas.
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

// indented moves lines to the right as the help has them.
func indented(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if l != "" {
			lines[i] = "   " + l
		}
	}
	return strings.Join(lines, "\n")
}
