package beacon

// Claim is a published figure of BeaconGNN, and the simulated figures.
type Claim struct {
	What  string  `json:"what"`
	Paper float64 `json:"paper"`
	// Authors is the figure of a separate run of the authors' simulator with this package's degree laws;
	// 0: it was not run.
	Authors  float64 `json:"authors_simulator"`
	Within   float64 `json:"within"` // bound of the relative difference; 0: no bound was set
	Faithful float64 `json:"faithful"`
	Strict   float64 `json:"strict"`
}

// Holds reports whether the faithful figure differs from the paper's by at most the share Within of the
// paper's. Without a bound it returns true.
func (c *Claim) Holds() bool {
	return c.Within == 0 || c.Faithful >= c.Paper*(1-c.Within) && c.Faithful <= c.Paper*(1+c.Within)
}

// measure computes a claim from the outcomes of all workloads, by platform.
type measure struct {
	Claim
	of func(o map[string]map[string]*Outcome) float64
}

// speedup returns the measure of the mean ratio of two platforms' throughputs over the workloads.
func speedup(a, b string) func(map[string]map[string]*Outcome) float64 {
	return func(o map[string]map[string]*Outcome) float64 {
		sum := 0.0
		for _, name := range WorkloadNames() {
			sum += o[name][a].Targets / o[name][b].Targets
		}
		return sum / float64(len(o))
	}
}

// most returns the measure of the largest ratio of two platforms' throughputs over the workloads.
func most(a, b string) func(map[string]map[string]*Outcome) float64 {
	return func(o map[string]map[string]*Outcome) (best float64) {
		for _, w := range o {
			best = max(best, w[a].Targets/w[b].Targets)
		}
		return best
	}
}

// onAmazon returns the measure of a figure on amazon, the workload of the authors' slides.
func onAmazon(f func(o map[string]*Outcome) float64) func(map[string]map[string]*Outcome) float64 {
	return func(o map[string]map[string]*Outcome) float64 { return f(o["amazon"]) }
}

func efficiency(a, b string) func(map[string]*Outcome) float64 {
	return func(o map[string]*Outcome) float64 { return o[b].Joules.Total() / o[a].Joules.Total() }
}

func dramShare(o map[string]*Outcome) float64 {
	j := &o["BG-1"].Joules
	return j.DRAM / j.Total()
}

func pcieShare(o map[string]*Outcome) float64 {
	j := &o["CC"].Joules
	return (j.PCIe + j.HostDRAM) / j.Total()
}

var claims = []measure{
	{Claim{What: "SmartSAGE over CC, mean", Paper: 2.11, Authors: 2.09, Within: 0.1}, speedup("SmartSAGE", "CC")},
	{Claim{What: "GLIST over CC, mean", Paper: 1.42, Authors: 1.44, Within: 0.1}, speedup("GLIST", "CC")},
	{Claim{What: "BG-1 over CC, mean", Paper: 2.35, Authors: 2.34, Within: 0.1}, speedup("BG-1", "CC")},
	{Claim{What: "BG-SP over BG-1, mean", Paper: 5.47, Authors: 5.45, Within: 0.1}, speedup("BG-SP", "BG-1")},
	{Claim{What: "BG-DGSP over BG-SP, mean", Paper: 1.20, Authors: 1.21, Within: 0.1}, speedup("BG-DGSP", "BG-SP")},
	{Claim{What: "BG-2 over BG-DGSP, mean", Paper: 1.41, Authors: 1.33, Within: 0.15}, speedup("BG-2", "BG-DGSP")},
	{Claim{What: "BG-2 over BG-1, at most", Paper: 11.6, Authors: 11.36, Within: 0.1}, most("BG-2", "BG-1")},
	{Claim{What: "BG-2 over CC, mean", Paper: 21.70, Authors: 20.98, Within: 0.1}, speedup("BG-2", "CC")},
	{Claim{What: "BG-2 over CC, at most", Paper: 27.3, Authors: 26.66, Within: 0.1}, most("BG-2", "CC")},
	{Claim{What: "targets a joule, BG-2 over BG-1, amazon", Paper: 4.25, Authors: 4.11, Within: 0.1}, onAmazon(efficiency("BG-2", "BG-1"))},
	{Claim{What: "targets a joule, BG-2 over CC, amazon", Paper: 9.86, Authors: 9.62, Within: 0.1}, onAmazon(efficiency("BG-2", "CC"))},
	{Claim{What: "watts of BG-2, amazon", Paper: 13.4, Authors: 12.1, Within: 0.1}, onAmazon(func(o map[string]*Outcome) float64 { return o["BG-2"].Watts })},
	{Claim{What: "share of BG-1's energy in its DRAM, amazon", Paper: 0.75, Authors: 0.755},
		onAmazon(dramShare)},
	{Claim{What: "share of CC's energy in PCIe and host memory, amazon", Paper: 0.57, Authors: 0.565},
		onAmazon(pcieShare)},
}

// Claims returns the published figures and the simulated ones. by has the outcomes by mode, workload and
// platform. If it lacks a workload, a platform or a mode, Claims returns nil.
func Claims(by map[Mode]map[string]map[string]*Outcome) []Claim {
	for _, m := range []Mode{Faithful, Strict} {
		for _, w := range WorkloadNames() {
			if len(by[m]) != len(workloads) || len(by[m][w]) != len(platforms) {
				return nil
			}
		}
	}
	var all []Claim
	for _, c := range claims {
		c.Faithful, c.Strict = c.of(by[Faithful]), c.of(by[Strict])
		all = append(all, c.Claim)
	}
	return all
}

// Measured has the figures of a training run on this machine, to compare with the simulation of the same
// batches.
type Measured struct {
	Run       string  `json:"run"`
	Store     string  `json:"store"`
	Engine    string  `json:"engine"`
	Epochs    int     `json:"epochs"`
	PerSecond float64 `json:"batches_per_second"` // in the median epoch
}

// Assumed is a sentence with the assumptions of simulated batches per second.
const Assumed = "the simulated drive is BeaconGNN's; its accelerator trains a model of widths --set hidden and out by vector sums, " +
	"its batches follow one another without a gap, and nothing else uses drive or host"
