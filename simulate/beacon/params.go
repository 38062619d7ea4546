package beacon

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"diskgnn/internal/fault"
	"diskgnn/simulate/directgraph"
	"diskgnn/simulate/kernel"
)

// Params are the parameters of the drive, the host and the model. The defaults come from the table of
// configuration in the authors' slides, and from the authors' simulator for values that the slides lack.
type Params struct {
	Host struct {
		RoundTrip kernel.Time // of a hop through the host's storage stack
		Sampling  kernel.Time // of a page on the host, for CC and GLIST
	}
	PCIe     struct{ Rate kernel.Rate } // each direction
	Firmware struct {
		Cores   int
		Command kernel.Time // of a core for one command
	}
	Router struct{ Hop kernel.Time } // of a channel's router for one command
	Flash  struct {
		Channels int
		Dies     int         // of a channel
		Page     int         // bytes of a flash page, and of DirectGraph's pages
		Crossing int         // bytes of a page that cross the channel
		Read     kernel.Time // tR, sensing of a page
		Buffers  int         // page buffers of a die
		Channel  kernel.Rate
		Command  int // bytes of a command on the channel
	}
	Sampler struct {
		Draw     kernel.Time
		Retrieve kernel.Rate // of the vector retriever, in bytes
	}
	DRAM        struct{ Rate kernel.Rate } // each result is written and read once
	Accelerator Array                      // in the drive
	Central     Array                      // on PCIe, for CC and SmartSAGE
	Model       struct {
		Batch  int
		Fanout []int // of each hop, from the targets
		Hidden int
		Out    int
	}
	Energy Energy
	Rules  Rules
}

// Array is a systolic array of multipliers.
type Array struct {
	Side  int         // rows, and columns
	Clock kernel.Rate // cycles in a second
}

// Rules are the differences between the two modes that are not parameters of hardware.
type Rules struct {
	WaitDRAM    bool // results wait for the DRAM
	ReadPrimary bool // a node's primary page is always read; otherwise only if it has a sampled slot
	Overlap     bool // data for the host crosses PCIe as pages arrive; otherwise after all reads, computed from BG-1's run
}

// Mode is a set of rules of a simulation.
type Mode string

// The modes.
const (
	Faithful Mode = "faithful"
	Strict   Mode = "strict"
)

// Defaults returns the default parameters of a mode.
func Defaults(m Mode) *Params {
	p := &Params{}
	p.Host.RoundTrip = 10 * kernel.Microsecond
	p.PCIe.Rate = 8_000_000_000
	p.Firmware.Cores, p.Firmware.Command = 4, 200*kernel.Nanosecond
	f := &p.Flash
	f.Channels, f.Dies, f.Page, f.Crossing = 16, 8, 4096, 4000
	f.Read, f.Buffers, f.Channel = 3*kernel.Microsecond, 2, 800_000_000
	p.Sampler.Draw, p.Sampler.Retrieve = 200*kernel.Nanosecond, 1_365_000_000
	p.DRAM.Rate = 25_600_000_000
	p.Accelerator = Array{Side: 64, Clock: 800_000_000}
	p.Central = Array{Side: 128, Clock: 1_000_000_000}
	p.Model.Batch, p.Model.Fanout, p.Model.Hidden, p.Model.Out = 128, []int{3, 3, 3}, 128, 10
	p.Energy = defaultEnergy()
	if m == Strict {
		f.Crossing, f.Command = f.Page, 8
		p.Router.Hop = 20 * kernel.Nanosecond // assumed, in the range of 10 to 50 ns
		p.Rules = Rules{WaitDRAM: true, ReadPrimary: true, Overlap: true}
	}
	return p
}

func (p *Params) dies() int { return p.Flash.Channels * p.Flash.Dies }

// Parameter is one parameter, with its name.
type Parameter struct {
	Name, Unit, About string

	get func(*Params) string
	set func(*Params, string) error
}

// Number returns a value that Set reads as a number: times in µs, rates in units a second. found is
// false if the value is no number or the parameter rejects it.
func (q *Parameter) Number(value string) (number float64, found bool) {
	p := Defaults(Strict)
	if q.set(p, value) != nil {
		return 0, false
	}
	number, err := strconv.ParseFloat(strings.TrimSuffix(q.Get(p), "us"), 64)
	return number, err == nil
}

// Get returns the parameter's value in the form that Params.Set reads.
func (q *Parameter) Get(p *Params) string { return q.get(p) }

// Parameters returns all parameters, in order. The caller must not change the slice.
func Parameters() []Parameter { return parameters }

var parameters = []Parameter{
	timeOf("host.round_trip", "a hop through the host's storage stack", func(p *Params) *kernel.Time { return &p.Host.RoundTrip }),
	timeOf("host.sampling", "a page sampled on the host (CC, GLIST)", func(p *Params) *kernel.Time { return &p.Host.Sampling }),
	rateOf("pcie.rate", "PCIe, each direction", func(p *Params) *kernel.Rate { return &p.PCIe.Rate }),
	countOf("firmware.cores", "cores that handle commands", 1, 1<<16, func(p *Params) *int { return &p.Firmware.Cores }),
	timeOf("firmware.command", "a command on a core", func(p *Params) *kernel.Time { return &p.Firmware.Command }),
	timeOf("router.hop", "a command in the router (BG-2)", func(p *Params) *kernel.Time { return &p.Router.Hop }),
	countOf("channels", "flash channels", 1, 1<<12, func(p *Params) *int { return &p.Flash.Channels }),
	countOf("dies", "dies on a channel", 1, 1<<12, func(p *Params) *int { return &p.Flash.Dies }),
	pages,
	countOf("page.crossing", "bytes of a page that cross the channel", 1, 1<<16, func(p *Params) *int { return &p.Flash.Crossing }),
	timeOf("die.tr", "sensing of a page", func(p *Params) *kernel.Time { return &p.Flash.Read }),
	countOf("die.buffers", "pages that a die holds", 1, 1<<12, func(p *Params) *int { return &p.Flash.Buffers }),
	timeOf("die.draw", "the sampler's draw", func(p *Params) *kernel.Time { return &p.Sampler.Draw }),
	rateOf("die.retrieve", "the vector retriever", func(p *Params) *kernel.Rate { return &p.Sampler.Retrieve }),
	rateOf("channel.rate", "a channel", func(p *Params) *kernel.Rate { return &p.Flash.Channel }),
	countOf("channel.command", "bytes of a command on the channel", 0, 1<<12, func(p *Params) *int { return &p.Flash.Command }),
	rateOf("dram.rate", "the drive's DRAM", func(p *Params) *kernel.Rate { return &p.DRAM.Rate }),
	countOf("accelerator.side", "rows of the drive's systolic array", 1, 1<<12, func(p *Params) *int { return &p.Accelerator.Side }),
	rateOf("accelerator.clock", "cycles of the drive's systolic array", func(p *Params) *kernel.Rate { return &p.Accelerator.Clock }),
	countOf("central.side", "rows of the systolic array on PCIe (CC, SmartSAGE)", 1, 1<<12, func(p *Params) *int { return &p.Central.Side }),
	rateOf("central.clock", "cycles of the systolic array on PCIe", func(p *Params) *kernel.Rate { return &p.Central.Clock }),
	countOf("batch", "targets of a batch", 1, 1<<20, func(p *Params) *int { return &p.Model.Batch }),
	fanouts,
	countOf("hidden", "width of hidden layers", 1, 1<<16, func(p *Params) *int { return &p.Model.Hidden }),
	countOf("out", "width of the last layer", 1, 1<<16, func(p *Params) *int { return &p.Model.Out }),
	ruleOf("dram.wait", "results wait for the DRAM", func(p *Params) *bool { return &p.Rules.WaitDRAM }),
	ruleOf("primary.always", "a node's primary page is always read", func(p *Params) *bool { return &p.Rules.ReadPrimary }),
	ruleOf("pcie.overlap", "data for the host crosses PCIe as pages arrive, not after all reads", func(p *Params) *bool { return &p.Rules.Overlap }),
	energyOf("energy.sense", "W", "a die that senses", func(p *Params) *float64 { return &p.Energy.Sense }),
	energyOf("energy.dram", "J/byte", "the drive's DRAM, each way", func(p *Params) *float64 { return &p.Energy.DRAM }),
	energyOf("energy.sram_read", "J/byte", "the accelerator's SRAM, read", func(p *Params) *float64 { return &p.Energy.SRAMRead }),
	energyOf("energy.sram_write", "J/byte", "the accelerator's SRAM, written", func(p *Params) *float64 { return &p.Energy.SRAMWrite }),
	energyOf("energy.sram_busy", "W", "leakage of the accelerator's SRAM while it works", func(p *Params) *float64 { return &p.Energy.SRAMBusy }),
	energyOf("energy.sram_idle", "W", "leakage of the accelerator's SRAM while it idles", func(p *Params) *float64 { return &p.Energy.SRAMIdle }),
	energyOf("energy.core", "W", "a firmware core that works (assumed)", func(p *Params) *float64 { return &p.Energy.Core }),
	energyOf("energy.core_idle", "W", "a firmware core that does not (assumed)", func(p *Params) *float64 { return &p.Energy.CoreIdle }),
	energyOf("energy.sampler", "W", "a die's sampler that works (assumed)", func(p *Params) *float64 { return &p.Energy.Sampler }),
	energyOf("energy.router", "J", "a command in the router (assumed)", func(p *Params) *float64 { return &p.Energy.Router }),
}

// Set changes parameters: each setting is NAME=VALUE. An unknown name or a value that does not parse
// is an error of kind fault.ErrUsage.
func (p *Params) Set(settings ...string) error {
	for _, s := range settings {
		name, value, found := strings.Cut(s, "=")
		if !found {
			return fault.New(fault.ErrUsage, "%q: give NAME=VALUE", s)
		}
		q, err := FindParameter(strings.TrimSpace(name))
		if err != nil {
			return err
		}
		if err := q.set(p, strings.TrimSpace(value)); err != nil {
			return fault.New(fault.ErrUsage, "%s=%s: %v", name, value, err)
		}
	}
	return p.Check()
}

// FindParameter returns the parameter with the given name. An unknown name is an error of kind
// fault.ErrUsage.
func FindParameter(name string) (*Parameter, error) {
	i := slices.IndexFunc(parameters, func(q Parameter) bool { return q.Name == name })
	if i < 0 {
		var names []string
		for _, q := range parameters {
			names = append(names, q.Name)
		}
		return nil, fault.New(fault.ErrUsage, "unknown parameter %q; use one of %s", name, strings.Join(names, ", "))
	}
	return &parameters[i], nil
}

// Check returns an error of kind fault.ErrUsage if the values do not fit together or are too large to
// simulate.
func (p *Params) Check() error {
	f := &p.Flash
	switch {
	case f.Page%512 != 0:
		return fault.New(fault.ErrUsage, "page=%d is no multiple of 512 bytes", f.Page)
	case f.Crossing > f.Page:
		return fault.New(fault.ErrUsage, "page.crossing=%d is more than a page of %d bytes", f.Crossing, f.Page)
	case p.dies() > maxDies:
		return fault.New(fault.ErrUsage, "%d channels with %d dies are %d dies; at most %d are simulated", f.Channels, f.Dies, p.dies(), maxDies)
	}
	if n := p.Commands(); n > maxCommands {
		return fault.New(fault.ErrUsage, "batch=%d and fanout=%s make a batch of %.0f nodes; at most %d are simulated", p.Model.Batch, fanouts.get(p), n, maxCommands)
	}
	return nil
}

const (
	maxDies     = 1 << 16
	maxCommands = 1 << 26 // of a batch
)

// Commands returns the number of nodes of a batch if every node has the full fanout of children.
func (p *Params) Commands() float64 {
	hop, all := float64(p.Model.Batch), float64(p.Model.Batch)
	for _, f := range p.Model.Fanout {
		hop *= float64(f)
		all += hop
	}
	return all
}

var units = []struct {
	suffix string
	time   kernel.Time
}{{"ps", kernel.Picosecond}, {"ns", kernel.Nanosecond}, {"us", kernel.Microsecond}, {"µs", kernel.Microsecond}, {"ms", kernel.Millisecond}, {"s", kernel.Second}}

func timeOf(name, about string, at func(*Params) *kernel.Time) Parameter {
	return Parameter{Name: name, Unit: "time", About: about,
		get: func(p *Params) string {
			return strconv.FormatFloat(float64(*at(p))/float64(kernel.Microsecond), 'g', -1, 64) + "us"
		},
		set: func(p *Params, s string) error {
			for _, u := range units {
				number, found := strings.CutSuffix(s, u.suffix)
				v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
				if !found || err != nil {
					continue
				}
				if ps := math.Round(v * float64(u.time)); ps >= 0 && ps <= float64(kernel.Second) {
					*at(p) = kernel.Time(ps)
					return nil
				}
				return fmt.Errorf("a time must be from 0 to 1s")
			}
			return fmt.Errorf("a time must be a number with ps, ns, us, ms or s")
		}}
}

func rateOf(name, about string, at func(*Params) *kernel.Rate) Parameter {
	return Parameter{Name: name, Unit: "per second", About: about,
		get: func(p *Params) string { return strconv.FormatFloat(float64(*at(p)), 'g', -1, 64) },
		set: func(p *Params, s string) error {
			v, err := strconv.ParseFloat(strings.TrimRight(s, "kMGT"), 64)
			for _, c := range strings.TrimLeft(s, "0123456789.e+-") {
				v *= map[rune]float64{'k': 1e3, 'M': 1e6, 'G': 1e9, 'T': 1e12}[c]
			}
			if err != nil || !(v >= 1 && v <= 1e15) {
				return fmt.Errorf("a rate must be a number per second from 1 to 1e15, such as 800M or 8e9")
			}
			*at(p) = kernel.Rate(v)
			return nil
		}}
}

func energyOf(name, unit, about string, at func(*Params) *float64) Parameter {
	return Parameter{Name: name, Unit: unit, About: about,
		get: func(p *Params) string { return strconv.FormatFloat(*at(p), 'g', -1, 64) },
		set: func(p *Params, s string) error {
			v, err := strconv.ParseFloat(s, 64)
			if err != nil || !(v >= 0 && v <= 1e6) {
				return fmt.Errorf("the value must be a number of %s from 0 to 1e6, such as 0.25", unit)
			}
			*at(p) = v
			return nil
		}}
}

func countOf(name, about string, least, most int, at func(*Params) *int) Parameter {
	return Parameter{Name: name, Unit: "count", About: about,
		get: func(p *Params) string { return strconv.Itoa(*at(p)) },
		set: func(p *Params, s string) error {
			v, err := strconv.Atoi(s)
			if err != nil || v < least || v > most {
				return fmt.Errorf("the value must be a whole number from %d to %d", least, most)
			}
			*at(p) = v
			return nil
		}}
}

func ruleOf(name, about string, at func(*Params) *bool) Parameter {
	return Parameter{Name: name, Unit: "true or false", About: about,
		get: func(p *Params) string { return strconv.FormatBool(*at(p)) },
		set: func(p *Params, s string) (err error) {
			*at(p), err = strconv.ParseBool(s)
			return err
		}}
}

// pages is the size of a page. Setting it keeps the share of the page that crosses the channel.
var pages = func() Parameter {
	q := countOf("page", "bytes of a flash page", 512, directgraph.MaxPage, func(p *Params) *int { return &p.Flash.Page })
	set := q.set
	q.set = func(p *Params, s string) error {
		before := p.Flash.Page
		err := set(p, s)
		if before > 0 {
			p.Flash.Crossing = p.Flash.Crossing * p.Flash.Page / before
		}
		return err
	}
	return q
}()

// fanouts is the number of neighbours drawn for a node at each hop, from the targets.
var fanouts = Parameter{Name: "fanout", Unit: "counts, with / between", About: "neighbours drawn at each hop, from the targets",
	get: func(p *Params) string {
		s := fmt.Sprint(p.Model.Fanout)
		return strings.ReplaceAll(s[1:len(s)-1], " ", "/")
	},
	set: func(p *Params, s string) error {
		var f []int
		for _, part := range strings.Split(s, "/") {
			v, err := strconv.Atoi(part)
			if err != nil || v < 0 || v > 1<<16 || len(f) == 16 {
				return fmt.Errorf("the value must be up to 16 numbers from 0 to 65536, such as 3/3/3")
			}
			f = append(f, v)
		}
		p.Model.Fanout = f
		return nil
	}}
