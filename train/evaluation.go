package train

// Evaluation is how a run's weights score, and what it took to find out.
type Evaluation struct {
	Run string `json:"run"`
	// Exact tells that every node was computed from all of its neighbours, and not
	// from the sampled ones of a pack.
	Exact   bool   `json:"exact"`
	Engine  string `json:"engine"`
	BLAS    string `json:"blas"`
	SIMD    string `json:"simd"`
	Threads int    `json:"threads"`
	IO      string `json:"io"`
	Weights string `json:"weights"` // best or final
	Metric  string `json:"metric"`
	// Packs hold no batches to score the training nodes by: theirs is undefined then.
	TrainAccuracy Score `json:"train_accuracy"`
	ValidAccuracy Score `json:"valid_accuracy"`
	TestAccuracy  Score `json:"test_accuracy"`

	Layers        []LayerCost `json:"layers,omitempty"` // of an exact evaluation
	BytesRead     int64       `json:"bytes_read"`
	BytesWritten  int64       `json:"bytes_written"` // to the scratch directory
	Memory        int64       `json:"memory_bytes"`
	Seconds       float64     `json:"seconds"`
	PeakRSSBytes  int64       `json:"peak_rss_bytes"`
	PeakAnonBytes int64       `json:"peak_anon_bytes"`
}

// LayerCost is what it took to compute one layer of all nodes.
type LayerCost struct {
	Layer  int    `json:"layer"` // from 0, the one that takes the features
	Order  string `json:"order"` // of its operations
	Nodes  int64  `json:"nodes"` // computed
	Ranges int    `json:"ranges"`
	// Sources are the rows that the layer took, counted for every range that needs
	// them.
	Sources        int64   `json:"sources"`
	Edges          int64   `json:"edges"`
	Seconds        float64 `json:"seconds"`
	ReadSeconds    float64 `json:"read_seconds"`
	ComputeSeconds float64 `json:"compute_seconds"`
	BytesRead      int64   `json:"bytes_read"`
	BytesWritten   int64   `json:"bytes_written"`
}
