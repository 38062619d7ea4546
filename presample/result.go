package presample

// Result is the result of Run; for a shard, of this shard. The JSON keys are stable.
type Result struct {
	Out         string `json:"out"`
	Fingerprint string `json:"fingerprint"`
	State       string `json:"state"` // new, resumed, or done: nothing had to be done

	Batches      int `json:"batches"` // all
	Epochs       int `json:"epochs"`
	TrainBatches int `json:"train_batches"` // of all epochs
	ValidBatches int `json:"valid_batches"`
	TestBatches  int `json:"test_batches"`
	// The next three are sums over all batches.
	SeedNodes  int64 `json:"seed_nodes"`
	InputNodes int64 `json:"input_nodes"`
	Edges      int64 `json:"edges"`

	Workers int    `json:"workers"` // goroutines that began the first remaining phase
	Table   string `json:"table"`   // the table that numbered nodes: array or hash
	Resumed int    `json:"resumed_batches"`

	Seconds       float64 `json:"seconds"`        // in all
	VerifySeconds float64 `json:"verify_seconds"` // reading and checking the dataset
	SampleSeconds float64 `json:"sample_seconds"` // sampling and writing until all is durable
	// Rates of this run's sampling and writing, over SampleSeconds.
	EdgesPerSecond   float64 `json:"edges_per_second"`
	BatchesPerSecond float64 `json:"batches_per_second"`

	// Topology is topology.Mapped or topology.Cached. If it is cached, the next fields are the bytes
	// of held neighbours, the bytes and requests of reads of others, and the numbers of destinations
	// with held neighbours and with neighbours that were read.
	Topology         string `json:"topology"`
	TopologyMemory   int64  `json:"topology_memory_bytes"`
	TopologyRead     int64  `json:"topology_bytes_read"`
	TopologyRequests int64  `json:"topology_requests"`
	TopologyHeld     int64  `json:"topology_held"`
	TopologyMissed   int64  `json:"topology_missed"`

	BytesWritten int64 `json:"bytes_written"` // by this run
	DiskBytes    int64 `json:"disk_bytes"`    // of the directory's files
	FeatureBytes int64 `json:"feature_bytes"` // of the dataset's features, uncompressed
	PeakRSS      int64 `json:"peak_rss_bytes"`
	PeakAnon     int64 `json:"peak_anon_bytes"`
}

// runFacts is the content of run.json.
type runFacts struct {
	Host    string  `json:"host"`
	Started string  `json:"started"`
	Version string  `json:"version"`
	Go      string  `json:"go"`
	Workers int     `json:"workers"`
	Memory  int64   `json:"memory_bytes"`
	Table   string  `json:"table"`
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"edges_per_second"`
}
