package marius

import (
	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/phases"
)

// WithRooms is On with so many rooms for partitions beside the buffer.
func WithRooms(s Samples, d *dataset.Dataset, more int) (featurestore.Candidate, error) {
	return phases.New(Design(), s, d, &fixed{newDesign(s, d, s.Params()), int64(more)})
}

type fixed struct {
	*design
	more int64
}

func (f *fixed) Units() phases.Units {
	u := f.design.Units()
	u.Least += f.more
	u.Most = u.Least
	return u
}
