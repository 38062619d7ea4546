package train

// Judge scores logits against labels as runs are judged.
type Judge struct{ scorer scorer }

// NewJudge returns a judge by a run's metric.
func NewJudge(metric string) *Judge { return &Judge{newScorer(metric)} }

// Add judges rows of logits, one for each label. Rows of nodes without a label do not
// count.
func (j *Judge) Add(logits []float32, labels []int32) { j.scorer.add(logits, labels) }

// Score returns the score of everything added, and starts anew. It is undefined where
// that does not define it.
func (j *Judge) Score() Score { return j.scorer.score() }
