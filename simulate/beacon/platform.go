package beacon

import (
	"strings"

	"diskgnn/internal/fault"
	"diskgnn/simulate/kernel"
)

// Platform is one design of drive and host, described by flags.
type Platform struct {
	Name string `json:"name"`

	WholePages bool `json:"whole_pages"` // whole pages cross the channel, and are sampled after it; otherwise dies sample
	HopBarrier bool `json:"hop_barrier"` // a hop begins when the previous hop has ended, after a round trip through the host
	Firmware   bool `json:"firmware"`    // a core of the firmware handles each command; otherwise the router does

	// Addresses of the next hop go to the host, unless the host draws them from the pages that it gets. These two
	// add further bytes.
	PagesToHost    Crossing `json:"pages_to_host"`    // pages from which the host samples
	FeaturesToHost bool     `json:"features_to_host"` // features, for an accelerator behind PCIe

	about string
}

// Crossing is the set of pages that cross PCIe.
type Crossing string

// Pages that cross PCIe.
const (
	NoPages      Crossing = "none"
	SampledPages Crossing = "sampled" // of nodes with drawn neighbours
	AllPages     Crossing = "all"
	addressBytes          = 8 // of a child's address, on PCIe and in a result
)

// HostComputes reports whether the platform computes on the accelerator on PCIe, and not in the drive.
func (p *Platform) HostComputes() bool { return p.PagesToHost == AllPages || p.FeaturesToHost }

// platforms are the platforms of the authors' slides and two predecessors, from the slowest on.
var platforms = []Platform{
	{Name: "CC", WholePages: true, HopBarrier: true, Firmware: true, PagesToHost: AllPages, about: `
CC is the CPU-centric machine: a commercial drive, a host, an accelerator on PCIe.
The host sends a hop's page reads, and waits for all of them.
A core of the firmware handles each read, and the die senses the page. The whole page
crosses the channel, the drive's DRAM and PCIe, though only a few entries and one vector of
it are useful.
The host samples, looks up the addresses of the next hop, and sends them: a round trip.
Features then cross PCIe once more, to the accelerator.`},
	{Name: "GLIST", WholePages: true, HopBarrier: true, Firmware: true, PagesToHost: SampledPages, about: `
GLIST computes in the drive, which has an accelerator: features do not leave it.
The host still samples: whole pages with neighbours cross the channel, DRAM and PCIe.
Each hop waits for the one before it, and for a round trip through the host.`},
	{Name: "SmartSAGE", WholePages: true, HopBarrier: true, Firmware: true, PagesToHost: NoPages, FeaturesToHost: true, about: `
SmartSAGE samples in the drive's controller: no page with neighbours crosses PCIe.
Whole pages cross the channel and the drive's DRAM.
The host gets addresses and features, which cross PCIe to its accelerator.
Each hop waits for the one before it, and for a round trip through the host.`},
	{Name: "BG-1", WholePages: true, HopBarrier: true, Firmware: true, PagesToHost: NoPages, about: `
BG-1 is in-storage computing without BeaconGNN's ideas: SmartSAGE's sampling in the
controller, GLIST's accelerator in the drive.
Whole pages cross the channel and the drive's DRAM: the channels are the bound.
The host turns each hop's nodes into addresses: a round trip and a barrier per hop.`},
	{Name: "BG-DG", WholePages: true, Firmware: true, PagesToHost: NoPages, about: `
BG-DG is BG-1 with DirectGraph: an entry of an adjacency list is the flash address of the
neighbour, so the controller sends the next command without the host.
There is no barrier between hops and no round trip. Whole pages still cross the channels,
which are the bound, as on BG-1.`},
	{Name: "BG-SP", HopBarrier: true, Firmware: true, PagesToHost: NoPages, about: `
BG-SP is BG-1 with a sampler in each die: it draws slots of the sensed page and retrieves
the vector. Only the vector, and an address for each child, cross the channel.
The host still turns nodes into addresses: a round trip and a barrier per hop, in which
dies are idle. At other times, the firmware's cores are the bound.`},
	{Name: "BG-DGSP", Firmware: true, PagesToHost: NoPages, about: `
BG-DGSP is BG-DG and BG-SP together: entries are addresses, and dies sample.
Commands do not wait for a hop, and only useful bytes cross the channel.
A core of the firmware still handles each command: four cores feed some hundred dies.`},
	{Name: "BG-2", PagesToHost: NoPages, about: `
BG-2 is BG-DGSP with a router between the channels: a command that a die generates goes
to the die of its address in hardware, without a core of the firmware.
A node's primary page is read first; its die then sends the commands for drawn slots in
secondary pages. Dies and channels are the bound.`},
}

// FindPlatforms returns the platforms of a list of names with commas between them, or all for "all". An
// unknown name is an error of kind fault.ErrUsage.
func FindPlatforms(names string) ([]Platform, error) {
	if names == "all" {
		return platforms, nil
	}
	var found []Platform
next:
	for _, name := range strings.Split(names, ",") {
		for _, p := range platforms {
			if strings.EqualFold(p.Name, strings.TrimSpace(name)) {
				found = append(found, p)
				continue next
			}
		}
		return nil, fault.New(fault.ErrUsage, "unknown platform %q; use one of %s", name, strings.Join(PlatformNames(), ", "))
	}
	return found, nil
}

// PlatformNames returns the names of all platforms.
func PlatformNames() (names []string) {
	for _, p := range platforms {
		names = append(names, p.Name)
	}
	return names
}

// Explain returns a description of the platform, of several lines.
func (p *Platform) Explain() string { return strings.TrimSpace(p.about) }

// product is a matrix product: M×K by K×N.
type product struct{ m, n, k int64 }

// products returns the matrix products of training, forward and backward, for a batch with the given nodes
// of each hop and vectors of vector numbers, and the number of multiplications in them. Layer l computes
// vectors of the next width for the nodes of all hops except the last l. An array of adders, which is not
// modelled, sums the vectors of a node's neighbours before.
func (p *Params) products(hops []int64, vector int) (all []product, macs float64) {
	layers := len(hops) - 1
	width := int64(vector)
	for l := range layers {
		var rows int64
		for _, n := range hops[:layers-l] {
			rows += n
		}
		out := int64(p.Model.Hidden)
		if l == layers-1 {
			out = int64(p.Model.Out)
		}
		all = append(all, product{rows, out, width}, product{width, out, rows})
		if l > 0 {
			all = append(all, product{rows, width, out}) // features have no gradient
		}
		width = out
	}
	for _, q := range all {
		macs += float64(q.m) * float64(q.n) * float64(q.k)
	}
	return all, macs
}

// compute returns the time of an array for products. Each S×S part of a result takes as many cycles as the
// inner dimension, plus 2S − 2 for filling and draining.
func (a *Array) compute(all []product) kernel.Time {
	s := int64(a.Side)
	var cycles int64
	for _, q := range all {
		cycles += ((q.m + s - 1) / s) * ((q.n + s - 1) / s) * (q.k + 2*s - 2)
	}
	return a.Clock.For(cycles)
}
