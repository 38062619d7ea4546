package iostack

// Held returns the bytes of memory that an open stack holds beyond a buffer for each read in
// flight, which every stack has: what serves the reads of drives in software, and what it keeps
// of tables. Whoever plans memory counts it.
func Held(s Stack) int64 {
	if h, ok := s.(interface{ Held() int64 }); ok {
		return h.Held()
	}
	return 0
}
