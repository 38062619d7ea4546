package commands

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// commandLines returns all commands, with subcommands, as they are typed.
func commandLines() (list [][]string) {
	for _, c := range newApp(quiet()).Commands {
		list = append(list, []string{c.Name})
		for _, sub := range c.Subcommands {
			list = append(list, []string{c.Name, sub.Name})
		}
	}
	return list
}

// Every help text fits in 80 columns, by --help and by the command help.
func TestHelpFits(t *testing.T) {
	shown := func(args ...string) string {
		var out bytes.Buffer
		if code := run(builtin, append([]string{"diskgnn"}, args...), &out, io.Discard); code != exitDone {
			t.Fatalf("%v: exit code %d", args, code)
		}
		return out.String()
	}
	for _, c := range append(commandLines(), nil) {
		text := shown(append(slices.Clone(c), "--help")...)
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > helpWidth {
				t.Errorf("%v: %d columns: %s", c, n, line)
			}
		}
		if again := shown(append([]string{"help"}, c...)...); again != text {
			t.Errorf("help %s: %s", strings.Join(c, " "), again)
		}
	}
}

// Every flag of train belongs to a group, and every flag is in its command's help, once.
func TestFlagsAreGrouped(t *testing.T) {
	app := newApp(quiet())
	helps := map[string]string{}
	for _, c := range app.Commands {
		helps[c.Name] = c.CustomHelpTemplate
		for _, sub := range c.Subcommands {
			helps[c.Name+" "+sub.Name] = sub.CustomHelpTemplate
		}
	}
	for of, flags := range commandFlags(app) {
		_, list, _ := strings.Cut(helps[of], "\nOPTIONS:\n")
		if of == "train" && !strings.HasPrefix(list, "\n   Batches and features\n") {
			t.Errorf("train has flags ahead of its groups: %.80s", list)
		}
		for _, f := range flags {
			name := f.Names()[0]
			if name == "out" && !slices.Contains(f.Names(), "o") {
				t.Errorf("%s --out has no -o", of)
			}
			listed := 0
			for line := range strings.Lines(list) {
				if flag, ok := strings.CutPrefix(line, "   --"+name); ok && strings.ContainsAny(flag[:1], " ,\n") {
					listed++
				}
			}
			if listed != 1 {
				t.Errorf("%s --%s is listed %d times", of, name, listed)
			}
		}
	}
}

func TestReflow(t *testing.T) {
	text := "One two\nthree.\n\n   run --a 1 --b 2 --c 3\n   run --a 1   remark\n   run --a 1 --b 2   a remark\nlast,words,here,"
	want := "One two three.\n\n   run --a 1 --b 2 \\\n      --c 3\n   run --a 1  remark\n   # a remark\n   run --a 1 --b 2\nlast,words,here,"
	if got := reflow(text, 20); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := wrap("some of packed,memory,rows", 10), "some of\npacked,\nmemory,\nrows"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
