package budget

import "runtime/debug"

// Reserve is what every stage plans for beside its buffers, in bytes: the program itself,
// Go's runtime and the garbage that its collector has not come to yet, stacks of goroutines
// and threads, open files, the bounce buffers of a storage stack. It does not grow with the
// graph, the model or the flags.
//
// TestReserve of cmd/diskgnn measures it (go test ./cmd/diskgnn -run TestReserve -v): on a
// tiny graph, where buffers are next to nothing, the commands hold 4 to 20 MiB on two cores.
// The rest is for garbage, and for machines with many cores, for each of which Go's runtime
// keeps memory.
const Reserve = 32 << 20

// DriverReserve comes on top where a GPU computes: what its driver and cuBLAS take of the
// host's memory, in bytes, once they are used.
const DriverReserve = 128 << 20

// foreignReserve is the part of the Reserve that Go's collector does not count: the
// program's data, stacks of threads, bounce buffers.
const foreignReserve = Reserve / 2

// LimitHeap makes Go's collector keep to a budget of memory bytes, of which buffers outside
// its heap take so many. What it manages has the rest, without the part of the Reserve that
// it does not count; the other part it has in any case. The returned function undoes it.
func LimitHeap(memory, outside int64) (undo func()) {
	old := debug.SetMemoryLimit(max(memory-outside, Reserve) - foreignReserve)
	return func() { debug.SetMemoryLimit(old) }
}
