package beacon

// Measured is a training run on this machine, which stands beside what is simulated of the
// same batches.
type Measured struct {
	Run       string  `json:"run"`
	Store     string  `json:"store"`
	Engine    string  `json:"engine"`
	Epochs    int     `json:"epochs"`
	PerSecond float64 `json:"batches_per_second"` // of the median epoch
}

// Assumed is what a simulated batch per second takes for granted.
const Assumed = "the simulated drive is BeaconGNN's; its accelerator trains a model of widths --set hidden and out by vector sums, " +
	"its batches follow one another without a gap, and nothing else uses drive or host"
