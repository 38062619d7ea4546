package cuda

import "strings"

// pending is the names of the last few pieces of work that a stream was given since it was
// last waited for: one of them failed when something did.
type pending struct {
	names [12]string
	count int
}

func (p *pending) add(name string) {
	p.names[p.count%len(p.names)] = name
	p.count++
}

func (p *pending) clear() { p.count = 0 }

// describe lists the work, in the order in which the stream was given it.
func (p *pending) describe() string {
	if p.count == 0 {
		return "wait for the GPU"
	}
	var b strings.Builder
	b.WriteString("GPU work (")
	from := max(0, p.count-len(p.names))
	if from > 0 {
		b.WriteString("…, ")
	}
	for i := from; i < p.count; i++ {
		if i > from {
			b.WriteString(", ")
		}
		b.WriteString(p.names[i%len(p.names)])
	}
	b.WriteString(")")
	return b.String()
}
