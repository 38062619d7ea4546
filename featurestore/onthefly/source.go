package onthefly

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/iostack"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/gpusampler"
	"diskgnn/presample/sampler/topology"
)

// Options are the parameters of the batches, and the resources to draw them with.
type Options struct {
	Dataset string
	// Params decide the batches. Epochs is the number of the run's epochs. The order of the batches is
	// sampler.Random.
	mbfile.Params
	// AllNodes draws for all nodes of the dataset, which need no labels, in place of its splits: an epoch's batches have
	// them in ascending order, as training batches.
	AllNodes bool
	// DryEpochs is the number of epochs that the dry pass draws, from the first on. A fraction is rounded up
	// to a batch. Epochs or more, such as infinity, means all.
	DryEpochs float64
	// FirstEpochs is the original number of epochs of a run that was extended: its lineage keeps this number.
	// 0: Epochs.
	FirstEpochs int

	// Topology is the place of neighbours. Under topology.Cached, they take a quarter of Memory by default.
	Topology topology.Choice
	// Choose lets a store choose the lists of a cached topology that are held after the dry pass, if
	// Topology has no size and order: see featurestore.Lists.
	Choose bool
	// GPU counts draws in the dry pass, by which Pin chooses lists for a GPU's memory.
	GPU bool
	// IO is the kind of the storage stack that reads neighbours, and Stack opens it: see
	// topology.Options.
	IO    string
	Stack func(kind string, o iostack.Options) (iostack.Stack, string, error)

	Workers int   // goroutines of the dry pass
	Memory  int64 // limit of the process during the dry pass, in bytes
}

// Source implements featurestore.Source. Call its methods from one goroutine; loaders may draw on others.
type Source struct {
	options  Options
	data     *dataset.Dataset
	topology topology.Topology
	seeds    *sampler.Seeds

	dry         int            // training batches that the dry pass draws
	train, eval tally          // of the batches drawn
	hotness     []uint32       // by node, in the training batches drawn
	draws       []uint32       // by node: draws from its list for the training batches; nil: not counted
	chosen      int64          // bytes of the lists of HoldLists
	costs       topology.Lists // memory and reads of lists, if draws are counted
	facts       featurestore.Facts
	pinned      *pinned // nil: loaders draw on the host
}

// chooses reports whether a store chooses the lists: only if the user has not set the topology's size or
// order.
func (o *Options) chooses() bool {
	return o.Choose && o.Topology.Level == topology.Cached && o.Topology.Memory == nil && o.Topology.Order == ""
}

// counts reports whether the dry pass counts draws, by which lists are chosen.
func (o *Options) counts() bool { return o.chooses() || o.GPU }

// widest returns the largest number of in-neighbours that a draw takes, or 0 if it reads whole lists.
func (o *Options) widest() int {
	if o.Method == mbfile.Labor || slices.Contains(o.Fanout, mbfile.AllNeighbours) {
		return 0
	}
	return slices.Max(o.Fanout)
}

// pinned is a copy of the topology for a GPU, which draws the batches of all loaders from it. Windows, Inputs
// and the dry pass draw on the host, from the mapped topology.
type pinned struct {
	device   device.GPU
	room     int64 // bytes of device memory left without the loaders
	place    *gpusampler.Placement
	topology *gpusampler.Topology
}

// Close unmaps the topology.
func (s *Source) Close() error {
	if s.topology == nil {
		return nil
	}
	return s.topology.Close()
}

// Unchanged implements featurestore.Mapped. A pinned topology is a copy of the mapped one.
func (s *Source) Unchanged() error { return s.topology.Unchanged() }

// Dir returns the directory of the dataset.
func (s *Source) Dir() string { return s.data.Dir() }

// Dataset returns the dataset that batches are drawn from.
func (s *Source) Dataset() *dataset.Dataset { return s.data }

// Facts returns the counts of the batches and of the dataset's rows.
func (s *Source) Facts() featurestore.Facts { return s.facts }

// Lineage names the dataset and, in place of samples, a hash of the parameters that decide the batches
// and their ranks.
func (s *Source) Lineage() featurestore.Lineage {
	params, dry := s.options.Params, s.dry
	if first := s.options.FirstEpochs; first > 0 {
		params.Epochs, dry = first, min(dry, first*s.facts.BatchesPerEpoch)
	}
	b, _ := json.Marshal(struct { // of numbers and strings: it cannot fail
		Dataset string        `json:"dataset"`
		Live    mbfile.Params `json:"live"`
		Dry     int           `json:"dry"`
		All     bool          `json:"all,omitempty"`
	}{s.data.Fingerprint(), params, dry, s.options.AllNodes})
	return featurestore.Lineage{Dataset: s.data.Fingerprint(), Samples: binio.Hash(b)}
}

// Ranks fills rank by the hotness in the training batches that the dry pass drew.
func (s *Source) Ranks(rank []uint32) error {
	mbfile.Ranks(s.hotness, rank)
	return nil
}

// Drawn are counts of the training batches of one epoch. If the dry pass drew fewer, Batches of them, they are
// extrapolated. The JSON keys are stable.
type Drawn struct {
	Batches    int   `json:"drawn_batches"`
	SeedNodes  int64 `json:"seed_nodes"`
	InputNodes int64 `json:"input_nodes"` // rows of features that the batches take
	Edges      int64 `json:"edges"`
	// Amplification is InputNodes over the nodes of the dataset.
	Amplification float64 `json:"amplification"`
	FeatureBytes  int64   `json:"feature_bytes"` // of the rows, as the dataset has them
}

// Drawn returns counts of an epoch's training batches.
func (s *Source) Drawn() Drawn {
	drawn := min(s.dry, s.facts.BatchesPerEpoch)
	scale := float64(s.facts.BatchesPerEpoch) / float64(s.dry)
	input := int64(math.Round(float64(s.train.sum[0].src) * scale))
	return Drawn{Batches: drawn, SeedNodes: s.facts.EpochSeeds, InputNodes: input, Edges: int64(math.Round(float64(s.train.edges()) * scale)),
		Amplification: float64(input) / float64(s.facts.Nodes), FeatureBytes: input * int64(s.facts.RowBytes)}
}

// Hotness returns the hotness in the training batches that the dry pass drew.
func (s *Source) Hotness() ([]uint32, error) { return s.hotness, nil }

// RanksBytes returns the work memory of Ranks, in bytes.
func (s *Source) RanksBytes() int64 { return 12 * int64(s.dry+1) }

func (s *Source) id(r featurestore.Ref) sampler.ID {
	switch r.Split {
	case featurestore.Valid:
		return sampler.ID{Split: sampler.Valid, Index: r.Index}
	case featurestore.Test:
		return sampler.ID{Split: sampler.Test, Index: r.Index}
	}
	return s.seeds.Nth(r.Index)
}

// sizes returns the maxima and the fanout of the batches that a loader is for.
func (s *Source) sizes(eval bool) (*graph.Sizes, []int) {
	if eval {
		return &s.facts.EvalSizes, s.options.EvalFanout
	}
	return &s.facts.TrainSizes, s.options.Fanout
}

// none reports whether the source has no batches for a loader: without nodes to evaluate there are no sizes.
func (s *Source) none(eval bool) bool {
	sizes, _ := s.sizes(eval)
	return len(sizes.Src) == 0
}

// forget releases the visiting orders of epochs that no batch needs any more when a batch of the given epoch
// begins, with underWay batches in flight.
func (s *Source) forget(epoch, underWay int) {
	per := s.facts.BatchesPerEpoch
	s.seeds.Forget(epoch - (underWay+per-2)/per)
}

// label returns the name of a batch for errors.
func label(id sampler.ID) string {
	switch id.Split {
	case sampler.Valid:
		return fmt.Sprintf("validation batch %d", id.Index)
	case sampler.Test:
		return fmt.Sprintf("test batch %d", id.Index)
	}
	return fmt.Sprintf("batch %d of epoch %d", id.Index, id.Epoch)
}
