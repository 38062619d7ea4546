package hyperion

import "diskgnn/simulate/drives"

// Variant is one assumption changed.
type Variant struct {
	Name string
	Set  func(*Assumptions)
}

// Variants returns changes of each assumption, one at a time.
func Variants() []Variant {
	link := func(f float64) func(*Assumptions) {
		return func(a *Assumptions) {
			for name, l := range a.Presets.Links {
				l.Bytes = int64(f * float64(l.Bytes))
				a.Presets.Links[name] = l
			}
		}
	}
	drive := func(f func(*drives.Drive)) func(*Assumptions) {
		return func(a *Assumptions) {
			d := a.Presets.Drives["intel-p5510"]
			f(&d)
			a.Presets.Drives["intel-p5510"] = d
		}
	}
	sampling := func(f float64) func(*Assumptions) { return func(a *Assumptions) { a.SampleNano *= f } }
	return []Variant{
		{"sampling × 0.25", sampling(0.25)},
		{"sampling × 0.33", sampling(0.33)},
		{"sampling × 0.5", sampling(0.5)},
		{"sampling × 2", sampling(2)},
		{"GPU at a quarter of its rates", func(a *Assumptions) { a.Efficiency = 0.25 }},
		{"GPU at its full rates", func(a *Assumptions) { a.Efficiency = 1 }},
		{"products in TF32", func(a *Assumptions) {
			a.GPUs = map[string]GPU{"a": {156e12, 1.935e12}, "b": {378e12, 2e12}}
		}},
		{"I/O kernels take 30 % of the GPU", func(a *Assumptions) { a.Taken = 0.3 }},
		{"hottest fifth gets 60 %", func(a *Assumptions) { a.TopShare = 0.6 }},
		{"hottest fifth gets 80 %", func(a *Assumptions) { a.TopShare = 0.8 }},
		{"GPU cache 20 GB", func(a *Assumptions) { a.GPUCache = 20e9 }},
		{"GPU cache 60 GB", func(a *Assumptions) { a.GPUCache = 60e9 }},
		{"128 GB of RAM not for caches", func(a *Assumptions) { a.Reserve = 128e9 }},
		{"GIDS: 20 % of every table in RAM", func(a *Assumptions) { a.GIDSWhole = false }},
		{"GIDS: nothing in RAM", func(a *Assumptions) { a.GIDSWhole, a.GIDSBuffer = false, 0 }},
		{"GIDS: GPU cache 32 GiB", func(a *Assumptions) { a.GIDSCache = 32 << 30 }},
		{"GIDS: no window", func(a *Assumptions) { a.GIDSWindow = 0 }},
		{"P5510: requests/s × 1.33", drive(func(d *drives.Drive) { d.Requests = d.Requests * 133 / 100 })},
		{"P5510: requests/s × 0.75", drive(func(d *drives.Drive) { d.Requests = d.Requests * 3 / 4 })},
		{"P5510: pages at its rate in sequence", drive(func(d *drives.Drive) { d.Requests = d.Bytes / drives.Page })},
		{"P5510: latency × 2", drive(func(d *drives.Drive) { d.LatencyMicros *= 2 })},
		{"links × 0.8", link(0.8)},
		{"links × 1.1", link(1.1)},
		{"Hyperion reads pages of 4 KiB", func(a *Assumptions) { a.Smallest = 4096 }},
		{"2 batches under way", func(a *Assumptions) { a.Slots = 2 }},
		{"last layer has 19 values", func(a *Assumptions) { a.Classes = 19 }},
		{"scale 500", func(a *Assumptions) { a.Scale = 500 }},
	}
}
