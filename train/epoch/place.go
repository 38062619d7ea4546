package epoch

import (
	"fmt"

	"diskgnn/internal/units"
	"diskgnn/pipeline"
)

// Place says where the batches of a pipeline are at a moment, and for which rank the replica waits.
type Place struct {
	Pipeline string            `json:"pipeline"`
	Batches  pipeline.Standing `json:"batches"`
	Reads    int               `json:"reads_under_way,omitempty"` // device reads of the stack, for all pipelines of a run
	Rank     *int              `json:"waits_for_rank,omitempty"`  // nil: the replica waits for no rank
}

// String describes the place in a clause.
func (p Place) String() string {
	text := p.Pipeline + ": " + p.Batches.String()
	if p.Reads > 0 {
		text += fmt.Sprintf("; %s under way", units.Of(p.Reads, "read"))
	}
	if p.Rank != nil {
		text += fmt.Sprintf("; it waits for rank %d", *p.Rank)
	}
	return text
}
