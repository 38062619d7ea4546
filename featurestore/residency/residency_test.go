package residency

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/fault"
	"diskgnn/internal/rng"
)

// config returns what policies need for a trace; static holds the most used nodes.
func config(nodes, frames int, batches [][]uint32) Config {
	c := Config{Nodes: nodes, Frames: frames, Trace: Trace{Start: []int64{0}}}
	uses := make([]int, nodes)
	for _, b := range batches {
		c.Trace.Nodes = append(c.Trace.Nodes, b...)
		c.Trace.Start = append(c.Trace.Start, int64(len(c.Trace.Nodes)))
		for _, v := range b {
			uses[v]++
		}
	}
	c.Trace.Start = slices.Clip(c.Trace.Start)
	c.Set = Top(uses, frames)
	return c
}

// clone returns a Config whose trace another policy may take.
func clone(c Config) Config {
	c.Trace.Nodes = slices.Clone(c.Trace.Nodes)
	return c
}

func newPolicy(t testing.TB, name string, c Config) Policy {
	t.Helper()
	p, err := New(name, clone(c))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// letters are the nodes of batches that are written as words.
func letters(trace string) (batches [][]uint32) {
	for word := range strings.FieldsSeq(trace) {
		var b []uint32
		for _, r := range word {
			b = append(b, uint32(r-'a'))
		}
		batches = append(batches, b)
	}
	return batches
}

// TestByHand gives three frames to the nodes a to e, one by one.
//
//	lru     a's use before d lets b go for d, then c for e and d for b. d then takes a's frame,
//	        c takes e's, b is a hit, and e takes d's.
//	standby as lru: three frames are as many as batches in use, of one row each.
//	clock   d: the hand passes a, which was used, and stops at b. e takes c's, the next. b: the
//	        hand passes a, used again, and stops at d. d takes e's, c takes a's, which was
//	        not used since, b is a hit, e: the hand passes b and stops at d.
//	sieve   as clock until b takes d's. The hand goes on to newer rows: d takes e's, c takes
//	        b's, b takes d's, e takes c's. It never comes back to a.
//	s3fifo  d: a was used and goes to main, b leaves. c and d leave for e and b; b, then d for
//	        which e leaves, then c are remembered and go to main. For c main's first row a was
//	        used and goes round; b leaves. Main's rows leave unremembered: b is new again and
//	        takes d's, and as the first of small leaves at once for e, which is remembered.
//	belady  begins with a, b and c. d (again at 8) replaces c (9), e (11) replaces a (never).
//	        At 9, c and d are never used again: the lower node, c, stays.
//	static  holds a and b, used three times, and c, used twice as d and e are.
func TestByHand(t *testing.T) {
	const trace = "a b c a d a e b d c b e"
	for _, test := range []struct{ name, into, held, rows string }{
		{LRU, "0 1 2 . 1 . 2 1 0 2 . 0", ". . . 0 . 0 . . . . 1 .", "ebc"},
		{Clock, "0 1 2 . 1 . 2 1 2 0 . 2", ". . . 0 . 0 . . . . 1 .", "cbe"},
		{Sieve, "0 1 2 . 1 . 2 1 2 1 2 1", ". . . 0 . 0 . . . . . .", "aeb"},
		{S3FIFO, "0 1 2 . 1 . 2 1 2 1 2 2", ". . . 0 . 0 . . . . . .", "ace"},
		{Standby, "0 1 2 . 1 . 2 1 0 2 . 0", ". . . 0 . 0 . . . . 1 .", "ebc"},
		{Belady, ". . . . 2 . 0 . . 2 . .", "0 1 2 0 . 0 . 1 2 . 1 0", "ebc"},
		{Static, ". . . . . . . . . . . .", "0 1 2 0 . 0 . 1 . 2 1 .", "abc"},
	} {
		batches := letters(trace)
		p := newPolicy(t, test.name, config(5, 3, batches))
		var held, into []string
		for _, b := range batches {
			h, n := []int32{9}, []int32{9}
			p.Batch(b, h, n)
			held, into = append(held, frame(h[0])), append(into, frame(n[0]))
		}
		if got := strings.Join(into, " "); got != test.into {
			t.Errorf("%s puts rows into %s, want %s", test.name, got, test.into)
		}
		if got := strings.Join(held, " "); got != test.held {
			t.Errorf("%s holds %s, want %s", test.name, got, test.held)
		}
		if want := letters(test.rows)[0]; !slices.Equal(p.Rows(), want) {
			t.Errorf("%s ends with %v, want %v", test.name, p.Rows(), want)
		}
	}
}

func frame(f int32) string {
	if f == Absent {
		return "."
	}
	return fmt.Sprint(f)
}

// TestInUse: rows that the batch uses stay, and what finds no other frame passes by. A
// row that a miss of the same batch could have evicted is a hit, wherever it stands.
func TestInUse(t *testing.T) {
	for _, name := range Online() {
		p := newPolicy(t, name, Config{Nodes: 5, Frames: 2})
		held, into := make([]int32, 5), make([]int32, 5)
		for _, step := range []struct {
			batch      string
			held, into []int32
		}{
			{"abc", []int32{-1, -1, -1}, []int32{0, 1, -1}},
			{"cdba", []int32{-1, -1, 1, 0}, []int32{-1, -1, -1, -1}},
			{"ca", []int32{-1, 0}, []int32{1, -1}},
			{"", nil, nil},
		} {
			var b []uint32
			if step.batch != "" {
				b = letters(step.batch)[0]
			}
			p.Batch(b, held, into)
			if !slices.Equal(held[:len(b)], step.held) || !slices.Equal(into[:len(b)], step.into) {
				t.Errorf("%s, %s: held %v, into %v", name, step.batch, held[:len(b)], into[:len(b)])
			}
		}
	}
}

// TestS3FIFOMainInUse: rows that a batch uses fill the main queue. The small one is not longer
// than a tenth of the frames, but has the only row that can leave.
func TestS3FIFOMainInUse(t *testing.T) {
	for _, test := range []struct {
		before []uint32 // one by one, after nodes 0 to 9
		batch  []uint32
		into   []int32 // of the last nodes
	}{
		// The row of 9 is in the small queue.
		{nil, []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8, 10}, []int32{9}},
		// Those of 10 and 11 are. 0, which is remembered, joins the main queue in place of 10.
		{[]uint32{10, 11}, []uint32{2, 3, 4, 5, 6, 7, 8, 9, 0, 1}, []int32{0, 1}},
	} {
		p := newPolicy(t, S3FIFO, Config{Nodes: 12, Frames: 10})
		held, into := make([]int32, 10), make([]int32, 10)
		p.Batch([]uint32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, held, into)
		for _, v := range test.before {
			p.Batch([]uint32{v}, held, into)
		}
		p.Batch(test.batch, held, into)
		hits := len(into) - len(test.into)
		if slices.Contains(held[:hits], Absent) || slices.Max(held[hits:]) != Absent || !slices.Equal(into[hits:], test.into) {
			t.Errorf("%v: held %v, into %v", test.batch, held, into)
		}
	}
}

// drawn is a trace of few nodes, some of them used often.
func drawn(t *rapid.T, mostNodes, mostBatches, mostFrames int) (Config, [][]uint32) {
	upTo := func(what string, low, high int) int { // as often large as small
		return rapid.OneOf(rapid.IntRange(low, high), rapid.SampledFrom([]int{low, (low + high) / 4, (low + high) / 2, high})).Draw(t, what)
	}
	nodes := upTo("nodes", 2, mostNodes)
	frames := upTo("frames", 0, mostFrames)
	often := rapid.Uint32Range(1, uint32(nodes)).Draw(t, "nodes used often")
	size := upTo("most accesses of a batch", 1, nodes)
	src := rng.New(rapid.Uint64().Draw(t, "seed"))
	batches := make([][]uint32, upTo("batches", 0, mostBatches))
	for i := range batches {
		for range src.Uint32n(uint32(size) + 1) {
			v := src.Uint32n(uint32(nodes))
			if src.Uint32n(2) == 0 {
				v %= often
			}
			if !slices.Contains(batches[i], v) {
				batches[i] = append(batches[i], v)
			}
		}
	}
	return config(nodes, frames, batches), batches
}

// cache replays a policy's decisions, and checks that they make sense.
type cache struct {
	policy     Policy
	swaps      bool // rows in use may be replaced
	nodes      []uint32
	held, into []int32
	hits       int
	misses     int
}

func replay(p Policy, name string, nodes int) *cache {
	return &cache{policy: p, swaps: name == Belady, nodes: slices.Clone(p.Rows()), held: make([]int32, nodes), into: make([]int32, nodes)}
}

func (c *cache) batch(t interface{ Fatalf(string, ...any) }, b []uint32, frames int) (held, into []int32) {
	held, into = c.held[:len(b)], c.into[:len(b)]
	c.policy.Batch(b, held, into)
	before := slices.Clone(c.nodes)
	var taken []int32
	for i, v := range b {
		switch f := held[i]; {
		case f == Absent:
			c.misses++
			if slices.Contains(before, v) {
				t.Fatalf("node %d is in the cache, and a miss", v)
			}
		case into[i] != Absent || int(f) >= len(before) || before[f] != v:
			t.Fatalf("node %d is in frame %d of %v, and goes into %d", v, f, before, into[i])
		default:
			c.hits++
		}
		f := into[i]
		if f == Absent {
			continue
		}
		if f < 0 || int(f) >= frames || int(f) > len(c.nodes) || slices.Contains(taken, f) || !c.swaps && slices.Contains(held, f) {
			t.Fatalf("node %d goes into frame %d of %d; held %v, into %v", v, f, frames, held, into)
		}
		if taken = append(taken, f); int(f) == len(c.nodes) {
			c.nodes = append(c.nodes, v)
		} else {
			c.nodes[f] = v
		}
	}
	if !slices.Equal(c.nodes, c.policy.Rows()) {
		t.Fatalf("rows %v, decisions lead to %v", c.policy.Rows(), c.nodes)
	}
	if rows := slices.Compact(slices.Sorted(slices.Values(c.nodes))); len(rows) != len(c.nodes) {
		t.Fatalf("a row twice among %v", c.nodes)
	}
	return held, into
}

// TestModels compares every decision with the references, through a state saved and loaded
// after any batch, into a policy that has been elsewhere. It also counts: hits and misses are
// all accesses, and Belady's policy has the fewest misses, as many as the offline count.
func TestModels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, batches := drawn(t, 60, 60, 40)
		misses := map[string]int{}
		for _, name := range Names() {
			p, err := New(name, clone(c))
			if err != nil {
				t.Fatal(err)
			}
			m, run := newModel(name, c), replay(p, name, c.Nodes)
			save := rapid.IntRange(0, len(batches)).Draw(t, "batches before "+name+" is saved")
			for i, b := range batches {
				if i == save {
					run.policy = reloaded(t, name, c, p, batches[:rapid.IntRange(0, len(batches)).Draw(t, "elsewhere")])
				}
				held, into := run.batch(t, b, c.Frames)
				wantHeld, wantInto := m.batch(b)
				if !slices.Equal(held, wantHeld) || !slices.Equal(into, wantInto) {
					t.Fatalf("%s, batch %d: held %v, want %v; into %v, want %v", name, i, held, wantHeld, into, wantInto)
				}
			}
			if save == len(batches) {
				reloaded(t, name, c, p, nil)
			}
			if run.hits+run.misses != len(c.Trace.Nodes) {
				t.Fatalf("%s: %d hits and %d misses of %d accesses", name, run.hits, run.misses, len(c.Trace.Nodes))
			}
			misses[name] = run.misses
		}
		for name, n := range misses {
			if n < misses[Belady] {
				t.Errorf("%s has %d misses, %s %d", name, n, Belady, misses[Belady])
			}
		}
	})
}

// reloaded returns a policy that has served other batches and then loads the state of p.
func reloaded(t *rapid.T, name string, c Config, p Policy, elsewhere [][]uint32) Policy {
	q, err := New(name, clone(c))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range elsewhere {
		q.Batch(b, make([]int32, len(b)), make([]int32, len(b)))
	}
	state := p.State()
	if err := q.LoadState(state); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(q.State(), state) || !slices.Equal(q.Rows(), p.Rows()) {
		t.Fatalf("%s: loading changed the state", name)
	}
	return q
}

// fewestMisses tries every way to run a cache: any rows to begin with, and after each batch
// any of the rows before and the batch's. Sets of nodes are bits.
func fewestMisses(batches [][]uint32, nodes, frames int) int {
	misses := map[uint]int{}
	for s := range uint(1) << nodes {
		if bits.OnesCount(s) <= frames {
			misses[s] = 0
		}
	}
	for _, b := range batches {
		var used uint
		for _, v := range b {
			used |= 1 << v
		}
		after := map[uint]int{}
		for s, n := range misses {
			n += bits.OnesCount(used &^ s)
			for all, sub := s|used, s|used; ; sub = (sub - 1) & all {
				if m, ok := after[sub]; bits.OnesCount(sub) <= frames && (!ok || n < m) {
					after[sub] = n
				}
				if sub == 0 {
					break
				}
			}
		}
		misses = after
	}
	best := -1
	for _, n := range misses {
		if best < 0 || n < best {
			best = n
		}
	}
	return best
}

func TestBeladyIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, batches := drawn(t, 5, 8, 4)
		p, err := New(Belady, clone(c))
		if err != nil {
			t.Fatal(err)
		}
		run := replay(p, Belady, c.Nodes)
		for _, b := range batches {
			run.batch(t, b, c.Frames)
		}
		if want := fewestMisses(batches, c.Nodes, c.Frames); run.misses != want {
			t.Errorf("%d misses, there can be %d", run.misses, want)
		}
	})
}

// TestBeladyOrder: the nodes of a batch may come in any order, and equal keys at the threshold
// go to the lowest ids. All next uses are never, or the next batch.
func TestBeladyOrder(t *testing.T) {
	p := newPolicy(t, Belady, config(6, 2, [][]uint32{{5, 4}, {3, 1, 2}, {2, 3, 1}, {0}}))
	if !slices.Equal(p.Rows(), []uint32{5, 4}) {
		t.Fatalf("begins with %v", p.Rows())
	}
	held, into := make([]int32, 3), make([]int32, 3)
	for i, step := range []struct {
		batch      []uint32
		held, into []int32
	}{
		{[]uint32{4, 5}, []int32{1, 0}, []int32{-1, -1}},
		{[]uint32{3, 2, 1}, []int32{-1, -1, -1}, []int32{-1, 1, 0}}, // 5 leaves first, 4 last
		{[]uint32{1, 2, 3}, []int32{0, 1, -1}, []int32{-1, -1, -1}},
		{[]uint32{0}, []int32{-1}, []int32{1}}, // of 0, 1 and 2 the highest leaves
	} {
		p.Batch(step.batch, held, into)
		n := len(step.batch)
		if !slices.Equal(held[:n], step.held) || !slices.Equal(into[:n], step.into) {
			t.Errorf("batch %d: held %v, into %v", i, held[:n], into[:n])
		}
	}
}

// TestBeladyRefusesOtherBatches: what is not the trace's next batch is a bug of the caller's.
func TestBeladyRefusesOtherBatches(t *testing.T) {
	for name, batches := range map[string]string{"a node": "a", "an order": "cd", "too few": "c", "one twice": "ab dd", "the end": "ab cd ab"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			p := newPolicy(t, Belady, config(4, 2, letters("ab cd")))
			for _, b := range letters(batches) {
				p.Batch(b, make([]int32, 2), make([]int32, 2))
			}
		}()
	}
}

func TestTop(t *testing.T) {
	if got := Top([]float64{1, 3, 3, 0, 2}, 3); !slices.Equal(got, []uint32{1, 2, 4}) {
		t.Errorf("the highest scores are those of %v", got)
	}
	if got := Top([]uint32{7, 7}, 9); !slices.Equal(got, []uint32{0, 1}) || cap(got) > 2 {
		t.Errorf("of two nodes %v, room for %d", got, cap(got))
	}
}

func TestKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int64{1, 2, 63, 64, 65, 4096, 4097, 300_000}).Draw(t, "n")
		k, members := newKeys(n), map[uint32]bool{}
		if k.bytes() != keysBytes(n) {
			t.Fatalf("%d bytes, want %d", k.bytes(), keysBytes(n))
		}
		src := rng.New(rapid.Uint64().Draw(t, "seed"))
		for range 100 {
			x := src.Uint32n(uint32(n)) >> src.Uint32n(8)
			if members[x] != k.has(x) {
				t.Fatalf("has(%d) is %t", x, k.has(x))
			}
			if members[x] {
				k.remove(x)
				delete(members, x)
			} else {
				k.add(x)
				members[x] = true
			}
			most := -1
			for x := range members {
				most = max(most, int(x))
			}
			if most >= 0 && int(k.largest()) != most {
				t.Fatalf("the largest is %d, want %d", k.largest(), most)
			}
		}
	})
}

// TestBytes counts the memory of every slice that a policy reaches, before and after use.
func TestBytes(t *testing.T) {
	batches := [][]uint32{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {50, 51}, {12, 13, 14, 15, 16, 17, 18, 19}, {1, 50}}
	for _, frames := range []int{0, 1, 9, 10, 57} {
		c := config(70, frames, batches)
		size := Size{c.Nodes, c.Frames, int64(c.Trace.Batches()), int64(len(c.Trace.Nodes))}
		for _, name := range Names() {
			p := newPolicy(t, name, c)
			for i := range 2 {
				want := sliceBytes(reflect.ValueOf(p), map[uintptr]bool{})
				if p.Bytes() != want || size.Bytes(name) != want {
					t.Errorf("%s of %d frames, %d: holds %d bytes, says %d, foresees %d", name, frames, i, want, p.Bytes(), size.Bytes(name))
				}
				for _, b := range batches[2*i : 2*i+2] {
					p.Batch(b, make([]int32, 12), make([]int32, 12))
				}
			}
		}
	}
}

// sliceBytes adds up what slices have room for, but for the headers of slices of slices.
func sliceBytes(v reflect.Value, seen map[uintptr]bool) (n int64) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && !seen[v.Pointer()] {
			seen[v.Pointer()] = true
			return sliceBytes(v.Elem(), seen)
		}
	case reflect.Interface:
		return sliceBytes(v.Elem(), seen)
	case reflect.Struct:
		for i := range v.NumField() {
			n += sliceBytes(v.Field(i), seen)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Slice {
			for i := range v.Len() {
				n += sliceBytes(v.Index(i), seen)
			}
			return n
		}
		return int64(v.Cap()) * int64(v.Type().Elem().Size())
	}
	return n
}

// TestAllocations: not even the first batch allocates.
func TestAllocations(t *testing.T) {
	batches := cycle(1000, 300, 40)
	for _, name := range Names() {
		p := newPolicy(t, name, config(1000, 100, batches))
		held, into := make([]int32, 300), make([]int32, 300)
		next := 0
		if n := testing.AllocsPerRun(len(batches)-1, func() {
			p.Batch(batches[next], held, into)
			next++
		}); n != 0 {
			t.Errorf("%s: %g allocations a batch", name, n)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	three := []uint32{0, 1, 2}
	for what, test := range map[string]struct {
		name string
		c    Config
		kind error
	}{
		"name":            {"fifo", Config{Nodes: 1, Frames: 1}, fault.ErrUsage},
		"negative nodes":  {LRU, Config{Nodes: -1}, fault.ErrUsage},
		"many nodes":      {LRU, Config{Nodes: 1<<32 + 1}, fault.ErrUsage},
		"negative frames": {LRU, Config{Frames: -1}, fault.ErrUsage},
		"many frames":     {LRU, Config{Frames: 1 << 31}, fault.ErrUsage},
		"large set":       {Static, Config{Nodes: 3, Frames: 2, Set: three}, fault.ErrUsage},
		"set's node":      {Static, Config{Nodes: 2, Frames: 3, Set: three}, fault.ErrCorrupt},
		"set's twin":      {Static, Config{Nodes: 2, Frames: 3, Set: []uint32{1, 1}}, fault.ErrCorrupt},
		"many keys":       {Belady, Config{Nodes: 1<<32 - 2, Trace: Trace{[]int64{0, 3}, three}}, fault.ErrUsage},
		"trace's node":    {Belady, Config{Nodes: 2, Trace: Trace{[]int64{0, 3}, three}}, fault.ErrCorrupt},
		"trace's twin":    {Belady, Config{Nodes: 3, Trace: Trace{[]int64{0, 3}, []uint32{2, 1, 2}}}, fault.ErrCorrupt},
		"trace's begin":   {Belady, Config{Nodes: 3, Trace: Trace{[]int64{1, 3}, three}}, fault.ErrCorrupt},
		"trace's end":     {Belady, Config{Nodes: 3, Trace: Trace{[]int64{0, 4}, three}}, fault.ErrCorrupt},
		"trace's order":   {Belady, Config{Nodes: 3, Trace: Trace{[]int64{0, 2, 1, 3}, three}}, fault.ErrCorrupt},
		"no batches":      {Belady, Config{Nodes: 3, Trace: Trace{nil, three}}, fault.ErrCorrupt},
	} {
		if p, err := New(test.name, test.c); !errors.Is(err, test.kind) || p != nil {
			t.Errorf("%s: %v, %v", what, p, err)
		}
	}
	if _, err := New(Belady, Config{Nodes: 3, Frames: 1}); err != nil {
		t.Errorf("no trace at all: %v", err)
	}
}
