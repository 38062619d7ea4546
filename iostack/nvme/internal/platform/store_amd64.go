package platform

// store is a single move. The processor keeps the order of stores; noinline prevents the compiler from
// reordering or omitting it.
//
//go:noinline
func store(p *uint32, v uint32) { *p = v }
