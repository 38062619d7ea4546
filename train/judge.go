package train

// Judge scores logits against labels as runs are judged.
type Judge struct{ scorer scorer }

// NewJudge returns a judge by a run's metric, of at most so many nodes, with one class of
// so many or, multi, any number of them. It takes JudgeBytes of memory.
func NewJudge(metric string, multi bool, classes int, nodes int64) *Judge {
	return &Judge{newScorer(judging{metric, multi, classes, nodes})}
}

// JudgeBytes returns the memory of such a judge.
func JudgeBytes(metric string, multi bool, classes int, nodes int64) int64 {
	held, _ := scorerBytes(judging{metric, multi, classes, nodes})
	return held
}

// Add judges rows of logits, one for each label, and for each row of targets if the
// judge is of multi-label nodes. Rows of nodes without a label do not count.
func (j *Judge) Add(logits []float32, labels []int32, targets []byte) {
	j.scorer.add(logits, labels, targets)
}

// Score returns the score of everything added, and starts anew. It is undefined where
// that does not define it.
func (j *Judge) Score() Score { return j.scorer.score() }
