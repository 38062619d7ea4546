package drives

import (
	_ "embed"
	"maps"
	"slices"
	"strings"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/internal/yaml"
)

// Prices are the prices of machines and their parts, to find the number of drives and the memory with the
// most throughput per cost.
//
// The cost of a machine is computed as in the report on Hyperion:
//
//	TCO = (chassis + GPUs + drives + electricity + memory beyond the chassis') × nodes
//
// Machines are compared by throughput per cost (TPC): mini-batches per second over TCO.
//
// All prices are in one currency.
type Prices struct {
	Currency     string             `yaml:"currency"`
	Machines     map[string]Priced  `yaml:"machines"`
	GPUs         map[string]float64 `yaml:"gpus"`
	Drives       map[string]float64 `yaml:"drives"`
	MemoryPerGiB float64            `yaml:"memory_per_gib"` // beyond the chassis' memory
}

// Priced is a machine: the parts of a node, and the number of nodes.
type Priced struct {
	Chassis     float64 `yaml:"chassis"`
	GPU         string  `yaml:"gpu"`
	GPUs        int     `yaml:"gpus"`
	Drive       string  `yaml:"drive"` // empty: none
	Drives      int     `yaml:"drives"`
	MemoryGiB   int64   `yaml:"memory_gib"` // included in the chassis
	Electricity float64 `yaml:"electricity"`
	Nodes       int     `yaml:"nodes"`
	Link        string  `yaml:"link"` // of each GPU: a name in Presets.Links
}

//go:embed prices.yaml
var report []byte

// ReadPrices returns the prices of a file, or if name is "", the prices of the report on Hyperion. A file
// that is not valid is an error of kind fault.ErrInput.
func ReadPrices(fsys vfs.FS, name string) (*Prices, error) {
	if name == "" {
		return parse("prices.yaml", report)
	}
	text, err := vfs.ReadSmall(fsys, name, yaml.MaxBytes)
	if err != nil {
		return nil, err
	}
	return parse(name, text)
}

func parse(name string, text []byte) (*Prices, error) {
	p := &Prices{Currency: "USD"}
	if err := yaml.Strict(text, p); err != nil {
		return nil, fault.New(fault.ErrInput, "%s: %v", name, err)
	}
	if len(p.Machines) == 0 {
		return nil, fault.New(fault.ErrInput, "%s lists no machines", name)
	}
	prices := map[string]float64{"memory_per_gib": p.MemoryPerGiB}
	for k, v := range p.GPUs {
		prices["gpu "+k] = v
	}
	for k, v := range p.Drives {
		prices["drive "+k] = v
	}
	for k, m := range p.Machines {
		prices["chassis of machine "+k], prices["electricity of machine "+k] = m.Chassis, m.Electricity
	}
	for _, k := range slices.Sorted(maps.Keys(prices)) {
		if v := prices[k]; !(v >= 0 && v <= 1e12) {
			return nil, fault.New(fault.ErrInput, "%s: %s: %v is not a price from 0 to 1e12", name, k, v)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(p.Machines)) {
		if err := p.check(p.Machines[k]); err != nil {
			return nil, fault.New(fault.ErrInput, "%s: machine %s: %v", name, k, err)
		}
	}
	return p, nil
}

func (p *Prices) check(m Priced) error {
	_, gpu := p.GPUs[m.GPU]
	_, drive := p.Drives[m.Drive]
	switch {
	case m.Nodes < 1 || m.Nodes > 1e6:
		return fault.New(fault.ErrInput, "%d nodes: must be 1 to 1000000", m.Nodes)
	case m.GPUs < 0 || m.GPUs > 1e6 || m.Drives < 0 || m.Drives > MaxDrives || m.MemoryGiB < 0:
		return fault.New(fault.ErrInput, "%d GPUs, %d drives or %d GiB of memory is out of range", m.GPUs, m.Drives, m.MemoryGiB)
	case m.GPUs > 0 && !gpu:
		return fault.New(fault.ErrInput, "the GPU %q has no price", m.GPU)
	case (m.Drives > 0 || m.Drive != "") && !drive:
		return fault.New(fault.ErrInput, "the drive %q has no price", m.Drive)
	}
	if total := p.TCO(m); !(total > 0) {
		return fault.New(fault.ErrInput, "its total cost is not more than 0")
	}
	return nil
}

// Find returns a machine by name. An unknown name is an error of kind fault.ErrUsage.
func (p *Prices) Find(name string) (Priced, error) {
	m, ok := p.Machines[name]
	if !ok {
		return m, fault.New(fault.ErrUsage, "no machine %q has prices; the machines are %s", name, strings.Join(slices.Sorted(maps.Keys(p.Machines)), ", "))
	}
	return m, nil
}

// TCO returns the cost of a machine with the memory included in its chassis.
func (p *Prices) TCO(m Priced) float64 { return p.With(m, m.Drives, 0) }

// With returns the cost of a machine with n drives, and with memory bytes of memory if the chassis
// includes less.
func (p *Prices) With(m Priced, n int, memory int64) float64 {
	node := m.Chassis + p.GPUs[m.GPU]*float64(m.GPUs) + p.Drives[m.Drive]*float64(n) + m.Electricity
	if more := float64(memory)/(1<<30) - float64(m.MemoryGiB); more > 0 {
		node += more * p.MemoryPerGiB
	}
	return node * float64(m.Nodes)
}

// Suggestion is the configuration with the most predicted throughput per cost.
type Suggestion struct {
	Drives  int     `json:"drives"`
	Memory  int64   `json:"memory"`  // of the store's cache in RAM, in bytes
	Seconds float64 `json:"seconds"` // time of the batches, by Estimate
	Cost    float64 `json:"cost"`
	// PerCost is in mini-batches per second and unit of currency.
	PerCost float64 `json:"batches_per_second_per_cost"`
}

// PerCost returns mini-batches per second and unit of currency.
func PerCost(batches int, seconds, cost float64) float64 {
	if seconds <= 0 || cost <= 0 {
		return 0
	}
	return float64(batches) / seconds / cost
}

// Suggest returns the number of drives, up to most, and the amount of memory, of the given ones, with the
// largest throughput per cost for a machine. plan returns a store's loads for an amount of memory. Times
// are from Estimate, without a simulation. Among equals the first amount wins, then the smaller number of
// drives; memory should ascend.
func (p *Prices) Suggest(m Priced, on Machine, most int, memory []int64, plan func(memory int64) ([]Load, error)) (Suggestion, error) {
	var best Suggestion
	for _, bytes := range memory {
		loads, err := plan(bytes)
		if err != nil {
			return best, err
		}
		for n := 1; n <= most; n++ {
			on.Drives = n
			s := Suggestion{Drives: n, Memory: bytes, Seconds: Estimate(loads, on), Cost: p.With(m, n, bytes)}
			s.PerCost = PerCost(len(loads), s.Seconds, s.Cost)
			if best.Drives == 0 || s.PerCost > best.PerCost*(1+1e-9) {
				best = s
			}
		}
	}
	return best, nil
}
