package residency

import (
	"cmp"
	"maps"
	"slices"
)

// The policies once more, from their descriptions: rows are lists and maps that are searched
// from end to end, and nothing is carried along that can be counted anew.

// model decides as a Policy does.
type model interface {
	batch(nodes []uint32) (held, into []int32)
}

// newModel returns the reference of a policy.
func newModel(name string, c Config) model {
	switch name {
	case Static:
		return &staticModel{c.Set}
	case Belady:
		return newBeladyModel(c)
	case Standby:
		return &standbyModel{frames: c.Frames}
	}
	m := &onlineModel{frames: c.Frames, frameOf: map[uint32]int32{}}
	switch name {
	case LRU:
		m.queue = &lruModel{map[uint32]int{}, 0}
	case Clock:
		m.queue = &clockModel{used: map[uint32]bool{}}
	case Sieve:
		m.queue = &sieveModel{used: map[uint32]bool{}}
	case S3FIFO:
		m.queue = &s3fifoModel{frames: c.Frames, uses: map[uint32]int{}, remembered: map[uint32]bool{}}
	default:
		panic("newModel has no reference of the policy " + name)
	}
	return m
}

type staticModel struct{ set []uint32 }

func (m *staticModel) batch(nodes []uint32) (held, into []int32) {
	for _, v := range nodes {
		held, into = append(held, int32(slices.Index(m.set, v))), append(into, -1)
	}
	return held, into
}

// onlineModel serves a batch's hits, then its misses.
type onlineModel struct {
	frames  int
	frameOf map[uint32]int32
	queue   interface {
		hit(v uint32)
		insert(v uint32)
		evict(busy func(v uint32) bool) uint32
	}
}

func (m *onlineModel) batch(nodes []uint32) (held, into []int32) {
	for _, v := range nodes {
		f, ok := m.frameOf[v]
		if !ok {
			f = -1
		} else {
			m.queue.hit(v)
		}
		held, into = append(held, f), append(into, -1)
	}
	for i, v := range nodes {
		if held[i] >= 0 {
			continue
		}
		busy := func(v uint32) bool { return slices.Contains(nodes, v) }
		f := int32(len(m.frameOf))
		if len(m.frameOf) == m.frames {
			idle := slices.DeleteFunc(slices.Collect(maps.Keys(m.frameOf)), busy)
			if len(idle) == 0 {
				continue
			}
			u := m.queue.evict(busy)
			f = m.frameOf[u]
			delete(m.frameOf, u)
		}
		m.queue.insert(v)
		m.frameOf[v], into[i] = f, f
	}
	return held, into
}

// lruModel knows when every row was used.
type lruModel struct {
	last map[uint32]int
	now  int
}

func (m *lruModel) hit(v uint32)    { m.now++; m.last[v] = m.now }
func (m *lruModel) insert(v uint32) { m.hit(v) }

func (m *lruModel) evict(busy func(uint32) bool) uint32 {
	rows := slices.DeleteFunc(slices.Collect(maps.Keys(m.last)), busy)
	v := slices.MinFunc(rows, func(a, b uint32) int { return m.last[a] - m.last[b] })
	delete(m.last, v)
	return v
}

// standbyModel counts references: every batch refers to its rows until it is trained, which
// is when the third batch after it comes. Released rows wait in a list.
type standbyModel struct {
	frames  int
	rows    []uint32 // by frame
	batches [][]uint32
	list    []uint32
}

func (m *standbyModel) batch(nodes []uint32) (held, into []int32) {
	var present []uint32
	referred := func(v uint32) bool {
		return slices.ContainsFunc(append(slices.Clone(m.batches), present), func(b []uint32) bool { return slices.Contains(b, v) })
	}
	if len(m.batches) == 3 {
		trained := m.batches[0]
		m.batches = m.batches[1:]
		for _, v := range trained {
			if !referred(v) {
				m.list = append(m.list, v)
			}
		}
	}
	for _, v := range nodes {
		held, into = append(held, int32(slices.Index(m.rows, v))), append(into, -1)
		if slices.Contains(m.rows, v) {
			present = append(present, v)
		}
	}
	m.list = slices.DeleteFunc(m.list, referred)
	for i, v := range nodes {
		switch {
		case held[i] >= 0:
			continue
		case len(m.rows) < m.frames:
			m.rows = append(m.rows, v)
			into[i] = int32(len(m.rows) - 1)
		case len(m.list) > 0:
			into[i] = int32(slices.Index(m.rows, m.list[0]))
			m.rows[into[i]], m.list = v, m.list[1:]
		default:
			continue
		}
		present = append(present, v)
	}
	// Rows are released in the order of the batch's nodes.
	present = present[:0]
	for i, v := range nodes {
		if max(held[i], into[i]) >= 0 {
			present = append(present, v)
		}
	}
	m.batches = append(m.batches, present)
	return held, into
}

// clockModel is first in, first out with reinsertion.
type clockModel struct {
	queue []uint32
	used  map[uint32]bool
}

func (m *clockModel) hit(v uint32)    { m.used[v] = true }
func (m *clockModel) insert(v uint32) { m.queue = append(m.queue, v) }

func (m *clockModel) evict(busy func(uint32) bool) uint32 {
	v := m.queue[0]
	m.queue = m.queue[1:]
	if again := m.used[v] || busy(v); again {
		m.used[v] = false
		m.insert(v)
		return m.evict(busy)
	}
	return v
}

// sieveModel has a hand on a list.
type sieveModel struct {
	queue []uint32 // oldest first
	used  map[uint32]bool
	hand  int
}

func (m *sieveModel) hit(v uint32)    { m.used[v] = true }
func (m *sieveModel) insert(v uint32) { m.queue = append(m.queue, v) }

func (m *sieveModel) evict(busy func(uint32) bool) uint32 {
	v := m.queue[m.hand]
	if stays := m.used[v] || busy(v); stays {
		m.used[v] = false
		m.hand = (m.hand + 1) % len(m.queue)
		return m.evict(busy)
	}
	m.queue = slices.Delete(m.queue, m.hand, m.hand+1)
	if m.hand == len(m.queue) {
		m.hand = 0
	}
	return v
}

// s3fifoModel has three lists.
type s3fifoModel struct {
	frames             int
	small, main, ghost []uint32
	uses               map[uint32]int
	remembered         map[uint32]bool
}

func (m *s3fifoModel) hit(v uint32) { m.uses[v] = min(3, m.uses[v]+1) }

func (m *s3fifoModel) insert(v uint32) {
	m.uses[v] = 0
	if m.remembered[v] {
		m.remembered[v] = false
		m.main = append(m.main, v)
	} else {
		m.small = append(m.small, v)
	}
}

func (m *s3fifoModel) evict(busy func(uint32) bool) uint32 {
	for most := m.frames / 10; ; most = 0 {
		for len(m.small) > most {
			v := m.small[0]
			m.small = m.small[1:]
			if m.uses[v] == 0 && !busy(v) {
				if m.ghost = append(m.ghost, v); len(m.ghost) > m.frames-m.frames/10 {
					m.remembered[m.ghost[0]] = false
					m.ghost = m.ghost[1:]
				}
				m.remembered[v] = true
				return v
			}
			m.uses[v] = 0
			m.main = append(m.main, v)
		}
		if slices.ContainsFunc(m.main, func(v uint32) bool { return !busy(v) }) {
			break
		}
	}
	for {
		v := m.main[0]
		m.main = m.main[1:]
		if m.uses[v] == 0 && !busy(v) {
			return v
		}
		m.uses[v] = max(0, m.uses[v]-1)
		m.main = append(m.main, v)
	}
}

// beladyModel looks for next uses by walking on, and sorts everything at every batch.
type beladyModel struct {
	trace  [][]uint32
	at     int
	frames []uint32
}

func newBeladyModel(c Config) *beladyModel {
	m := &beladyModel{}
	for i := range c.Trace.Batches() {
		b := slices.Clone(c.Trace.Batch(i))
		m.trace = append(m.trace, b)
		for _, v := range b {
			if len(m.frames) < c.Frames && !slices.Contains(m.frames, v) {
				m.frames = append(m.frames, v)
			}
		}
	}
	return m
}

// wait returns the batches until a node is used, counted from the present one.
func (m *beladyModel) wait(v uint32) int {
	for i, b := range m.trace[m.at:] {
		if slices.Contains(b, v) {
			return i
		}
	}
	return len(m.trace)
}

func (m *beladyModel) batch(nodes []uint32) (held, into []int32) {
	for _, v := range nodes {
		held, into = append(held, int32(slices.Index(m.frames, v))), append(into, -1)
	}
	m.at++
	union := slices.Clone(m.frames)
	for i, v := range nodes {
		if held[i] < 0 {
			union = append(union, v)
		}
	}
	slices.SortFunc(union, func(a, b uint32) int {
		return cmp.Or(m.wait(a)-m.wait(b), int(a)-int(b))
	})
	keep, lost := union[:len(m.frames)], union[len(m.frames):]
	// The nearest of the rows that left leaves its frame to the first node that is kept.
	for i, v := range nodes {
		if held[i] < 0 && slices.Contains(keep, v) {
			u := slices.IndexFunc(lost, func(u uint32) bool { return slices.Contains(m.frames, u) })
			f := slices.Index(m.frames, lost[u])
			m.frames[f], into[i] = v, int32(f)
			lost = slices.Delete(slices.Clone(lost), u, u+1)
		}
	}
	return held, into
}
