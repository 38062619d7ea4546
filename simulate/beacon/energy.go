package beacon

import "diskgnn/simulate/kernel"

// Energy has the energy of operations and the power of parts. The values come from the authors' simulator.
// It has none for cores, sampler and router; these are assumed.
type Energy struct {
	Sense       float64 // watts of a die that senses
	Channel     float64 // watts of a channel that carries bytes
	ChannelIdle float64
	DRAM        float64 // joules a byte, each way
	HostDRAM    float64 // joules a byte
	PCIePort    float64 // joules a byte, of each port that it passes
	MAC         float64 // joules of a 16-bit multiplication and addition
	SRAMRead    float64 // joules a byte
	SRAMWrite   float64
	SRAMBusy    float64 // watts of the accelerator's SRAM, while it works
	SRAMIdle    float64
	Core        float64 // watts of a firmware core that works: assumed, of a Cortex-A9 at 800 MHz
	CoreIdle    float64 // watts of an idle firmware core: assumed the same, since it polls
	Sampler     float64 // watts of a die's sampler that works: assumed
	Router      float64 // joules of a command: assumed
}

func defaultEnergy() Energy {
	const picojoule, milliwatt = 1e-12, 1e-3
	const shrink = 32. / 45 * 32 / 45 // scales the energy of multipliers from 45 nm to 32 nm
	return Energy{
		Sense: 25e-3 * 3.3, Channel: 16.5 * milliwatt, ChannelIdle: 33e-6,
		DRAM: 8 * 22 * picojoule, HostDRAM: 8 * 40 * picojoule, PCIePort: 8 * 7.5 * picojoule,
		MAC:      (0.4 + 1.1) * shrink * picojoule,
		SRAMRead: 8 * 1.143 * picojoule, SRAMWrite: 8 * 1.204 * picojoule, SRAMBusy: 3.83, SRAMIdle: 0.195,
		Core: 250 * milliwatt, CoreIdle: 250 * milliwatt, Sampler: 1 * milliwatt, Router: 10 * picojoule,
	}
}

// Numbers of PCIe ports that bytes pass: from the drive to the host's memory, and from there to a device.
const (
	drivePorts       = 4
	acceleratorPorts = 2
)

// Joules is the energy of a batch, by component.
type Joules struct {
	Sensing     float64 `json:"sensing"`
	Channels    float64 `json:"channels"`
	DRAM        float64 `json:"dram"`
	HostDRAM    float64 `json:"host_dram"`
	PCIe        float64 `json:"pcie"`
	Accelerator float64 `json:"accelerator"`
	Cores       float64 `json:"cores"`
	Samplers    float64 `json:"samplers"`
	Router      float64 `json:"router"`
}

// Total returns the sum of all components.
func (j *Joules) Total() float64 {
	total := 0.0
	for _, p := range j.parts() {
		total += *p
	}
	return total
}

func (j *Joules) parts() []*float64 {
	return []*float64{&j.Sensing, &j.Channels, &j.DRAM, &j.HostDRAM, &j.PCIe, &j.Accelerator, &j.Cores, &j.Samplers, &j.Router}
}

func (j *Joules) add(o *Joules) {
	for i, p := range o.parts() {
		*j.parts()[i] += *p
	}
}

func (j *Joules) scale(by float64) {
	for _, p := range j.parts() {
		*p *= by
	}
}

func (p *Params) joules(pf *Platform, r *Batch, all []product, macs float64) Joules {
	e, period := &p.Energy, r.Period
	a := &p.Accelerator
	if pf.HostComputes() {
		a = &p.Central
	}
	idle := kernel.Time(p.Flash.Channels)*period - r.Channel.Busy
	j := Joules{
		Sensing:  e.Sense * r.Die.Busy.Seconds(),
		Channels: e.Channel*r.Channel.Busy.Seconds() + e.ChannelIdle*max(0, idle.Seconds()),
		DRAM:     2 * e.DRAM * float64(r.ResultBytes),
		PCIe:     e.PCIePort * drivePorts * float64(r.PCIeBytes),
		HostDRAM: e.HostDRAM * float64(r.PCIeBytes),
		Cores:    e.Core*r.Firmware.Busy.Seconds() + e.CoreIdle*(float64(p.Firmware.Cores)*period.Seconds()-r.Firmware.Busy.Seconds()),
		Samplers: e.Sampler * r.Sampler.Seconds(),
	}
	if !pf.Firmware {
		j.Router = e.Router * float64(r.Commands)
	}
	if pf.HostComputes() {
		features := float64(r.FeatureBytes) // from the host's memory to the accelerator
		j.PCIe += e.PCIePort * acceleratorPorts * features
		j.HostDRAM += e.HostDRAM * features
	}
	j.Accelerator = e.MAC*macs + e.SRAMBusy*r.Compute.Seconds() + e.SRAMIdle*(period-r.Compute).Seconds()
	side := int64(a.Side)
	for _, q := range all {
		folds := ((q.m + side - 1) / side) * ((q.n + side - 1) / side)
		j.Accelerator += 2*e.SRAMRead*float64(folds*2*side*q.k) + 2*e.SRAMWrite*float64(q.m*q.n)
	}
	return j
}
