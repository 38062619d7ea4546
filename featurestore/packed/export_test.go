package packed

// Dim returns the width of the feature matrix.
func (sl *Slot) Dim() int { return sl.src.facts.Dim }

// Cache returns the rows that RAM holds, by slot.
func (s *Store) Cache() []byte {
	h := s.sink.(*host)
	return h.mem.Bytes()[:h.end*int64(s.src.facts.RowBytes)]
}

// KeepIdle sets how many files are kept open that no batch reads.
func (s *Store) KeepIdle(n int) { s.src.files.most = n }

// PlanRoom returns the room of the lists of the slot's plan.
func (sl *Slot) PlanRoom() []int {
	return []int{cap(sl.plan.SSD), cap(sl.plan.Hits), cap(sl.plan.Admit)}
}
