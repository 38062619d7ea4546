package cpu

// Logits returns the logits of the batch's seed nodes, row-major, a column per
// class, as the last Step computed them: with dropout, and with the weights from
// before it. in must be that step's input. They are the engine's own memory, valid
// until its next step.
func (e *Engine) Logits(in *Input) []float32 {
	last := e.net.last()
	return last.data[:in.Prepared.Batch().NumSeeds()*last.width]
}
