package limittest

import "runtime"

// Allocated returns the bytes that f allocates, garbage included: never less than f holds at any time.
// Other goroutines must be idle. Buffers that earlier code left in a sync.Pool are dropped before, so
// that a buffer that f takes from a pool grows from nothing and not from a size that f does not choose.
func Allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC() // a pool's buffers survive one collection
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}
