package comparison

import "diskgnn/train/score"

// Result is the result of a comparison.
type Result struct {
	Out     string `json:"out"`
	Dataset string `json:"dataset"`
	Samples string `json:"samples"`        // "": none were drawn ahead
	Live    bool   `json:"live,omitempty"` // batches were drawn while training
	Page    string `json:"page"`           // the file that shows all of it
	Epochs  int    `json:"epochs"`
	Rounds  int    `json:"rounds"`
	Memory  int64  `json:"memory_bytes"` // of each run
	// Seeds and Batches are the mean seed nodes and mini-batches of an epoch of training; SeedFraction is
	// Seeds over the nodes of the graph.
	Seeds        int64   `json:"seed_nodes"`
	SeedFraction float64 `json:"seed_fraction"`
	Batches      int     `json:"batches"`
	Drive        Drive   `json:"drive"`
	// Warm is the reason why the page cache was not dropped before the runs; "" if it was.
	Warm             string      `json:"warm_because,omitempty"`
	EstimatedSeconds float64     `json:"estimated_seconds"` // of reading, in all runs; without caches
	Seconds          float64     `json:"seconds"`           // of this call
	Sampling         Preparation `json:"sampling"`          // zero where samples were given
	// Checksums is the table that stores without a pack read beside single rows: see checksum.
	Checksums Preparation `json:"checksums"`
	Stores    []Store     `json:"stores"`
	// Fastest is the name of the row with the shortest epochs, "" if the runs do not decide;
	// Undecided is the reason. See judge.
	Fastest   string `json:"fastest,omitempty"`
	Undecided string `json:"undecided_because,omitempty"`

	estimates map[string]float64
}

// Preparation is the size and time of directories made before the first epoch.
type Preparation struct {
	Seconds   float64 `json:"seconds"` // of the process that finished it
	DiskBytes int64   `json:"disk_bytes"`
}

// Store is a row of the comparison. Means and medians are over the counted epochs: those after a
// run's first, which fills the caches, or the only one.
type Store struct {
	Store string `json:"store"`
	// Ablation names the removed parts; "": none.
	Ablation string `json:"ablation,omitempty"`
	Error    string `json:"error,omitempty"` // why it did not run, or not in all rounds
	Rounds   int    `json:"rounds"`          // that ended

	EstimatedSeconds float64 `json:"estimated_seconds"` // of reading and packing, in all rounds
	// Preparation is the pack's, or the table of checksums', without the preparation that all stores share.
	Preparation  Preparation `json:"preparation"`
	FirstSeconds score.Score `json:"first_epoch_seconds"`
	// EpochSeconds is the median over the rounds of RoundSeconds, each a run's median.
	EpochSeconds score.Score   `json:"epoch_seconds"`
	RoundSeconds []score.Score `json:"epoch_seconds_by_round"`

	// CacheRows is the rows that the store holds in RAM and on the GPU, or has room for in the page cache,
	// which PageCache bounds: cgroup or drop. CacheFraction is CacheRows over all rows.
	CacheRows      int64       `json:"cache_rows"`
	CacheFraction  float64     `json:"cache_fraction"`
	PageCache      string      `json:"page_cache,omitempty"`
	PreloadBytes   int64       `json:"preload_bytes"`
	BytesRead      score.Score `json:"bytes_read"`      // an epoch, mean
	UsefulBytes    score.Score `json:"useful_bytes"`    // an epoch, mean
	UsefulFraction score.Score `json:"useful_fraction"` // of BytesRead
	Requests       score.Score `json:"requests"`        // reads that were submitted in an epoch, mean
	HitRatio       score.Score `json:"hit_ratio"`       // rows that RAM or the GPU had, of all that batches took
	GPUHitRatio    score.Score `json:"gpu_hit_ratio"`   // of these, the GPU's
	RAMHitRatio    score.Score `json:"ram_hit_ratio"`   // and RAM's
	// Effective is the bytes of all rows of the batches, over the seconds of the epochs; Device is
	// the bytes read from the drive, over the time in which a read was in flight.
	Effective score.Score `json:"effective_bytes_per_second"`
	Device    score.Score `json:"device_bytes_per_second"`
	// RequestBytes is the mean size of the reads of rows. AtRequest is the drive's rate of random reads of
	// this size, as a power of two: see accessBytes. DeviceFraction is Device over AtRequest.
	RequestBytes   score.Score `json:"request_bytes"`
	AtRequest      score.Score `json:"drive_bytes_per_second_at_request"`
	DeviceFraction score.Score `json:"device_fraction"`

	Links     []Link      `json:"links"` // the stages of the pipeline, in their order
	Engine    string      `json:"engine"`
	PeakAnon  int64       `json:"peak_anon_bytes"` // of the round that held most
	Valid     score.Score `json:"valid_accuracy"`  // of the best epoch
	Test      score.Score `json:"test_accuracy"`
	Scores    []Scored    `json:"scores"`                    // of the first round
	PackPays  *int        `json:"epochs_until_packing_pays"` // null: never, or nothing to compare
	PackSaves score.Score `json:"packing_saves_seconds"`     // an epoch
	// PackUnclear says that rounds of this store and of the packed one overlap in time, so that PackPays is
	// null.
	PackUnclear bool `json:"packing_unclear,omitempty"`

	// batches is the least of a counted epoch, seconds the least sum over a round's counted epochs.
	batches int
	seconds float64
	packed  bool // it needs a pack
}

// Link is the mean seconds of a pipeline stage in an epoch.
type Link struct {
	Name    string  `json:"stage"`
	Seconds float64 `json:"seconds"` // that it would take alone
}

// Scored is the validation score after seconds of training and validation.
type Scored struct {
	Epoch   int         `json:"epoch"`
	Seconds float64     `json:"seconds"`
	Valid   score.Score `json:"valid_accuracy"`
}

// Drive is the measured rates of the dataset's drive.
type Drive struct {
	Path       string  `json:"path"` // the file that was read
	Backend    string  `json:"backend"`
	Direct     bool    `json:"direct"` // reads went around the page cache
	Sequential float64 `json:"sequential_bytes_per_second"`
	Random     float64 `json:"random_requests_per_second"` // of 4 KiB; 0 of a file that is shorter
}

// Name returns the row's name in directories and tables: the store, and the removed parts.
func (s *Store) Name() string { return rowName(s.Store, s.Ablation) }

func rowName(store, ablation string) string {
	if ablation == "" {
		return store
	}
	return store + "." + ablation
}

// Label is the row's name for people: with the method that bounds its page cache.
func (s *Store) Label() string {
	if s.PageCache == "" {
		return s.Name()
	}
	return s.Name() + " (" + s.PageCache + ")"
}

// ran returns the rows that have figures.
func (r *Result) ran() (list []*Store) {
	for i := range r.Stores {
		if r.Stores[i].Rounds > 0 {
			list = append(list, &r.Stores[i])
		}
	}
	return list
}
