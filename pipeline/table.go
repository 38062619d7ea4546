package pipeline

import (
	"fmt"
	"strings"
)

// Table has the times of some items, of one Run or several, for every link.
type Table struct {
	Items   int        `json:"items"`
	Seconds float64    `json:"seconds"` // inside Run
	Links   []LinkTime `json:"stages"`
}

// LinkTime is one link's row.
type LinkTime struct {
	Link    string  `json:"stage"`
	Workers int     `json:"workers"`
	Busy    float64 `json:"busy_seconds"`    // at work, summed over the workers
	Blocked float64 `json:"blocked_seconds"` // waiting for an item or, in the first link, for a free slot
}

// Alone returns the seconds that the link would take if it never waited for another link.
func (s LinkTime) Alone() float64 { return s.Busy / float64(s.Workers) }

// Bound returns the link with the largest Alone, which is a lower bound of the chain's time. The table must
// have links.
func (t Table) Bound() LinkTime {
	slowest := t.Links[0]
	for _, s := range t.Links {
		if s.Alone() > slowest.Alone() {
			slowest = s
		}
	}
	return slowest
}

// Slowdown returns the time taken as a multiple of the bound, 0 if the bound is 0.
func (t Table) Slowdown() float64 {
	b := t.Bound().Alone()
	if b == 0 {
		return 0
	}
	return t.Seconds / b
}

// Share returns the fraction of the time in which the link was at work: 0 to 1, averaged over its workers.
func (t Table) Share(s LinkTime) float64 {
	if t.Seconds == 0 {
		return 0
	}
	return s.Alone() / t.Seconds
}

// Add adds the items and times of u. u must be a table of the same pipeline.
func (t *Table) Add(u Table) {
	t.Items += u.Items
	t.Seconds += u.Seconds
	for i := range t.Links {
		t.Links[i].Busy += u.Links[i].Busy
		t.Links[i].Blocked += u.Links[i].Blocked
	}
}

func (p *Pipeline[S]) emptyTable() Table {
	t := Table{Links: make([]LinkTime, len(p.config.Links))}
	for i, s := range p.config.Links {
		t.Links[i] = LinkTime{Link: s.Name, Workers: max(1, s.Workers)}
	}
	return t
}

// Table returns the times of the items that have left the last link since the previous call of Table.
func (p *Pipeline[S]) Table() Table {
	t := p.taken
	p.taken = p.emptyTable()
	return t
}

// finish takes an item's times when it has left the last link.
func (p *Pipeline[S]) finish(item int) {
	p.taken.Items++
	spans := p.spans[item%len(p.spans)]
	for s := range spans {
		t := &p.taken.Links[s]
		t.Busy += (spans[s].done - spans[s].begin).Seconds()
		t.Blocked += (spans[s].begin - spans[s].idle).Seconds()
	}
	if p.config.Recorder == nil {
		return
	}
	for s := range spans {
		x := &spans[s]
		p.config.Recorder.add(event{p.lanes[s][x.worker], item, p.shift + x.begin, x.done - x.begin, x.begin - x.idle})
	}
}

// addLanes gives every worker a lane in the recorder, if there is one.
func (p *Pipeline[S]) addLanes() {
	r := p.config.Recorder
	if r == nil {
		return
	}
	p.shift = p.since.Sub(r.since)
	for _, s := range p.config.Links {
		lanes := make([]Lane, max(1, s.Workers))
		for w := range lanes {
			name := strings.TrimSpace(p.config.Name + " " + s.Name)
			if len(lanes) > 1 {
				name = fmt.Sprintf("%s %d", name, w+1)
			}
			lanes[w] = r.Lane(name)
		}
		p.lanes = append(p.lanes, lanes)
	}
}
