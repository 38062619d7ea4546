package agnes

import (
	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/phases"
)

// WithLongest is On with hyperbatches of so many batches at most.
func WithLongest(s featurestore.Source, d *dataset.Dataset, longest int) (featurestore.Candidate, error) {
	return phases.New(Design(), s, d, &design{source: s, data: d, facts: s.Facts(), longest: longest})
}
