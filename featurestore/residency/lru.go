package residency

import "diskgnn/internal/binio"

// lru evicts the row with the oldest last use. The batch's rows are the newest, so the oldest row is in
// use only if all rows are.
type lru struct {
	of    *online
	queue links // last used first
}

func (l *lru) begin() {}

func (l *lru) hit(f int32) {
	l.queue.remove(f)
	l.queue.push(f)
}

func (l *lru) evict() int32 {
	f := l.queue.last
	l.queue.remove(f)
	l.of.leave(f)
	return f
}

func (l *lru) insert(f int32, _ uint32) { l.queue.push(f) }

func (l *lru) save(b []byte) []byte { return l.queue.save(b) }

func (l *lru) load(d *binio.Decoder) { l.queue.load(d, len(l.of.nodeOf)) }

func (l *lru) bytes() int64 { return l.queue.bytes() }
