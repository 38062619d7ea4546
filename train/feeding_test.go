package train

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/featurestore/marius"
	"diskgnn/featurestore/mmap"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/shard"
	"diskgnn/pack/packfile"
	"diskgnn/presample/mbfile"
	"diskgnn/train/feed"
	"diskgnn/train/traintest"
)

// consumer is the other side of a feed.
type consumer struct {
	t     testing.TB
	conn  *net.UnixConn
	in    *bufio.Reader
	hello feed.Hello
	slots [][]byte
	table []byte // the rows that it holds
}

// feeding begins a feed, and returns its consumer and a function that returns the feed's error.
func (w *world) feeding(ctx context.Context, o FeedOptions) (c *consumer, end func() error) {
	w.t.Helper()
	list, end := w.feedingRanks(ctx, o, 1)
	return list[0], end
}

// feedingRanks begins a feed for several consumers.
func (w *world) feedingRanks(ctx context.Context, o FeedOptions, n int) (list []*consumer, end func() error) {
	w.t.Helper()
	var feeds []*net.UnixConn
	for range n {
		ours, theirs := traintest.Sockets(w.t)
		feeds, list = append(feeds, theirs), append(list, &consumer{t: w.t, conn: ours, in: bufio.NewReader(ours)})
	}
	done := make(chan error, 1)
	setDefault(&o.IO, quick)
	go func() { done <- Feed(ctx, disk, o, feeds, progress.Discard) }()
	return list, func() error {
		defer func() {
			for _, c := range list {
				_ = c.conn.Close()
			}
		}()
		for _, c := range list {
			for _, m := range c.slots {
				_ = unix.Munmap(m)
			}
		}
		return <-done
	}
}

// greeted reads the first message, and maps the slots.
func (c *consumer) greeted() *consumer {
	c.t.Helper()
	line, rights := make([]byte, 1<<16), make([]byte, unix.CmsgSpace(4*feed.MostSlots))
	n, k, _, _, err := c.conn.ReadMsgUnix(line, rights)
	if err != nil {
		c.t.Fatal(err)
	}
	end := bytes.IndexByte(line[:n], '\n')
	if err := json.Unmarshal(line[:end], &c.hello); err != nil {
		c.t.Fatalf("%s: %v", line[:n], err)
	}
	c.in = bufio.NewReader(unread{line[end+1 : n], c.conn})
	messages, err := unix.ParseSocketControlMessage(rights[:k])
	if err != nil || len(messages) != 1 {
		c.t.Fatalf("%d control messages, %v", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != len(c.hello.Slots) {
		c.t.Fatalf("%d descriptors, %v", len(fds), err)
	}
	for i, fd := range fds {
		m, err := unix.Mmap(fd, 0, int(c.hello.Slots[i]), unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			c.t.Fatal(err)
		}
		c.slots = append(c.slots, m)
		_ = unix.Close(fd)
	}
	return c
}

// hold takes the rows that the feed does not send with batches.
func (c *consumer) hold() *consumer {
	c.t.Helper()
	for row := 4 * c.hello.Dim; len(c.table) < int(c.hello.Held)*row; c.used() {
		var m feed.Rows
		line, err := c.in.ReadBytes('\n')
		if err = errors.Join(err, json.Unmarshal(line, &m)); err != nil || m.Rows == 0 {
			c.t.Fatalf("%s: %v", line, err)
		}
		c.table = append(c.table, c.slots[m.Slot][:m.Rows*row]...)
	}
	return c
}

// matrix returns the rows of a batch, the ones that the consumer holds among them.
func (c *consumer) matrix(b *feed.Batch) []byte {
	row, rank := 4*c.hello.Dim, numbers[int64](c, b, b.Rank, b.Rows)
	x := slices.Clone(c.slots[b.Slot][:b.Rows*row])
	for _, r := range b.Held {
		for i := r.First; i < r.First+r.Rows; i++ {
			copy(x[i*row:(i+1)*row], c.table[int(rank[i])*row:])
		}
	}
	return x
}

// unread is a reader that begins with bytes that were read before.
type unread struct {
	first []byte
	rest  *net.UnixConn
}

func (u unread) Read(b []byte) (int, error) {
	if len(u.first) > 0 {
		n := copy(b, u.first)
		return n, nil
	}
	return u.rest.Read(b)
}

// next returns the next batch, or nil and the last message.
func (c *consumer) next() (*feed.Batch, feed.End) {
	c.t.Helper()
	line, err := c.in.ReadBytes('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	var end feed.End
	if err := json.Unmarshal(line, &end); err != nil {
		c.t.Fatalf("%s: %v", line, err)
	}
	if end.End {
		return nil, end
	}
	b := new(feed.Batch)
	if err := json.Unmarshal(line, b); err != nil {
		c.t.Fatal(err)
	}
	return b, end
}

func (c *consumer) used() {
	c.t.Helper()
	if _, err := c.conn.Write([]byte{'n'}); err != nil {
		c.t.Fatal(err)
	}
}

// numbers returns n numbers of a slot's memory.
func numbers[T binio.Number](c *consumer, b *feed.Batch, place int64, n int) []T {
	size := len(binio.Bytes(make([]T, 1)))
	return binio.View[T](c.slots[b.Slot][place : place+int64(n*size)])
}

// TestFeedHandsOut: a consumer gets the batches of the samples, whatever the store: the rows of their nodes, the edges
// in their order, labels and degrees, from any position on, for all splits.
func TestFeedHandsOut(t *testing.T) {
	w := newRecountWorld(t, worldParams{nodes: 300, dim: 7, batch: 16})
	byRank := hottest(w.trace.hotness())
	samples, err := mbfile.Open(disk, w.path("samples"))
	if err != nil {
		t.Fatal(err)
	}
	defer samples.Close()
	data, err := dataset.Open(disk, w.path("dataset"))
	if err != nil {
		t.Fatal(err)
	}
	rowBytes := data.Facts().Dim * 4
	fingerprints := map[string]bool{}
	for name, change := range map[string]func(*Options){
		"memory": w.fromSamples, "drawn": w.live, "mmap": w.mappingRows, "gids": w.paging, "agnes": w.inBlocks, "hyperion": w.reading("hyperion"),
		"rows": w.reading("rows"), "ginex": w.reading("ginex"), "gnndrive": w.reading("gnndrive"), "packed": func(*Options) {}, "held": func(*Options) {},
	} {
		for _, part := range []struct {
			split featurestore.Split
			from  int
		}{{featurestore.Train, 0}, {featurestore.Train, 5}, {featurestore.Valid, 0}, {featurestore.Test, 1}} {
			o := FeedOptions{Options: w.options(w.pack(10)), Split: part.split, From: part.from}
			change(&o.Options)
			if o.Epochs = 3; o.Live() {
				o.Epochs = 2 // the third one would be drawn anew
			}
			if name == "held" {
				o.GPUCache = &budget.Size{Value: 4, Unit: budget.UnitPercent}
			}
			c, end := w.feeding(t.Context(), o)
			c.greeted().hold()
			if want := map[string]int64{"held": 12}[name]; c.hello.Held != want {
				t.Errorf("%s: the consumer holds %d rows, want %d", name, c.hello.Held, want)
			}
			if fingerprints[c.hello.Fingerprint] = true; part.split == featurestore.Train && name == "packed" {
				o.ShuffleBatches = true
				for o.Seed = range uint64(2) { // its order differs
					other, end := w.feeding(t.Context(), o)
					fingerprints[other.greeted().hello.Fingerprint] = true
					_ = other.conn.Close()
					_ = end()
				}
			}
			per, first := samples.Facts().BatchesPerEpoch, 0
			switch part.split {
			case featurestore.Valid:
				first, per = samples.Valid()
				per -= first
			case featurestore.Test:
				first, per = samples.Test()
				per -= first
			}
			if c.hello.Batches != o.Epochs*per-part.from || c.hello.PerEpoch != per || c.hello.From != part.from || c.hello.Dim != data.Facts().Dim || c.hello.Classes != 3 {
				t.Errorf("%s, %+v: hello %+v", name, part, c.hello)
			}
			var buf []byte
			for item := range c.hello.Batches {
				b, _ := c.next()
				if b == nil || b.Item != item {
					t.Fatalf("%s, %+v: batch %+v in place of %d", name, part, b, item)
				}
				k := first + (part.from+item)%per
				if part.split == featurestore.Train {
					k = (part.from + item) % samples.Facts().TrainBatches
				}
				var want graph.Batch
				if buf, err = samples.Read(t.Context(), k, buf, &want); err != nil {
					t.Fatal(err)
				}
				c.compare(b, &want, byRank, w.dataset.Features, rowBytes, part.split == featurestore.Train && name != "drawn")
				if (b.IDs < 0) != (name == "packed" || name == "held") {
					t.Errorf("ids at %d", b.IDs)
				}
				if t.Failed() {
					t.Fatalf("%s, %+v, batch %d", name, part, item)
				}
				c.used()
			}
			if b, e := c.next(); b != nil || e.Error != "" {
				t.Errorf("%s, %+v: %+v, %+v in place of the end", name, part, b, e)
			}
			if err := end(); err != nil {
				t.Errorf("%s, %+v: %v", name, part, err)
			}
		}
	}
	// Three splits of the samples and of drawn batches, and two more orders of the first.
	if len(fingerprints) != 8 {
		t.Errorf("%d fingerprints", len(fingerprints))
	}
}

// TestFeedRanks: ranks of one feed share an epoch, whatever the store: batch k is rank k mod n's, and in the last step,
// ranks without a batch get batches of that step once more. All get equally many, from any position on. A wrong batch ends all of
// them in its place; so does one that goes.
func TestFeedRanks(t *testing.T) {
	w := newRecountWorld(t, worldParams{nodes: 300, dim: 7, batch: 16})
	byRank := hottest(w.trace.hotness())
	samples, err := mbfile.Open(disk, w.path("samples"))
	if err != nil {
		t.Fatal(err)
	}
	defer samples.Close()
	per, total, rowBytes := samples.Facts().BatchesPerEpoch, samples.Facts().TrainBatches, 7*4
	fingerprints := map[string]bool{}
	for name, change := range map[string]func(*Options){
		"memory": w.fromSamples, "gids": w.paging, "rows": w.reading("rows"), "ginex": w.reading("ginex"), "packed": func(*Options) {},
	} {
		for _, n := range []int{2, 3, per - 1, per, per + 2} {
			each := (per + n - 1) / n
			for _, from := range []int{0, each - 1, each, 2*each + 1} {
				o := FeedOptions{Options: w.options(w.pack(10)), From: from}
				change(&o.Options)
				o.Epochs = 3
				ranks, end := w.feedingRanks(t.Context(), o, n)
				for _, c := range ranks {
					if c.greeted(); c.hello.Batches != 3*each-from || c.hello.PerEpoch != each {
						t.Errorf("%s, %d ranks: %+v", name, n, c.hello)
					}
					fingerprints[c.hello.Fingerprint] = true
				}
				var buf []byte
				for k := from; k < 3*each; k++ {
					for r, c := range ranks {
						b, e := c.next()
						if b == nil || b.Item != k-from {
							t.Fatalf("%s, rank %d of %d, from %d: %+v, %+v in place of batch %d", name, r, n, from, b, e, k)
						}
						first := k % each * n
						if first+r >= per {
							r %= per - first
						}
						var want graph.Batch
						if buf, err = samples.Read(t.Context(), (k/each*per+first+r)%total, buf, &want); err != nil {
							t.Fatal(err)
						}
						if c.compare(b, &want, byRank, w.dataset.Features, rowBytes, true); t.Failed() {
							t.Fatalf("%s, rank %d of %d, from %d, batch %d", name, r, n, from, k)
						}
					}
					for _, c := range ranks {
						c.used()
					}
				}
				for _, c := range ranks {
					if b, e := c.next(); b != nil || e.Error != "" {
						t.Errorf("%s: %+v, %+v in place of the end", name, b, e)
					}
				}
				if err := end(); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if len(fingerprints) != 5 { // one for each number of ranks
		t.Errorf("%d fingerprints", len(fingerprints))
	}
	for _, c := range []struct {
		change func(*FeedOptions)
		want   string
	}{
		{func(o *FeedOptions) { o.Slots = 2 }, "--slots 2: each of 3 ranks uses a batch at a time"},
		{func(o *FeedOptions) { o.Split = featurestore.Valid }, "several sockets are for the ranks of a training: leave --rank and --split out"},
		{func(o *FeedOptions) { o.Share = shard.Shard{Index: 0, Count: 2} }, "several sockets are for the ranks of a training: leave --rank and --split out"},
	} {
		o := FeedOptions{Options: w.options(w.pack(10))}
		c.change(&o)
		ranks, end := w.feedingRanks(t.Context(), o, 3)
		for _, r := range ranks {
			if _, e := r.next(); e.Error != c.want {
				t.Errorf("%+v, want %s", e, c.want)
			}
		}
		if err := end(); !errors.Is(err, fault.ErrUsage) {
			t.Error(err)
		}
	}
	o := FeedOptions{Options: w.options(w.pack(10))}
	ranks, end := w.feedingRanks(t.Context(), o, 3)
	for _, c := range ranks {
		c.greeted().next()
	}
	_ = ranks[1].conn.Close()
	for _, r := range []int{0, 2} {
		if b, e := ranks[r].next(); b != nil || e.Error != "rank 1 of 3: the consumer has closed the socket" {
			t.Errorf("rank %d: %+v, %+v", r, b, e)
		}
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// TestFeedErrorInTurn: ranks get all batches before a wrong one, and then the error, while they use their last ones.
func TestFeedErrorInTurn(t *testing.T) {
	w := newWorld(t, worldParams{batch: 16})
	p := w.pack(10)
	reader, err := packfile.Open(disk, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []int{0, 4, 5} {
		name := filepath.Join(p, packfile.GraphFile(reader.Group(wrong)))
		whole, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		bad := slices.Clone(whole)
		bad[reader.Index().Train[wrong].GraphOffset+9] ^= 1
		if err := os.WriteFile(name, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			ranks, end := w.feedingRanks(t.Context(), FeedOptions{Options: w.options(p)}, n+1)
			for _, c := range ranks {
				c.greeted()
			}
			for k := range wrong {
				c := ranks[k%len(ranks)]
				if k >= len(ranks) {
					c.used()
				}
				if b, e := c.next(); b == nil {
					t.Errorf("%+v in place of batch %d", e, k)
				}
			}
			for r, c := range ranks {
				if b, e := c.next(); b != nil || !strings.Contains(e.Error, fmt.Sprintf("batch %d: load graph: ", wrong)) {
					t.Errorf("batch %d is wrong, rank %d of %d: %+v, %+v", wrong, r, n+1, b, e)
				}
			}
			if err := end(); !errors.Is(err, fault.ErrCorrupt) {
				t.Error(err)
			}
		}
		if err := os.WriteFile(name, whole, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// compare compares a batch with the one that was sampled. Input nodes of packed batches have another order.
func (c *consumer) compare(b *feed.Batch, want *graph.Batch, byRank []uint32, features []byte, rowBytes int, ranked bool) {
	t := c.t
	t.Helper()
	if b.Rows != len(want.Input) || len(b.Blocks) != len(want.Blocks) || b.Seeds != want.NumSeeds() {
		t.Errorf("%d rows, %d blocks, %d seeds, sampled %d, %d, %d", b.Rows, len(b.Blocks), b.Seeds, len(want.Input), len(want.Blocks), want.NumSeeds())
		return
	}
	x := c.matrix(b)
	degree, rank := numbers[int64](c, b, b.Degree, b.Rows), numbers[int64](c, b, b.Rank, b.Rows)
	at := make([]uint32, b.Rows) // by input of the batch: its place among the sampled inputs
	place := map[uint32]uint32{}
	for i, v := range want.Input {
		place[v] = uint32(i)
	}
	row := func(i int) string { return string(x[i*rowBytes : (i+1)*rowBytes]) }
	rows := map[string]uint32{} // of evaluation batches, which have no ranks
	for i, v := range want.Input {
		rows[string(features[int(v)*rowBytes:][:rowBytes])] = uint32(i)
	}
	for i := range at {
		at[i] = rows[row(i)]
		if ranked {
			at[i] = place[byRank[rank[i]]]
		}
		v := want.Input[at[i]]
		if row(i) != string(features[int(v)*rowBytes:][:rowBytes]) || degree[i] != int64(want.Degree[at[i]]) {
			t.Errorf("row %d is not node %d's, or its degree %d is not %d", i, v, degree[i], want.Degree[at[i]])
			return
		}
		if b.IDs >= 0 && numbers[int64](c, b, b.IDs, b.Rows)[i] != int64(v) {
			t.Errorf("row %d is node %d's, but its id is %d", i, v, numbers[int64](c, b, b.IDs, b.Rows)[i])
			return
		}
	}
	for l, got := range b.Blocks {
		block := &want.Blocks[l]
		edges := numbers[int64](c, b, got.EdgeIndex, 2*got.Edges)
		if got.Src != block.NumSrc || got.Dst != block.NumDst || got.Edges != len(block.Indices) {
			t.Errorf("block %d: %+v, sampled %d, %d, %d", l, got, block.NumSrc, block.NumDst, len(block.Indices))
			return
		}
		source := func(p int64) uint32 { // its place among the sampled sources
			if l == 0 {
				return at[p]
			}
			return uint32(p)
		}
		for i := range got.Dst {
			pos := int64(i)
			if got.DstPos >= 0 {
				pos = numbers[int64](c, b, got.DstPos, got.Dst)[i]
			}
			if int(source(pos)) != block.DstPos(i) {
				t.Errorf("block %d: destination %d is source %d, sampled %d", l, i, source(pos), block.DstPos(i))
			}
			for e := block.Indptr[i]; e < block.Indptr[i+1]; e++ {
				if source(edges[e]) != block.Indices[e] || edges[got.Edges+int(e)] != int64(i) {
					t.Errorf("block %d: edge %d is %d to %d, sampled %d to %d", l, e, source(edges[e]), edges[got.Edges+int(e)], block.Indices[e], i)
				}
			}
		}
	}
	labels := numbers[int64](c, b, b.Labels, b.Seeds)
	if !slices.EqualFunc(labels, want.Labels, func(a int64, b int32) bool { return a == int64(b) }) {
		t.Errorf("labels %v, sampled %v", labels, want.Labels)
	}
	if got := c.slots[b.Slot][b.Targets:][:len(want.Targets)]; !bytes.Equal(got, want.Targets) {
		t.Errorf("classes %v, sampled %v", got, want.Targets)
	}
}

// A feed refuses flags that it cannot follow, and tells the consumer; a consumer that goes ends it without an error,
// before its first batch and later.
func TestFeedEnds(t *testing.T) {
	w := newWorld(t, worldParams{batch: 16})
	p := w.pack(10)
	for _, c := range []struct {
		change func(*FeedOptions)
		want   string
	}{
		{func(o *FeedOptions) { o.From = -1 }, "--from -1: give a number of batches from 0 up"},
		{func(o *FeedOptions) { o.From = 1000 }, "--from 1000: there are 27 batches"},
		{func(o *FeedOptions) { o.GPUCache = &budget.Size{Value: -1} }, "--gpu-cache -1 B: give a share of the rows (10%) or bytes (2GiB)"},
		{func(o *FeedOptions) { o.GPUCache, o.Store = &budget.Size{Value: 9}, mmap.Name }, ""},
		{func(o *FeedOptions) { o.Replicas = 2 }, "feed is for one consumer: leave the ranks of the job out"},
		{func(o *FeedOptions) { o.SetSplit(AllNodes) }, "--split all draws batches: give --dataset and --fanout, no pack and no samples"},
		{func(o *FeedOptions) { w.live(&o.Options); o.SetSplit(AllNodes); o.ShuffleBatches = true }, "--split all has all nodes, in ascending order: leave --train-ratio and --shuffle-batches out"},
		{func(o *FeedOptions) { w.live(&o.Options); o.SetSplit(AllNodes); o.TrainRatio = 0.5 }, "--split all has all nodes, in ascending order: leave --train-ratio and --shuffle-batches out"},
		{func(o *FeedOptions) {
			w.live(&o.Options)
			o.SetSplit(AllNodes)
			o.Share = shard.Shard{Index: 1, Count: 2}
		}, "--rank 1/2: ranks divide training batches; load all batches in one process"},
		{func(o *FeedOptions) { o.Store = mmap.Name }, ""},
		{func(o *FeedOptions) { o.Store = marius.Name }, ""},
		{func(o *FeedOptions) { o.Slots = feed.MostSlots + 1 }, ""},
	} {
		o := FeedOptions{Options: w.options(p)}
		o.Epochs = 3
		c.change(&o)
		to, end := w.feeding(t.Context(), o)
		if o.Slots > 0 { // there are fewer batches
			to.greeted()
			_ = to.conn.Close()
			if err := end(); err != nil {
				t.Error(err)
			}
			continue
		}
		_, e := to.next()
		if err := end(); !errors.Is(err, fault.ErrUsage) || err.Error() != e.Error || c.want != "" && c.want != e.Error {
			t.Errorf("%v; the consumer reads %q, want %q", err, e.Error, c.want)
		}
	}
	if _, err := PlanFeed(t.Context(), disk, FeedOptions{Options: w.options(p)}, progress.Discard); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("a plan of training batches: %v", err)
	}
	grows := FeedOptions{Options: w.options("", w.live, dry("0.01"))} // one batch is drawn before
	grows.Epochs = 20
	c, end := w.feeding(t.Context(), grows)
	c.greeted()
	b, e := c.next()
	for ; b != nil; b, e = c.next() {
		c.used()
	}
	if err := end(); !errors.Is(err, fault.ErrBudget) || !strings.HasSuffix(e.Error, "is larger than the batches of the dry pass, and the memory of a consumer cannot grow: give --dry-epochs all") {
		t.Errorf("a batch that is too large: %v; the consumer reads %q", err, e.Error)
	}
	for _, batches := range []int{0, 1, 7} {
		o := FeedOptions{Options: w.options(p)}
		o.Epochs = 3
		c, end := w.feeding(t.Context(), o)
		c.greeted()
		for range batches {
			c.next()
			c.used()
		}
		_ = c.conn.Close()
		if err := end(); err != nil {
			t.Errorf("after %d batches: %v", batches, err)
		}
	}
	ours, theirs := traintest.Sockets(t)
	_ = ours.Close() // before the dry epochs
	drawn := FeedOptions{Options: w.options(p)}
	w.live(&drawn.Options)
	setDefault(&drawn.IO, quick)
	if err := Feed(t.Context(), disk, drawn, []*net.UnixConn{theirs}, progress.Discard); err != nil {
		t.Errorf("without a consumer: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c, end = w.feeding(ctx, FeedOptions{Options: w.options(p)})
	c.greeted().next()
	cancel()
	if _, e := c.next(); e.Error == "" {
		t.Error("an interrupted feed told its consumer no error")
	}
	if err := end(); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// TestConsumersType: rows are as the store has them where the consumer takes this type.
func TestConsumersType(t *testing.T) {
	for _, c := range []struct {
		store, asked dtype.Type
		want         bool
	}{{dtype.BFloat16, dtype.BFloat16, true}, {dtype.Float16, dtype.Float16, true}, {dtype.Float16, dtype.BFloat16, false}, {dtype.BFloat16, dtype.Float32, false},
		{dtype.Float32, dtype.Float32, false}, {dtype.Int8, dtype.BFloat16, false}} {
		o := FeedOptions{DType: c.asked}
		if needs := o.consumer(&featurestore.Facts{DType: c.store, TrainSizes: graph.Sizes{Src: []int{1}, Dst: []int{1}, Edges: []int{1}}}); needs.Stored != c.want || !needs.Shared {
			t.Errorf("rows of %s for %s: %+v", c.store, c.asked, needs)
		}
	}
}
