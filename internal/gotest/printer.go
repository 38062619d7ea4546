package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// printer turns the events of tests into the lines of go test without -json.
type printer struct {
	out     io.Writer
	all     outcomes
	verbose bool            // print output as it comes
	pkgs    map[string]*pkg // under way
}

// pkg is a package under test.
type pkg struct {
	order  []string          // tests in the order of their first output; "" is the package itself
	output map[string]string // of each test, until it passes or is skipped
}

// read prints the results in a stream of events. It prints lines that are no events unchanged.
func (p *printer) read(stream io.Reader) error {
	p.pkgs = make(map[string]*pkg)
	lines := bufio.NewReader(stream)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
				fmt.Fprint(p.out, line)
			} else {
				p.event(e)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the events of tests: %w", err)
		}
	}
}

func (p *printer) event(e event) {
	if e.Action == "build-output" {
		fmt.Fprint(p.out, e.Output)
	}
	if e.Package == "" {
		return
	}
	t := p.pkgs[e.Package]
	if t == nil {
		t = &pkg{output: make(map[string]string)}
		p.pkgs[e.Package] = t
	}
	switch e.Action {
	case "output":
		if p.verbose {
			fmt.Fprint(p.out, e.Output)
		}
		t.add(e.Test, e.Output)
	case "pass", "skip", "fail":
		if e.Test == "" {
			p.finish(t, e)
			return
		}
		p.all.add(name{e.Package, e.Test}, e.Action, t.output[e.Test])
		if e.Action != "fail" {
			t.output[e.Test] = ""
		}
	}
}

// add adds output to a test, without the lines that announce a test.
func (t *pkg) add(test, output string) {
	if strings.HasPrefix(output, "=== ") {
		return
	}
	if _, seen := t.output[test]; !seen {
		t.order = append(t.order, test)
	}
	t.output[test] += output
}

// finish prints a package's result, after the output of its failures.
func (p *printer) finish(t *pkg, e event) {
	delete(p.pkgs, e.Package)
	if p.verbose {
		return
	}
	if e.Action == "fail" {
		for _, test := range t.order {
			if test != "" {
				fmt.Fprint(p.out, t.output[test])
			}
		}
		fmt.Fprint(p.out, t.output[""])
		return
	}
	result := fmt.Sprintf("ok  \t%s\t%.3fs\n", e.Package, e.Elapsed) // a test binary says PASS
	for line := range strings.Lines(t.output[""]) {
		if strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "?   \t") {
			result = line
		}
	}
	fmt.Fprint(p.out, result)
}
