package platform

// store is a single move. The processor keeps the order of stores; that the compiler does not
// move others past it, or leave it out, is what noinline sees to.
//
//go:noinline
func store(p *uint32, v uint32) { *p = v }
