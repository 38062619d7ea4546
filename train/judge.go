package train

// Judge scores logits against labels as runs are judged.
type Judge struct{ scorer scorer }

// NewJudge returns a judge by a run's metric, of nodes with one class or of multi-label
// ones.
func NewJudge(metric string, multi bool) *Judge { return &Judge{newScorer(metric, multi)} }

// Add judges rows of logits, one for each label, and for each row of targets if the
// judge is of multi-label nodes. Rows of nodes without a label do not count.
func (j *Judge) Add(logits []float32, labels []int32, targets []byte) {
	j.scorer.add(logits, labels, targets)
}

// Score returns the score of everything added, and starts anew. It is undefined where
// that does not define it.
func (j *Judge) Score() Score { return j.scorer.score() }
