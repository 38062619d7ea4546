package pipeline

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"diskgnn/internal/units"
)

// board has the places of a pipeline's items, for observers on other goroutines. Each field has one writer
// at a time.
type board struct {
	asked, left atomic.Int64 // items that calls of Run have admitted; that have left the last link
	moved       atomic.Int64 // the time when an item last entered or left a link, in ns of the pipeline's clock
	links       []linkBoard
}

type linkBoard struct {
	begun atomic.Int64 // items that the link has taken, in order
	posts []post       // by worker
}

// post is a worker at its work.
type post struct {
	item  atomic.Int64 // 1 + its number; 0: the worker waits
	since atomic.Int64 // when it entered the link
}

// enter notes that a worker begins to work on an item.
func (b *board) enter(w *worker, item int, at time.Duration) {
	p := &b.links[w.link].posts[w.index]
	p.since.Store(int64(at))
	p.item.Store(int64(item) + 1)
	b.moved.Store(int64(at))
}

// leave notes that a worker's item has left the link.
func (b *board) leave(w *worker, at time.Duration) {
	b.links[w.link].posts[w.index].item.Store(0)
	b.moved.Store(int64(at))
}

// Standing is the places of a pipeline's items at a moment. While items move, its parts may be of
// slightly different moments.
type Standing struct {
	Asked int            `json:"asked"` // items that calls of Run have asked for
	Left  int            `json:"left"`  // items that have left the last link
	Links []LinkStanding `json:"stages"`
}

// LinkStanding is the state of a link: at work on items, or waiting for one, or without any to come.
type LinkStanding struct {
	Link    string  `json:"stage"`
	Working int     `json:"working"`             // items at work
	Oldest  string  `json:"oldest,omitempty"`    // the first of them, by its label
	Seconds float64 `json:"seconds,omitempty"`   // for which the oldest has been at work
	Waits   string  `json:"waits_for,omitempty"` // the link with the next item, or Slot; "" if items are at work or none comes
}

// Slot is the value of LinkStanding.Waits in a link that waits for a free slot.
const Slot = "a free slot"

// Moved returns the time when an item last entered or left a link, or the pipeline's start before the first.
// It may be called from any goroutine, at any time.
func (p *Pipeline[S]) Moved() time.Time { return p.since.Add(time.Duration(p.board.moved.Load())) }

// Standing returns the places of the items now. It may be called from any goroutine, at any time; so may
// Config.Label, which it calls.
func (p *Pipeline[S]) Standing() Standing {
	s := Standing{Asked: int(p.board.asked.Load()), Left: int(p.board.left.Load())}
	now := p.now()
	for i := range p.board.links {
		l := LinkStanding{Link: p.config.Links[i].Name}
		if item, since, n := p.board.links[i].oldest(); n > 0 {
			l.Working, l.Oldest, l.Seconds = n, labelOf(p.config.Label, item), (now - since).Seconds()
		} else if next := p.board.links[i].begun.Load(); next < int64(s.Asked) {
			l.Waits = p.holder(i, next)
		}
		s.Links = append(s.Links, l)
	}
	return s
}

// oldest returns the first of the items at work in a link, the time since when, and their number n.
func (l *linkBoard) oldest() (item int, since time.Duration, n int) {
	for i := range l.posts {
		at := int(l.posts[i].item.Load()) - 1
		if at < 0 {
			continue
		}
		if n++; n == 1 || at < item {
			item, since = at, time.Duration(l.posts[i].since.Load())
		}
	}
	return item, since, n
}

// holder names the place of an item that a link waits for: the last link that has taken it.
func (p *Pipeline[S]) holder(link int, item int64) string {
	if link == 0 {
		return Slot
	}
	for link--; link > 0 && p.board.links[link].begun.Load() <= item; link-- {
	}
	return p.config.Links[link].Name
}

// String describes the links in a clause. Links without items to come are left out:
//
//	read features is at item 7 for 1 min 2 s; load graph waits for a free slot; assemble and compute wait for read features
func (s Standing) String() string {
	var parts []string
	for _, l := range s.Links {
		if l.Working == 0 {
			continue
		}
		part := fmt.Sprintf("%s is at %s for %s", l.Link, l.Oldest, units.Seconds(l.Seconds))
		if l.Working > 1 {
			part += fmt.Sprintf(", and at %d more", l.Working-1)
		}
		parts = append(parts, part)
	}
	for i := 0; i < len(s.Links); {
		waits, names := s.Links[i].Waits, []string{s.Links[i].Link}
		for i++; i < len(s.Links) && s.Links[i].Waits == waits; i++ {
			names = append(names, s.Links[i].Link)
		}
		if waits == "" {
			continue
		}
		verb := "waits"
		if last := len(names) - 1; last > 0 {
			verb, names = "wait", []string{strings.Join(names[:last], ", ") + " and " + names[last]}
		}
		parts = append(parts, names[0]+" "+verb+" for "+waits)
	}
	if len(parts) == 0 {
		return "no batch is under way"
	}
	return strings.Join(parts, "; ")
}
