package metamorphic

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Faults are the kinds of faults.
var Faults = []string{
	"enospc", "edquot", "eio", // an operation on files, and for odd At all later ones, fail
	"interrupt", "signal", "kill", // before an operation: SIGINT; in a process of its own one of four signals, or SIGKILL
	"power",                          // is lost: unsynced changes are lost, in part, or kept
	"torn", "misdirected", "misread", // a write or read goes wrong without an error
	"flip", "shrink", "replace", // a file that is read has a wrong bit, is shorter, or is replaced meanwhile
	"moved", "cut", // a part of a file that is open or mapped gets bytes of another place; it becomes shorter
	"slow", "clock", // operations take long; files that are read have times of another clock
	"read-error", "read-wrong", "read-short", "read-slow", // a read of a storage stack, below package vfs
}

// inputFaults are the kinds that change the files that a command reads.
var inputFaults = []string{"flip", "shrink", "replace", "moved", "cut", "clock"}

// meet returns the commands of a variant that can meet a fault of a kind. Training is there twice: it reads most
// files, in most ways. An import has no sums of its inputs, and two ranks run without faults.
func (p *Program) meet(variant int, kind string) (commands []string) {
	inputs, stack := slices.Contains(inputFaults, kind), strings.HasPrefix(kind, "read-")
	if by := p.Value("generate", "by"); (by == "" || by == "import") && !inputs && !stack && (kind != "misread" || by == "import") {
		commands = append(commands, "generate")
	}
	if !p.Live(variant) && !stack {
		commands = append(commands, "presample")
	}
	if p.Store(variant) == "packed" {
		commands = append(commands, "pack")
	}
	if p.Free(variant, "train", "ranks") == "" {
		commands = append(commands, "train", "train")
	}
	if p.Free(variant, "train", "engine") != "none" {
		commands = append(commands, "predict")
	}
	return commands
}

// candidates is the number of programs of which a Drawer takes one.
const candidates = 6

// Drawer draws programs. It is not safe for concurrent use.
type Drawer struct {
	rng *rand.Rand
	met pairs
}

// NewDrawer returns a Drawer with a seed. Two with equal seeds draw the same programs.
func NewDrawer(seed uint64) *Drawer {
	return &Drawer{rng: rand.New(rand.NewPCG(seed, 0x6d657461)), met: newPairs()}
}

// Next returns the next program, and counts its pairs.
func (d *Drawer) Next() *Program {
	var best *Program
	most := -1
	for range candidates {
		p := d.draw()
		fresh := 0
		for v := range p.Variants {
			p.eachPair(v, func(pair int) {
				if d.met[pair] == 0 {
					fresh++
				}
			})
		}
		if fresh > most {
			best, most = p, fresh
		}
	}
	for v := range best.Variants {
		best.eachPair(v, func(pair int) { d.met[pair]++ })
	}
	return best
}

// rarely is the number of settings that are likely to be refused, of which one is kept. In place of the others is
// the option's first value that is not likely to be refused.
const rarely = 8

// notInReference are the free options that the reference has at their first value, so that it is seldom
// refused.
var notInReference = []string{"interrupt", "store", "batches", "engine", "ranks", "gpus"}

// draw returns a program; half of its options have their first value, so that faults of few options are
// seen by themselves.
func (d *Drawer) draw() *Program {
	p := &Program{}
	calm := d.rng.Float64()
	value := func(variant int, o *Option) string {
		v := o.Values[0]
		if d.rng.Float64() >= calm {
			v = o.Values[d.rng.IntN(len(o.Values))]
		}
		refused := func(v string) bool { return p.mostlyRefused(variant, Setting{o.Command, o.Flag, v}) }
		if refused(v) && d.rng.IntN(rarely) > 0 {
			return o.Values[max(0, slices.IndexFunc(o.Values, func(v string) bool { return !refused(v) }))]
		}
		return v
	}
	for i := range Options {
		if o := &Options[i]; !o.Free && (o.When == nil || o.When(p)) {
			if v := value(Reference, o); v != "" {
				p.Content = append(p.Content, Setting{o.Command, o.Flag, v})
			}
		}
	}
	variants := 2 + d.rng.IntN(2)
	for v := range variants {
		p.Variants = append(p.Variants, nil)
		for i := range Options {
			o := &Options[i]
			if !o.Free || o.When != nil && !o.When(p) {
				continue
			}
			x := value(v, o)
			if v == Reference && slices.Contains(notInReference, o.Flag) {
				x = o.Values[0]
			}
			if x != "" {
				p.Variants[v] = append(p.Variants[v], Setting{o.Command, o.Flag, x})
			}
		}
	}
	if d.rng.IntN(4) > 0 {
		kind := Faults[d.rng.IntN(len(Faults))]
		if commands := p.meet(1, kind); len(commands) > 0 {
			p.Fault = &Fault{Variant: 1, Command: commands[d.rng.IntN(len(commands))], Kind: kind, At: d.rng.IntN(1 << d.rng.IntN(12))}
		}
	}
	return p
}

// names are all settings, by number, in the order of Options and their values.
var names = func() (list []string) {
	for _, o := range Options {
		for _, v := range o.Values {
			list = append(list, Setting{o.Command, o.Flag, v}.String())
		}
	}
	return list
}()

// pairs are counts of pairs of settings.
type pairs []int

func newPairs() pairs { return make(pairs, len(names)*len(names)) }

// name returns the settings of a pair. The names of settings that are not given end in a space.
func (pairs) name(pair int) string { return names[pair/len(names)] + " | " + names[pair%len(names)] }

// eachPair calls do for every pair of settings that a command of the program, or one and a later one of
// the variant, run with.
func (p *Program) eachPair(variant int, do func(pair int)) {
	list := p.settings(variant)
	for i, later := range list {
		for _, first := range list[:i] {
			do(first*len(names) + later)
		}
	}
}

// settings returns the numbers of all settings with an effect in a variant, also of values of "".
func (p *Program) settings(variant int) (list []int) {
	number := 0
	for i := range Options {
		o := &Options[i]
		if o.When == nil || o.When(p) {
			v := p.Value(o.Command, o.Flag)
			if o.Free {
				v = p.Free(variant, o.Command, o.Flag)
			}
			if k := slices.Index(o.Values, v); k >= 0 {
				list = append(list, number+k)
			}
		}
		number += len(o.Values)
	}
	return list
}

// Pairs returns the number of pairs of settings that programs can have, with conditions on each setting
// alone.
func Pairs() (n int) {
	sum, squares := 0, 0
	for i := range Options {
		sum += len(Options[i].Values)
		squares += len(Options[i].Values) * len(Options[i].Values)
	}
	return (sum*sum - squares) / 2
}

// Coverage counts pairs of settings by their fate.
type Coverage struct {
	ran     pairs // commands with both ran
	refused pairs
}

// NewCoverage returns a Coverage without pairs.
func NewCoverage() *Coverage {
	return &Coverage{ran: newPairs(), refused: newPairs()}
}

// Add counts the pairs of a variant: done tells whether all of its commands ran, or one was refused.
func (c *Coverage) Add(p *Program, variant int, done bool) {
	to := c.refused
	if done {
		to = c.ran
	}
	p.eachPair(variant, func(pair int) { to[pair]++ })
}

// Summary states the pairs that ran, the pairs that were only refused, and the pairs that were never
// drawn, of all.
func (c *Coverage) Summary() string {
	ran, only := 0, 0
	for pair, n := range c.ran {
		switch {
		case n > 0:
			ran++
		case c.refused[pair] > 0:
			only++
		}
	}
	all := Pairs()
	return fmt.Sprintf("%d of %d pairs of settings ran, %d were only refused, %d were not drawn or exclude each other", ran, all, only, all-ran-only)
}

// Missing returns the pairs of settings that were only refused, at most n.
func (c *Coverage) Missing(n int) (missing []string) {
	for pair, refused := range c.refused {
		if refused > 0 && c.ran[pair] == 0 {
			missing = append(missing, c.ran.name(pair))
		}
	}
	return missing[:min(n, len(missing))]
}

// Simpler returns programs that differ from p in one step towards a simpler one: without the fault,
// without a variant, or with an option at its first value.
func Simpler(p *Program) (list []*Program) {
	edit := func(change func(q *Program)) {
		q, err := Parse(p.String())
		if err != nil {
			panic(err)
		}
		change(q)
		list = append(list, q)
	}
	if p.Fault != nil {
		edit(func(q *Program) { q.Fault = nil })
	}
	for v := len(p.Variants) - 1; v > Reference && len(p.Variants) > 2; v-- {
		if p.Fault == nil || p.Fault.Variant != v {
			edit(func(q *Program) {
				if q.Variants = slices.Delete(q.Variants, v, v+1); q.Fault != nil && q.Fault.Variant > v {
					q.Fault.Variant--
				}
			})
		}
	}
	for i := range Options {
		o := &Options[i]
		for v := range p.Variants {
			now := p.Value(o.Command, o.Flag)
			if o.Free {
				now = p.Free(v, o.Command, o.Flag)
			}
			if now != o.Values[0] && (o.When == nil || o.When(p)) {
				edit(func(q *Program) { q.set(v, o, o.Values[0]) })
			}
			if !o.Free {
				break
			}
		}
	}
	if p.Fault != nil && p.Fault.At > 0 {
		edit(func(q *Program) { q.Fault.At /= 2 })
		edit(func(q *Program) { q.Fault.At-- })
	}
	return list
}

// set gives an option a value, and removes content options that lose their effect by it.
func (p *Program) set(variant int, o *Option, value string) {
	list := &p.Content
	if o.Free {
		list = &p.Variants[variant]
	}
	*list = slices.DeleteFunc(*list, func(s Setting) bool { return s.Command == o.Command && s.Flag == o.Flag })
	if value != "" {
		*list = append(*list, Setting{o.Command, o.Flag, value})
	}
	if o.Free {
		return
	}
	old := p.Content
	p.Content = nil
	for i := range Options {
		k := &Options[i]
		if k.Free || k.When != nil && !k.When(p) {
			continue
		}
		v := valueOf(old, k.Command, k.Flag)
		if !slices.Contains(k.Values, v) {
			v = k.Values[0]
		}
		if v != "" {
			p.Content = append(p.Content, Setting{k.Command, k.Flag, v})
		}
	}
}

// Shrink returns the simplest program that it finds for which fails reports true, as it does for p. It
// calls fails at most most times.
func Shrink(p *Program, most int, fails func(*Program) bool) *Program {
	for again := true; again; {
		again = false
		for _, q := range Simpler(p) {
			if most--; most < 0 {
				return p
			}
			if fails(q) {
				p, again = q, true
				break
			}
		}
	}
	return p
}

// Kind returns an error's text with numbers and quoted parts replaced, so that equal faults count
// together.
func Kind(message string) string {
	var b strings.Builder
	digit := false
	for _, c := range message {
		if '0' <= c && c <= '9' {
			if !digit {
				b.WriteByte('#')
			}
			digit = true
			continue
		}
		digit = false
		b.WriteRune(c)
	}
	return b.String()
}
