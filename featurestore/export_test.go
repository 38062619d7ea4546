package featurestore

// Dim returns the width of the feature matrix.
func (sl *Slot) Dim() int { return sl.store.facts.Dim }

// Cache returns the rows that RAM holds, by slot.
func (s *Store) Cache() []byte { return s.cache.Bytes()[:s.layout.CacheRows*int64(s.facts.RowBytes)] }

// KeepIdle sets how many files are kept open that no batch reads.
func (s *Store) KeepIdle(n int) { s.files.most = n }
