package pipeline

import "time"

// Span is what a lane did for an item.
type Span struct {
	Lane          string
	Item          int
	Begin, Length time.Duration // since the recorder was made
}

// Latest returns the latest spans, at most so many, in the order in which they were recorded.
func (r *Recorder) Latest(most int) []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(most, r.count, len(r.ring))
	list := make([]Span, n)
	for i := range list {
		e := &r.ring[(r.count-n+i)%len(r.ring)]
		list[i] = Span{r.lanes[e.lane], e.item, e.begin, e.length}
	}
	return list
}
