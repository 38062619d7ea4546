package packed

// Dim returns the width of the feature matrix.
func (sl *Slot) Dim() int { return sl.store.facts.Dim }

// Cache returns the rows that RAM holds, by slot.
func (s *Store) Cache() []byte { return s.cache.Bytes()[:s.layout.CacheRows*int64(s.facts.RowBytes)] }

// KeepIdle sets how many files are kept open that no batch reads.
func (s *Store) KeepIdle(n int) { s.files.most = n }

// PlanRoom returns the room of the lists of the slot's plan.
func (sl *Slot) PlanRoom() []int {
	return []int{cap(sl.plan.SSD), cap(sl.plan.Hits), cap(sl.plan.Admit)}
}
