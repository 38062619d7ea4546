package beacon

import "slices"

// Doubt is the figure of a claim with other degree laws.
type Doubt struct {
	What   string  `json:"what"`
	Halved float64 `json:"deviation_halved"`
	More   float64 `json:"deviation_half_more"`
}

// EnergyDoubt has the figures of energy with another assumption, on amazon in faithful mode.
type EnergyDoubt struct {
	What      string   `json:"what"`
	Settings  []string `json:"settings"`
	OverCC    float64  `json:"targets_a_joule_over_cc"`  // of BG-2
	OverBG1   float64  `json:"targets_a_joule_over_bg1"` // of BG-2
	Watts     float64  `json:"watts"`                    // of BG-2
	DRAMShare float64  `json:"dram_share_of_bg1"`
	PCIeShare float64  `json:"pcie_and_host_memory_share_of_cc"`
}

// assumptions are changes of the unpublished parameters of energy, one at a time.
var assumptions = []struct {
	what string
	set  []string
}{
	{"as assumed: cores of 0.25 W, on all the time", nil},
	{"no cores, samplers, router: as the authors' simulator", []string{"energy.core=0", "energy.core_idle=0", "energy.sampler=0", "energy.router=0"}},
	{"that, and SRAM accesses without energy", []string{"energy.core=0", "energy.core_idle=0", "energy.sampler=0", "energy.router=0", "energy.sram_read=0", "energy.sram_write=0"}},
	{"cores off while they do not work", []string{"energy.core_idle=0"}},
	{"cores of 0.125 W", []string{"energy.core=0.125", "energy.core_idle=0.125"}},
	{"cores of 0.5 W", []string{"energy.core=0.5", "energy.core_idle=0.5"}},
	{"samplers of 10 mW, not 1", []string{"energy.sampler=0.01"}},
	{"1 nJ a command in the router, not 10 pJ", []string{"energy.router=1e-9"}},
	{"SRAM accesses without energy", []string{"energy.sram_read=0", "energy.sram_write=0"}},
	{"twice the leakage of the SRAM", []string{"energy.sram_busy=7.66", "energy.sram_idle=0.39"}},
}

// deviations are factors of the degree laws' deviations.
var deviations = []float64{0.5, 1.5}

// doubts returns the studies of the workloads with other deviations, then of amazon with other assumptions
// of energy. It returns none unless the options have all workloads, all platforms and both modes.
func (o *Options) doubts() (studies []Study, err error) {
	if len(o.Workloads) != len(workloads) || len(o.Platforms) != len(platforms) || len(o.Modes) != 2 {
		return nil, nil
	}
	p, err := o.params(Faithful)
	if err != nil {
		return nil, err
	}
	for _, by := range deviations {
		for _, w := range o.Workloads {
			w.Deviation *= by
			studies = append(studies, Study{Trees{w, o.Seed}, p, o.Platforms})
		}
	}
	amazon, err := FindWorkloads("amazon")
	if err != nil {
		return nil, err
	}
	compared, err := FindPlatforms("CC,BG-1,BG-2")
	if err != nil {
		return nil, err
	}
	for _, a := range assumptions {
		p, err := o.params(Faithful, a.set...)
		if err != nil {
			return nil, err
		}
		studies = append(studies, Study{Trees{amazon[0], o.Seed}, p, compared})
	}
	return studies, nil
}

// doubted computes the doubts from the outcomes of the studies of doubts.
func (o *Options) doubted(outcomes [][]Outcome) (laws []Doubt, energy []EnergyDoubt) {
	var by []map[string]map[string]*Outcome // of each deviation, by workload and platform
	for range deviations {
		all := map[string]map[string]*Outcome{}
		for i, w := range o.Workloads {
			all[w.Name] = byPlatform(outcomes[i])
		}
		by, outcomes = append(by, all), outcomes[len(o.Workloads):]
	}
	for _, c := range claims {
		laws = append(laws, Doubt{c.What, c.of(by[0]), c.of(by[1])})
	}
	for i, a := range assumptions {
		on := byPlatform(outcomes[i])
		energy = append(energy, EnergyDoubt{
			a.what, slices.Clone(a.set), efficiency("BG-2", "CC")(on), efficiency("BG-2", "BG-1")(on), on["BG-2"].Watts, dramShare(on), pcieShare(on),
		})
	}
	return laws, energy
}

func byPlatform(outcomes []Outcome) map[string]*Outcome {
	by := map[string]*Outcome{}
	for i := range outcomes {
		by[outcomes[i].Platform] = &outcomes[i]
	}
	return by
}
