// Package metamorphic draws random programs of diskgnn's commands, and compares the directories that
// each program makes under several sets of options.
//
// # Programs
//
// A Program is a pipeline: a graph, perhaps with node types, samples, a pack, a run and predictions. Its content options decide
// the bytes of these directories. Each of its variants runs the whole pipeline with free options, which
// must not change them: workers, threads, memory, shards, caches, stores, backends, engines. A variant may
// have a Fault in one command, after which the command runs again.
//
// A Program is text, one setting a line, so that a failing program is kept as a file and runs again:
//
//	presample --fanout 2,3
//	0 pack --workers 3
//	1 train --store rows
//	fault 1 pack enospc 17
//
// # Relations
//
// The tests of package commands run the programs, and compare each variant with variant 0:
//
//	graph, samples, pack  every file has equal bytes, except run.json and files that no fingerprint covers
//	run                   batches and input nodes of every epoch are equal, for all engines and stores; weights,
//	                      losses and scores have equal bits, if sums have the same order; else the first loss
//	                      agrees to 1e-5, if the first epoch is one step: later steps need not agree, because
//	                      Adam makes whole steps of rounding errors where gradients vanish in the formulas
//	predictions           as the run
//	slices of a pack      all of them together have the pack's bytes
//
// A run that draws other batches than the samples have is compared in the same way with a run on samples of
// its batches. A run that was interrupted, or first had fewer epochs, has the bytes of one that was not, and a
// run on several GPUs has the bytes of one on a single GPU; run.json has the options of the program. Without a
// fault, commands end well or refuse options or memory.
//
// They compare every variant with package train/oracle, which shares no code with the program:
// predictions with the formulas on the dataset's arrays, and the loss on a batch with all neighbours
// with the cross-entropy of these logits. verify must find nothing in any directory.
//
// A command with a fault must end with an exit code that its kind allows, and a message. The command is
// then run again without the fault, and must end: with the bytes that it makes without a fault, which it made
// before. It is struck so several times: by operations further on, or by changes of successive files, or of files
// that are open or mapped at an operation. Operations are operations on files, reads of storage stacks, which pass
// package vfs by, and reads of mappings: iostack/faultio and internal/mapped have the seams. A program that takes
// minutes ends the test, with the stacks of all goroutines.
//
// # Coverage
//
// A Drawer counts the pairs of settings that its programs contain, and of several candidates takes the
// one with the most pairs that were never met. Its draws depend on its seed and on nothing else, so that
// the number of a program and the seed identify it.
package metamorphic

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Reference is the number of the variant with which the others are compared.
const Reference = 0

// Setting is the value of an option; a value of "" means that the flag is not given.
type Setting struct {
	Command, Flag, Value string
}

// String returns the setting as a line of a program, without a variant's number.
func (s Setting) String() string { return s.Command + " --" + s.Flag + " " + s.Value }

// Program is a pipeline with its options. The zero value has all options at their defaults and no
// variant.
type Program struct {
	Content  []Setting   // in the order of Options
	Variants [][]Setting // free options of each variant, in the order of Options
	Fault    *Fault      // in one command of a variant other than Reference; nil: none
}

// Fault is an event in one command of a variant.
type Fault struct {
	Variant int
	Command string
	Kind    string // one of Faults
	At      int    // the operations or places at which it happens follow from it and from the command
}

// String returns the fault as a line of a program.
func (f *Fault) String() string {
	return fmt.Sprintf("fault %d %s %s %d", f.Variant, f.Command, f.Kind, f.At)
}

// Value returns the content option's value, or "" if the flag is not given.
func (p *Program) Value(command, flag string) string { return valueOf(p.Content, command, flag) }

// Free returns the value of a variant's free option, or "" if the flag is not given.
func (p *Program) Free(variant int, command, flag string) string {
	if variant >= len(p.Variants) {
		return ""
	}
	return valueOf(p.Variants[variant], command, flag)
}

func valueOf(list []Setting, command, flag string) string {
	for _, s := range list {
		if s.Command == command && s.Flag == flag {
			return s.Value
		}
	}
	return ""
}

// String returns the program as text, which Parse reads.
func (p *Program) String() string {
	var b strings.Builder
	for _, s := range p.Content {
		fmt.Fprintln(&b, s)
	}
	for v, list := range p.Variants {
		if len(list) == 0 {
			fmt.Fprintln(&b, v)
		}
		for _, s := range list {
			fmt.Fprintln(&b, v, s)
		}
	}
	if p.Fault != nil {
		fmt.Fprintln(&b, p.Fault)
	}
	return b.String()
}

// Parse reads the text of a program. Empty lines and lines that begin with # are skipped.
func Parse(text string) (*Program, error) {
	p := &Program{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if err := p.parse(strings.Fields(line)); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
	}
	return p, nil
}

func (p *Program) parse(words []string) error {
	if words[0] == "fault" {
		return p.parseFault(words[1:])
	}
	list := &p.Content
	if v, err := strconv.Atoi(words[0]); err == nil {
		if v < 0 || v > len(p.Variants) {
			return fmt.Errorf("variant %d follows %d variants", v, len(p.Variants))
		}
		if v == len(p.Variants) {
			p.Variants = append(p.Variants, nil)
		}
		if words = words[1:]; len(words) == 0 {
			return nil
		}
		list = &p.Variants[v]
	}
	if len(words) != 3 || !strings.HasPrefix(words[1], "--") {
		return fmt.Errorf("needs the form COMMAND --FLAG VALUE")
	}
	s := Setting{words[0], words[1][2:], words[2]}
	if i := slices.IndexFunc(Options, func(o Option) bool { return o.Command == s.Command && o.Flag == s.Flag }); i < 0 {
		return fmt.Errorf("no such option")
	} else if Options[i].Free != (list != &p.Content) {
		return fmt.Errorf("free options are of variants, and content options are not")
	}
	*list = append(*list, s)
	return nil
}

func (p *Program) parseFault(words []string) (err error) {
	if len(words) != 4 || !slices.Contains(Faults, words[2]) {
		return fmt.Errorf("needs the form fault VARIANT COMMAND KIND AT, of the kinds %s", strings.Join(Faults, ", "))
	}
	f := &Fault{Command: words[1], Kind: words[2]}
	if f.Variant, err = strconv.Atoi(words[0]); err != nil || f.Variant <= Reference || f.Variant >= len(p.Variants) {
		return fmt.Errorf("a fault is in a variant from 1 to %d", len(p.Variants)-1)
	}
	if f.At, err = strconv.Atoi(words[3]); err != nil || f.At < 0 {
		return fmt.Errorf("a fault is at a number")
	}
	p.Fault = f
	return nil
}
