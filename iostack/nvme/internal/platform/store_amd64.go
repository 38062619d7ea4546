package platform

// store is a single move. The processor keeps the order of stores; noinline keeps the compiler from
// moving others past it, or leaving it out.
//
//go:noinline
func store(p *uint32, v uint32) { *p = v }
