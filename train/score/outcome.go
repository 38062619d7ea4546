package score

// Outcome says what computed with a run's weights, and what it took: the part that an
// evaluation and a prediction have in common.
type Outcome struct {
	Run     string `json:"run"`
	Engine  string `json:"engine"`
	BLAS    string `json:"blas"`
	SIMD    string `json:"simd"`
	Threads int    `json:"threads"`
	IO      string `json:"io"`
	Weights string `json:"weights"` // best or final
	// OtherGraph says that the graph is another than the one that the run was trained on.
	OtherGraph bool `json:"other_graph,omitempty"`

	Layers        []LayerCost `json:"layers,omitempty"` // where all nodes were computed, layer by layer
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
