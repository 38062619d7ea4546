package decide

import "fmt"

// Places where gradients of several ranks are summed, as --reduce names them.
const (
	ReduceAuto = "auto"
	ReduceNCCL = "nccl" // on the GPUs
	ReduceHost = "host" // on the host of rank 0, in the order of the batches
)

// AbleToReduce is a rank's message to rank 0 before engines are made: the library by which it can
// sum gradients on its devices, or the reason why it cannot.
type AbleToReduce struct {
	By  string `json:"by,omitempty"`
	Why string `json:"why,omitempty"` // it cannot
}

// Reduction is rank 0's decision where the ranks sum their gradients.
type Reduction struct {
	By      string `json:"by,omitempty"` // "": the host
	Why     string `json:"why,omitempty"`
	Refused bool   `json:"refused,omitempty"`
	ID      []byte `json:"id,omitempty"`
}

// Reduce decides where the ranks sum their gradients. wanted is the value of --reduce, and all has
// the ranks' messages, by rank.
func Reduce(wanted string, all []AbleToReduce) (by Reduction) {
	others := ""
	for rank, a := range all {
		if a.Why != "" {
			by = Reduction{Why: fmt.Sprintf("rank %d: %s", rank, a.Why), Refused: wanted == ReduceNCCL}
			if all[0].Why == a.Why {
				by.Why = a.Why
			}
			return by
		}
		if a.By != all[0].By {
			others = fmt.Sprintf(", rank %d has %s", rank, a.By)
		}
	}
	return Reduction{By: all[0].By + others}
}
