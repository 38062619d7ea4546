package train

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// countMemory counts for a store with all rows, the hottest of them on the GPU.
func countMemory(tr *replay, _, near int) func(int) counted {
	rank := tr.ranks()
	return func(k int) counted {
		n := tr.single(tr.at(k), nil)
		for _, v := range tr.at(k) {
			if rank[v] < near {
				n.near++
			}
		}
		return n
	}
}

// entry is a row in a cache.
type entry struct {
	node  uint32
	frame int
	used  int
}

// online is a cache that decides access by access: a batch's hits come first, then its misses; rows of the
// batch stay.
type online struct {
	room   int
	where  map[uint32]*entry
	pinned map[*entry]bool
}

// order is the order in which rows leave.
type order interface {
	begin(c *online)
	hit(e *entry)
	insert(e *entry)
	evict() *entry // one that is not pinned, if there is one
}

func countRows(by order) recounter {
	return func(tr *replay, rows, near int) func(int) counted {
		c := &online{room: rows, where: map[uint32]*entry{}, pinned: map[*entry]bool{}}
		by.begin(c)
		return func(k int) counted {
			clear(c.pinned)
			var missed []uint32
			onGPU := int64(0)
			for _, v := range tr.at(k) {
				e := c.where[v]
				if e == nil {
					missed = append(missed, v)
					continue
				}
				by.hit(e)
				c.pinned[e] = true
				if e.frame < near {
					onGPU++
				}
			}
			for _, v := range missed {
				e := &entry{node: v, frame: len(c.where)}
				if len(c.where) == c.room {
					if len(c.pinned) == c.room {
						break
					}
					out := by.evict()
					delete(c.where, out.node)
					e.frame = out.frame
				}
				by.insert(e)
				c.where[v], c.pinned[e] = e, true
			}
			n := tr.single(tr.at(k), missed)
			n.near = onGPU
			return n
		}
	}
}

// lru evicts the row with the oldest use: the list has the newest at its end.
type lru struct {
	*online
	list []*entry
}

func (o *lru) begin(c *online) { o.online, o.list = c, nil }
func (o *lru) hit(e *entry) {
	i := slices.Index(o.list, e)
	o.list = append(slices.Delete(o.list, i, i+1), e)
}
func (o *lru) insert(e *entry) { o.list = append(o.list, e) }
func (o *lru) evict() *entry {
	e := o.list[0]
	o.list = o.list[1:]
	return e
}

// clock gives the oldest row another round if it was used.
type clock struct{ lru }

func (o *clock) hit(e *entry) { e.used = 1 }
func (o *clock) evict() *entry {
	for {
		e := o.lru.evict()
		if e.used == 0 && !o.pinned[e] {
			return e
		}
		e.used = 0
		o.insert(e)
	}
}

// sieve passes over used rows, which keep their places.
type sieve struct {
	lru
	hand int // in the list; its end: the oldest row is next
}

func (o *sieve) begin(c *online) { o.lru.begin(c); o.hand = 0 }
func (o *sieve) hit(e *entry)    { e.used = 1 }
func (o *sieve) evict() *entry {
	for {
		e := o.list[o.hand]
		if e.used == 0 && !o.pinned[e] {
			if o.list = slices.Delete(o.list, o.hand, o.hand+1); o.hand == len(o.list) {
				o.hand = 0
			}
			return e
		}
		e.used = 0
		o.hand = (o.hand + 1) % len(o.list)
	}
}

// s3fifo has a small and a main queue of rows, and a queue of evicted nodes.
type s3fifo struct {
	*online
	small, main []*entry
	ghosts      []uint32
	remembered  map[uint32]bool
}

func (o *s3fifo) begin(c *online) { *o = s3fifo{online: c, remembered: map[uint32]bool{}} }
func (o *s3fifo) hit(e *entry)    { e.used = min(e.used+1, 3) }
func (o *s3fifo) insert(e *entry) {
	if o.remembered[e.node] {
		delete(o.remembered, e.node)
		o.main = append(o.main, e)
	} else {
		o.small = append(o.small, e)
	}
}

func (o *s3fifo) evict() *entry {
	free := func(e *entry) bool { return !o.pinned[e] }
	e := o.fromSmall(o.room / 10)
	if e == nil && !slices.ContainsFunc(o.main, free) {
		e = o.fromSmall(0)
	}
	for e == nil {
		first := o.main[0]
		if o.main = o.main[1:]; first.used == 0 && free(first) {
			return first
		}
		first.used = max(first.used-1, 0)
		o.main = append(o.main, first)
	}
	return e
}

func (o *s3fifo) fromSmall(most int) *entry {
	for len(o.small) > most {
		e := o.small[0]
		if o.small = o.small[1:]; e.used > 0 || o.pinned[e] {
			e.used = 0
			o.main = append(o.main, e)
			continue
		}
		if len(o.ghosts) == o.room-o.room/10 {
			delete(o.remembered, o.ghosts[0])
			o.ghosts = o.ghosts[1:]
		}
		o.ghosts = append(o.ghosts, e.node)
		o.remembered[e.node] = true
		return e
	}
	return nil
}

// countStandby counts for gnndrive: rows of a batch stay for the next two, then they leave in the order of
// their last uses.
func countStandby(tr *replay, rows, near int) func(int) counted {
	where := map[uint32]*entry{} // used: the batch of the last use
	var standby []*entry
	return func(k int) counted {
		var missed []uint32
		onGPU := int64(0)
		for _, v := range tr.at(k) {
			e := where[v]
			if e == nil {
				missed = append(missed, v)
				continue
			}
			if e.frame < near {
				onGPU++
			}
			standby = slices.DeleteFunc(standby, func(o *entry) bool { return o == e })
		}
		for _, v := range missed {
			e := &entry{node: v, frame: len(where)}
			if len(where) == rows {
				if len(standby) == 0 || k-standby[0].used < 3 {
					continue
				}
				e.frame = standby[0].frame
				delete(where, standby[0].node)
				standby = standby[1:]
			}
			where[v] = e
		}
		for _, v := range tr.at(k) {
			if e := where[v]; e != nil {
				e.used = k
				standby = append(standby, e)
			}
		}
		n := tr.single(tr.at(k), missed)
		n.near = onGPU
		return n
	}
}

// soonest keeps the nodes with the nearest next uses among batches, the lower ids first among equals.
func soonest(held map[uint32]bool, most int, later [][]uint32) map[uint32]bool {
	next := map[uint32]int{}
	for i, b := range later {
		for _, v := range b {
			if _, known := next[v]; !known {
				next[v] = i
			}
		}
	}
	var list []uint32
	for v := range held {
		if _, used := next[v]; !used {
			next[v] = len(later)
		}
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b uint32) int { return cmp.Or(cmp.Compare(next[a], next[b]), cmp.Compare(a, b)) })
	kept := map[uint32]bool{}
	for _, v := range list[:min(most, len(list))] {
		kept[v] = true
	}
	return kept
}

// countGinex counts by Belady's policy with bypass, by superbatches that are epochs.
func countGinex(tr *replay, rows, _ int) func(int) counted {
	held := map[uint32]bool{}
	return func(k int) counted {
		at := k % len(tr.batches)
		if at%tr.perEpoch == 0 {
			clear(held)
		}
		var missed []uint32
		for _, v := range tr.at(k) {
			if !held[v] {
				missed = append(missed, v)
			}
		}
		for _, v := range missed {
			held[v] = true
		}
		held = soonest(held, rows, tr.batches[at+1:(at/tr.perEpoch+1)*tr.perEpoch])
		return tr.single(tr.at(k), missed)
	}
}

// countHyperion counts for a fixed set: the rows that save the most bytes of reads, the first of them on the
// GPU.
func countHyperion(tr *replay, rows, near int) func(int) counted {
	worth := tr.hotness()
	for v := range worth {
		worth[v] *= tr.single(nil, []uint32{uint32(v)}).bytes
	}
	place := map[uint32]int{}
	for i, v := range hottest(worth)[:rows] {
		if worth[v] > 0 {
			place[v] = i
		}
	}
	return func(k int) counted {
		var missed []uint32
		onGPU := int64(0)
		for _, v := range tr.at(k) {
			if i, in := place[v]; !in {
				missed = append(missed, v)
			} else if i < near {
				onGPU++
			}
		}
		n := tr.single(tr.at(k), missed)
		n.near = onGPU
		return n
	}
}

// countPacked counts the cold rows of a pack, which are one read of whole pages.
func countPacked(tr *replay, rows, near int) func(int) counted {
	rank := tr.ranks()
	return func(k int) counted {
		n := counted{rows: int64(len(tr.at(k)))}
		for _, v := range tr.at(k) {
			if rank[v] < rows {
				n.hits++
			}
			if rank[v] < near {
				n.near++
			}
		}
		return tr.chunk(n)
	}
}

// chunk adds the read of the rows that are no hits.
func (tr *replay) chunk(n counted) counted {
	if n.useful = (n.rows - n.hits) * tr.row; n.useful > 0 {
		n.bytes, n.requests = (n.useful+page-1)/page*page, 1
	}
	return n
}

// countMin counts by Belady's policy over the circle of the sample epochs, from the contents that the last
// batch leaves.
func countMin(tr *replay, rows, _ int) func(int) counted {
	held := map[uint32]bool{}
	step := func(k int) (hits int64) {
		at := k % len(tr.batches)
		for _, v := range tr.at(k) {
			if held[v] {
				hits++
			}
			held[v] = true
		}
		held = soonest(held, rows, append(slices.Clone(tr.batches[at+1:]), tr.batches[:at+1]...))
		return hits
	}
	for k := range 2 * len(tr.batches) {
		step(k)
	}
	return func(k int) counted { return tr.chunk(counted{rows: int64(len(tr.at(k))), hits: step(k)}) }
}

// countAgnes counts by hyperbatches: each block of 1 MiB once, with their first batch.
func countAgnes(tr *replay, rows, near int) func(int) counted {
	const block = 1 << 20
	end := 0 // of the hyperbatch
	unused := map[uint32]bool{}
	var frames []uint32 // by frame: its node
	return func(k int) counted {
		var n counted
		if k == end {
			clear(unused)
			for end < k/tr.perEpoch*tr.perEpoch+tr.perEpoch {
				both := map[uint32]bool{}
				for _, v := range tr.at(end) {
					both[v] = true
				}
				for v := range unused {
					both[v] = true
				}
				if len(both) > rows {
					break
				}
				unused = both
				end++
			}
			frames = slices.Sorted(maps.Keys(unused))
			blocks := map[int64]bool{}
			for v := range unused {
				for b := int64(v) * tr.row / block; b*block < int64(v+1)*tr.row; b++ {
					blocks[b] = true
				}
			}
			for b := range blocks {
				n.bytes += min(block, tr.table-b*block)
				n.requests++
			}
		}
		for _, v := range tr.at(k) {
			n.rows++
			if unused[v] {
				delete(unused, v)
				n.useful += tr.row
				continue
			}
			n.hits++
			if at, _ := slices.BinarySearch(frames, v); at < near {
				n.near++
			}
		}
		return n
	}
}

// countMarius counts partitions that come into the buffer: with the first batch, or as far as there is room
// in shares with the batches before.
func countMarius(tr *replay, rows, _ int) func(int) counted {
	sizes, most := make([]int64, len(tr.held[0])), int64(0)
	for _, p := range tr.of {
		sizes[p]++
		most = max(most, sizes[p])
	}
	rooms := rows / int(most)
	bytes := func(p int) int64 { return (sizes[p]*tr.row + page - 1) / page * page }
	at := func(k int) []bool { return tr.held[(k+len(tr.held))%len(tr.held)] }
	comes := func(k int) (early, late []int) { // with batch k, in the order of the file
		room := rooms
		for _, in := range at(k - 1) {
			if in {
				room--
			}
		}
		for p := range sizes {
			switch {
			case !at(k)[p] || at(k - 1)[p]:
			case len(early) < room:
				early = append(early, p)
			default:
				late = append(late, p)
			}
		}
		return early, late
	}
	var fresh map[uint32]bool
	return func(k int) counted {
		var n counted
		first, end := k+len(tr.held), k+len(tr.held)+1 // of the state, in the circle
		for slices.Equal(at(first-1), at(k)) {
			first--
		}
		for slices.Equal(at(end), at(k)) {
			end++
		}
		early, late := comes(first)
		if first == k+len(tr.held) {
			fresh = map[uint32]bool{}
			came := append(early, late...)
			for v, p := range tr.of {
				if slices.Contains(came, int(p)) {
					fresh[uint32(v)] = true
				}
			}
			for _, p := range late {
				n.bytes += bytes(p)
				n.requests++
			}
		}
		ahead := int64(0)
		next, _ := comes(end)
		for _, p := range next {
			ahead += bytes(p)
		}
		share := func(batches int) int64 { return (ahead*int64(batches)/int64(end-first) + page - 1) / page * page }
		done := k + len(tr.held) - first
		lo, hi := share(done), share(done+1)
		n.bytes += hi - lo
		for from, i := int64(0), 0; i < len(next); i++ { // pieces of partitions
			to := from + bytes(next[i])
			if max(lo, from) < min(hi, to) {
				n.requests++
			}
			from = to
		}
		for _, v := range tr.at(k) {
			n.rows++
			if fresh[v] {
				delete(fresh, v)
				n.useful += tr.row
			} else {
				n.hits++
			}
		}
		return n
	}
}

// countMapped counts pages that are touched, and dropped all together when the next row has no room.
func countMapped(percent float64) recounter {
	return func(tr *replay, _, _ int) func(int) counted {
		most := (int(math.Ceil(percent/100*float64(tr.nodes)))*int(tr.row) + page - 1) / page
		cached := map[int64]bool{}
		return func(k int) counted {
			n := counted{rows: int64(len(tr.at(k)))}
			read := map[int64]bool{} // by this batch
			for _, v := range tr.at(k) {
				first, end := tr.pages(v)
				missing := 0
				for p := first; p < end; p++ {
					if !cached[p] {
						missing++
					}
				}
				if len(cached)+missing > most {
					clear(cached)
				}
				warm := true
				for p := first; p < end; p++ {
					if !cached[p] {
						cached[p], read[p] = true, true
						n.bytes += tr.pageBytes(p)
						n.requests++
					}
					if read[p] {
						warm = false
						n.useful += min(int64(v+1)*tr.row, (p+1)*page) - max(int64(v)*tr.row, p*page)
					}
				}
				if warm {
					n.hits++
				}
			}
			return n
		}
	}
}

// central returns the nodes of the highest reverse PageRank; by the script, rank moves along the edges.
func (tr *replay) central(most int, script bool) map[uint32]bool {
	n := tr.nodes
	rank := slices.Repeat([]float64{1 / float64(n)}, n)
	for range 20 {
		sum := make([]float64, n)
		for v := range n {
			in := tr.raw.Indices[tr.raw.Indptr[v]:tr.raw.Indptr[v+1]]
			for _, u := range in {
				if script {
					sum[v] += rank[u] / max(1, float64(tr.raw.Indptr[u+1]-tr.raw.Indptr[u]))
				} else {
					sum[u] += rank[v] / float64(len(in))
				}
			}
		}
		for v := range rank {
			rank[v] = (1-.85)/float64(n) + .85*sum[v]
		}
	}
	order := make([]uint32, n)
	for v := range order {
		order[v] = uint32(v)
	}
	slices.SortStableFunc(order, func(a, b uint32) int { return cmp.Compare(rank[b], rank[a]) })
	set := map[uint32]bool{}
	for _, v := range order[:most] {
		set[v] = true
	}
	return set
}

// countGIDS counts pages in lines, which keep their pages while a batch under way or one of the next eight
// uses them.
func countGIDS(script bool, percent float64, need int) recounter {
	return func(tr *replay, _, _ int) func(int) counted {
		bytes := int64(percent/100*float64(tr.nodes)) * tr.row
		rows := min(bytes/2/tr.row, int64(tr.nodes/5))
		lines := make([]int64, 0, (bytes-rows*tr.row)/page)
		buffer := tr.central(int(rows), script)
		uses := make([]map[int64]int64, len(tr.batches)) // by page: the bytes of its rows
		for i, b := range tr.batches {
			uses[i] = map[int64]int64{}
			for _, v := range b {
				first, end := tr.pages(v)
				for p := first; p < end && !buffer[v]; p++ {
					uses[i][p] += min(int64(v+1)*tr.row, (p+1)*page) - max(int64(v)*tr.row, p*page)
				}
			}
		}
		hand, gathered, accesses, served, last := 0, 0, 0, 0, 0
		return func(k int) counted {
			n := counted{rows: int64(len(tr.at(k)))}
			before := max(2, gathered)
			wanted := func(p int64) bool {
				for b := max(0, k-before); b <= k+8; b++ {
					if uses[b%len(uses)][p] > 0 {
						return true
					}
				}
				return false
			}
			old := map[int64]bool{}
			for _, p := range lines {
				old[p] = true
			}
			var list []int64
			for p := range uses[k%len(uses)] {
				if !old[p] {
					list = append(list, p)
				}
			}
			slices.Sort(list)
			for _, p := range list {
				n.missesP++
				n.requests++
				n.bytes += tr.pageBytes(p)
				n.useful += uses[k%len(uses)][p]
				if len(lines) < cap(lines) {
					lines = append(lines, p)
					continue
				}
				for i := range lines {
					if f := (hand + i) % len(lines); !wanted(lines[f]) {
						lines[f], hand = p, (f+1)%len(lines)
						break
					}
				}
			}
			for _, v := range tr.at(k) {
				hit := true
				first, end := tr.pages(v)
				for p := first; p < end && !buffer[v]; p++ {
					n.hitsP++
					hit = hit && old[p]
				}
				if hit {
					n.hits++
				}
				if buffer[v] {
					n.buffered++
				}
			}
			n.hitsP -= n.missesP
			gathered, served = gathered+1, served+int(n.buffered)
			more := accesses+int(n.rows-n.buffered) <= need
			accesses += int(n.rows - n.buffered)
			if script {
				more = accesses+served <= need+gathered*last
			}
			if !more || gathered == 64 {
				gathered, accesses, served, last = 0, 0, 0, served
			}
			return n
		}
	}
}
