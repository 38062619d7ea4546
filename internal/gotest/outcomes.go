package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// mostNamed is the largest number of tests listed for a reason.
const mostNamed = 8

// name is a test.
type name struct{ pkg, test string }

// outcomes has the reason of each skipped test, "" for tests that ran.
type outcomes map[name]string

// said begins the last message of a test.
var said = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// scripted matches the line with which a testscript skips itself; its log comes before that line.
var scripted = regexp.MustCompile(`^\s*> .*\bskip '(.*)'\s*$`)

// add adds the outcome of a test, which an earlier run may have reported.
func (o outcomes) add(n name, action, output string) {
	if why, seen := o[n]; seen && why == "" {
		return
	}
	if action != "skip" {
		o[n] = ""
		return
	}
	o[n] = reason(output)
}

// reason returns the last message of a test that was skipped, in one line.
func reason(output string) string {
	var words []string
	for line := range strings.Lines(output) {
		if skip := scripted.FindStringSubmatch(line); skip != nil {
			words, line = nil, skip[1]
		}
		if at := said.FindStringIndex(line); at != nil {
			words, line = nil, line[at[1]:]
		}
		if !strings.HasPrefix(strings.TrimSpace(line), "--- SKIP: ") {
			words = append(words, strings.Fields(line)...)
		}
	}
	return cmp.Or(strings.Join(words, " "), "no reason given")
}

// list prints the skipped tests by their reasons.
func (o outcomes) list(out io.Writer) {
	by := make(map[string][]string)
	n := 0
	for test, why := range o {
		if why != "" {
			by[why] = append(by[why], strings.TrimPrefix(test.pkg, "diskgnn/")+" "+test.test)
			n++
		}
	}
	if n == 0 {
		return
	}
	fmt.Fprintf(out, "skipped tests: %d\n", n)
	for _, why := range slices.Sorted(maps.Keys(by)) {
		tests := by[why]
		slices.Sort(tests)
		more := ""
		if len(tests) > mostNamed {
			more = fmt.Sprintf(", and %d more", len(tests)-mostNamed)
			tests = tests[:mostNamed]
		}
		fmt.Fprintf(out, "\t%s: %s%s\n", why, strings.Join(tests, ", "), more)
	}
}

// save appends the outcomes to a file: a line each of package, test and reason, between tabs.
func (o outcomes) save(file string) error {
	var text strings.Builder
	for test, why := range o {
		fmt.Fprintf(&text, "%s\t%s\t%s\n", test.pkg, test.test, why)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text.String())
	return errors.Join(err, f.Close())
}

func (o outcomes) load(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		field := strings.SplitN(lines.Text(), "\t", 3)
		if len(field) != 3 {
			return fmt.Errorf("%s: %q is no package, test and reason", file, lines.Text())
		}
		n := name{field[0], field[1]}
		if why, seen := o[n]; !seen || why != "" {
			o[n] = field[2]
		}
	}
	return lines.Err()
}
