package drives

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/internal/yaml"
	"diskgnn/simulate/kernel"
)

// Drive has the figures of a data sheet for a drive's reads.
type Drive struct {
	LatencyMicros float64 `yaml:"latency_us" json:"latency_us"`                   // of 4 KiB, on an idle drive
	Requests      int64   `yaml:"requests_per_second" json:"requests_per_second"` // of 4 KiB
	Bytes         int64   `yaml:"bytes_per_second" json:"bytes_per_second"`       // in sequence
	Depth         int     `yaml:"queue_depth" json:"queue_depth"`                 // most requests in the drive at a time
	Source        string  `yaml:"source" json:"source"`
}

// Link is the connection of a GPU.
type Link struct {
	Bytes  int64  `yaml:"bytes_per_second"` // of payload
	Source string `yaml:"source"`
}

// Software is the cost of a store's requests.
type Software struct {
	Threads     int     `yaml:"threads"`   // number of threads that submit requests
	CostMicros  float64 `yaml:"cost_us"`   // time of a thread for a request
	TouchMicros float64 `yaml:"touch_us"`  // time of a thread for a page in the page cache
	InFlight    int     `yaml:"in_flight"` // most requests in flight; 0: one for each thread
	Source      string  `yaml:"source"`
}

// Presets are drives, links and software by name.
type Presets struct {
	Drives   map[string]Drive    `yaml:"drives"`
	Links    map[string]Link     `yaml:"links"`
	Software map[string]Software `yaml:"software"`
}

//go:embed presets.yaml
var presets []byte

// Known returns the program's own presets.
func Known() Presets {
	p := known()
	return Presets{Drives: maps.Clone(p.Drives), Links: maps.Clone(p.Links), Software: maps.Clone(p.Software)}
}

// known parses the program's own presets once: flags of every command line are made from them.
var known = sync.OnceValue(func() Presets {
	var p Presets
	if err := p.add("presets.yaml", presets); err != nil {
		panic(err)
	}
	return p
})

// ReadPresets returns the program's presets and the presets of a file, which replace presets of the same
// name. With an empty name it returns the program's presets.
func ReadPresets(fsys vfs.FS, name string) (Presets, error) {
	p := Known()
	if name == "" {
		return p, nil
	}
	text, err := vfs.ReadSmall(fsys, name, yaml.MaxBytes)
	if err != nil {
		return p, err
	}
	return p, p.add(name, text)
}

// add adds the presets of a file, which replace presets of the same name.
func (p *Presets) add(name string, text []byte) error {
	var more Presets
	if err := yaml.Strict(text, &more); err != nil {
		return fault.New(fault.ErrInput, "%s: %v", name, err)
	}
	if p.Drives == nil {
		p.Drives, p.Links, p.Software = map[string]Drive{}, map[string]Link{}, map[string]Software{}
	}
	for _, k := range slices.Sorted(maps.Keys(more.Drives)) {
		if err := more.Drives[k].check(); err != nil {
			return fmt.Errorf("%s: drive %s: %w", name, k, err)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(more.Links)) {
		if b := more.Links[k].Bytes; b <= 0 || b > maxRate {
			return fault.New(fault.ErrInput, "%s: link %s: bytes_per_second must be more than 0, and below 2⁵⁰", name, k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(more.Software)) {
		if !slices.Contains(Stores(), k) {
			return fault.New(fault.ErrInput, "%s: software of %s: no store has this name; the stores are %s", name, k, strings.Join(Stores(), ", "))
		}
		if err := more.Software[k].check(); err != nil {
			return fmt.Errorf("%s: software of %s: %w", name, k, err)
		}
	}
	maps.Copy(p.Drives, more.Drives)
	maps.Copy(p.Links, more.Links)
	maps.Copy(p.Software, more.Software)
	return nil
}

// Bounds of a machine's plausible values: a second of latency or cost, the depth of all queues of
// NVMe.
const (
	maxMicros  = 1e6
	maxDepth   = 1 << 24
	maxThreads = 1 << 16
	maxRate    = 1 << 50 // requests or bytes per second
	maxSlots   = 1 << 20
	// MaxDrives bounds the drives of a machine.
	MaxDrives = 1024
)

func (d Drive) check() error {
	switch {
	case !(d.LatencyMicros >= 0 && d.LatencyMicros <= maxMicros):
		return fault.New(fault.ErrInput, "latency_us %v is not between 0 and a second", d.LatencyMicros)
	case d.Requests <= 0 || d.Bytes <= 0 || d.Requests > maxRate || d.Bytes > maxRate:
		return fault.New(fault.ErrInput, "requests_per_second and bytes_per_second must be more than 0, and below 2⁵⁰")
	case d.Depth < 1 || d.Depth > maxDepth:
		return fault.New(fault.ErrInput, "queue_depth %d is not between 1 and %d", d.Depth, maxDepth)
	}
	return nil
}

func (s Software) check() error {
	switch {
	case s.Threads < 1 || s.Threads > maxThreads:
		return fault.New(fault.ErrInput, "threads %d is not between 1 and %d", s.Threads, maxThreads)
	case !(s.CostMicros >= 0 && s.CostMicros <= maxMicros && s.TouchMicros >= 0 && s.TouchMicros <= maxMicros):
		return fault.New(fault.ErrInput, "cost_us %v and touch_us %v are not between 0 and a second", s.CostMicros, s.TouchMicros)
	case s.InFlight < 0 || s.InFlight > maxDepth:
		return fault.New(fault.ErrInput, "in_flight %d is not between 0 and %d", s.InFlight, maxDepth)
	}
	return nil
}

// inFlight returns the most requests in flight.
func (s Software) inFlight() int {
	if s.InFlight == 0 {
		return s.Threads
	}
	return s.InFlight
}

func micros(us float64) kernel.Time { return kernel.FromSeconds(us / 1e6) }

// service returns the time for which a request occupies a drive.
func (d Drive) service(bytes int64) kernel.Time {
	return max(kernel.Rate(d.Requests).For(1), kernel.Rate(d.Bytes).For(bytes))
}

// delay returns the time of a request after its service.
func (d Drive) delay() kernel.Time { return max(0, micros(d.LatencyMicros)-d.service(Page)) }

// Machine is the hardware and software on which Run simulates loads.
type Machine struct {
	Drive    Drive
	Drives   int
	Link     int64 // bytes per second
	Software Software
	Slots    int // batches under way at once; 1: nothing overlaps
}

// Check returns an error of kind fault.ErrUsage or fault.ErrInput if a value is out of bounds.
func (m *Machine) Check() error {
	switch {
	case m.Drives < 1 || m.Drives > MaxDrives:
		return fault.New(fault.ErrUsage, "%d drives: must be 1 to %d", m.Drives, MaxDrives)
	case m.Link <= 0 || m.Link > maxRate:
		return fault.New(fault.ErrUsage, "a link of %d bytes per second: must be 1 to %d", m.Link, int64(maxRate))
	case m.Slots < 1 || m.Slots > maxSlots:
		return fault.New(fault.ErrUsage, "%d batches at once: must be 1 to %d", m.Slots, maxSlots)
	}
	if err := m.Drive.check(); err != nil {
		return err
	}
	return m.Software.check()
}
