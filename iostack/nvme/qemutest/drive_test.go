package qemutest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/nvmetest"
	"diskgnn/iostack/nvme/spec"
)

// What is brought up says what the drive was made with, and grants as much as it has.
func TestDriveBringUp(t *testing.T) {
	for which, d := range drives {
		o, queues, depth := nvme.Options{}, 1, 256
		if which == small {
			o, queues, depth = nvme.Options{Queues: 64, Depth: 1 << 15}, 16, 2048
		}
		c := open(t, which, o)
		if id := c.Identity(); id.MaxTransfer != min(1<<20, nvme.Page<<d.transfer) || id.Namespaces < 1 || id.Serial == "" {
			t.Errorf("drive %d: %+v", which, id)
		}
		if s := c.Namespace(); s != (nvme.Namespace{ID: 1, Blocks: uint64(d.size / d.blockBytes), BlockBytes: d.blockBytes}) {
			t.Errorf("drive %d: %+v", which, s)
		}
		if n := len(c.Queues()); n != queues || c.Queues()[n-1].Depth() != depth {
			t.Errorf("drive %d: %d queues of %d entries", which, n, c.Queues()[0].Depth())
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// load is reads of one size by one queue.
type load struct{ depth, bytes, reads int }

// loads are 100,000 reads: of one PRP, two, and lists; rings of two entries and of many.
var loads = []load{
	{2, 512, 10000}, {2, 4096, 10000}, {16, 4096, 30000}, {64, 512, 20000}, {65, 8 << 10, 10000},
	{256, 4096, 15000}, {64, 32 << 10, 4000}, {17, 128 << 10, 1000},
}

// Every byte of every read is what the drive holds there; every ring goes round many times.
func TestDriveReads(t *testing.T) {
	c := open(t, small, nvme.Options{})
	content := drives[small].content()
	total := 0
	for i, l := range loads {
		if !inGuest {
			l.reads /= 50
		}
		c.Close()
		c = open(t, small, nvme.Options{Depth: l.depth, Queues: 2})
		for _, q := range c.Queues() {
			reads(t, c, q, content, l.bytes, l.reads/2, rand.New(rand.NewPCG(uint64(i), uint64(q.ID()))))
		}
		total += l.reads
	}
	t.Logf("%d reads", total)
}

// reads carries out reads of n bytes from any block to any offset that is a multiple of 4,
// as many at the same time as the queue takes, and compares them.
func reads(t *testing.T, c *nvme.Controller, q *nvme.Queue, content []byte, n, total int, r *rand.Rand) {
	t.Helper()
	space := c.Namespace()
	each := (n+nvme.Page-1)/nvme.Page*nvme.Page + nvme.Page
	m := nvmetest.Alloc(t, c.Transport(), (q.Depth()-1)*each)
	defer c.Transport().Free(m)
	fill(m.Bytes, 0xa5)
	type read struct {
		first uint64
		at    int
	}
	slots := make([]read, q.Depth()-1)
	free := make([]int, len(slots))
	for i := range free {
		free[i] = i
	}
	for submitted, done := 0, 0; done < total; {
		for submitted < total && q.Room() > 0 {
			slot := free[len(free)-1]
			free = free[:len(free)-1]
			s := read{uint64(r.Int64N(int64(space.Blocks) - int64(n/space.BlockBytes) + 1)), slot*each + 4*r.IntN(nvme.Page/4)}
			if submitted%2 == 0 {
				s.at = slot * each // the fewest PRPs
			}
			slots[slot] = s
			cmd := space.Transfer(spec.Read, s.first, n/space.BlockBytes)
			if err := q.Submit(&cmd, m, s.at, n, uint64(slot)); err != nil {
				t.Fatal(err)
			}
			submitted++
		}
		q.Ring()
		if _, err := q.Poll(func(tag uint64, completion spec.Completion) {
			s := slots[tag]
			got := m.Bytes[s.at : s.at+n]
			if completion.Status.Failed() {
				t.Fatalf("%d bytes from block %d: %v", n, s.first, completion.Status)
			}
			if !bytes.Equal(got, content[int(s.first)*space.BlockBytes:][:n]) {
				t.Fatalf("%d bytes from block %d are not what the drive holds", n, s.first)
			}
			fill(got, 0xa5)
			free = append(free, int(tag))
			done++
		}); err != nil {
			t.Fatal(err)
		}
	}
	if !untouched(m.Bytes) {
		t.Fatal("a read wrote to memory beside its own")
	}
}

// What is written and flushed is read back by another queue, and what lies beside it stays;
// so do the bytes of memory beside what is read.
func TestDriveWrites(t *testing.T) {
	for _, which := range []int{small, large} {
		c := open(t, which, nvme.Options{Queues: 2})
		d, space := drives[which], c.Namespace()
		content := d.content()
		r := rand.New(rand.NewPCG(3, uint64(which)))
		m := nvmetest.Alloc(t, c.Transport(), 1<<20)
		for range 40 {
			n := (1 + r.IntN(min(c.Identity().MaxTransfer, 256<<10)/d.blockBytes)) * d.blockBytes
			first, at := r.IntN(d.size/d.blockBytes-n/d.blockBytes), 4*r.IntN(nvme.Page)
			for i := at; i < at+n; i++ {
				m.Bytes[i] = byte(r.Uint32())
			}
			copy(content[first*d.blockBytes:], m.Bytes[at:at+n])
			cmd := space.Transfer(spec.Write, uint64(first), n/d.blockBytes)
			if _, err := c.Queues()[0].Do(&cmd, m, at, n); err != nil {
				t.Fatal(err)
			}
			cmd = space.Flush()
			if _, err := c.Queues()[0].Do(&cmd, nil, 0, 0); err != nil {
				t.Fatal(err)
			}
			before, behind := min(first, 1), min(d.size/d.blockBytes-first-n/d.blockBytes, 1)
			n += (before + behind) * d.blockBytes
			if n > c.Identity().MaxTransfer {
				n -= (before + behind) * d.blockBytes
				before = 0
			}
			fill(m.Bytes, 0xa5)
			cmd = space.Transfer(spec.Read, uint64(first-before), n/d.blockBytes)
			if _, err := c.Queues()[1].Do(&cmd, m, at, n); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(m.Bytes[at:at+n], content[(first-before)*d.blockBytes:][:n]) {
				t.Fatalf("drive %d: %d bytes from block %d are not what was written", which, n, first)
			}
			if untouched(m.Bytes[:at]) && untouched(m.Bytes[at+n:]) {
				continue
			}
			t.Fatalf("drive %d: reading %d bytes touches memory beside them", which, n)
		}
		restore(t, c, m, d.content())
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func fill(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

func untouched(b []byte) bool { return bytes.Count(b, []byte{0xa5}) == len(b) }

// restore writes all of a drive's content.
func restore(t *testing.T, c *nvme.Controller, m *nvme.Memory, content []byte) {
	t.Helper()
	space, n := c.Namespace(), min(len(m.Bytes), c.Identity().MaxTransfer)
	for at := 0; at < len(content); at += n {
		copy(m.Bytes, content[at:at+n])
		cmd := space.Transfer(spec.Write, uint64(at/space.BlockBytes), n/space.BlockBytes)
		if _, err := c.Queues()[0].Do(&cmd, m, 0, n); err != nil {
			t.Fatal(err)
		}
	}
}

// Blocks, namespaces and sizes that are not there get the status that the specification has.
func TestDriveLimits(t *testing.T) {
	for _, which := range []int{small, large} {
		c := open(t, which, nvme.Options{})
		d, q, space := drives[which], c.Queues()[0], c.Namespace()
		m := nvmetest.Alloc(t, c.Transport(), 16<<20)
		most := nvme.Page << d.transfer / d.blockBytes
		for _, x := range []struct {
			what      string
			opcode    byte
			namespace uint32
			first     uint64
			blocks    int
			want      spec.Status
		}{
			{"the last block", spec.Read, 1, space.Blocks - 1, 1, spec.Success},
			{"the block behind the last", spec.Read, 1, space.Blocks, 1, spec.LBAOutOfRange},
			{"writing behind the last block", spec.Write, 1, space.Blocks, 1, spec.LBAOutOfRange},
			{"the last block and one more", spec.Read, 1, space.Blocks - 1, 2, spec.LBAOutOfRange},
			{"a block whose number wraps around", spec.Read, 1, ^uint64(0), 2, spec.LBAOutOfRange},
			{"namespace 0", spec.Read, 0, 0, 1, spec.InvalidNamespace},
			{"a namespace behind the last", spec.Read, c.Identity().Namespaces + 1, 0, 1, spec.InvalidNamespace},
			{"all namespaces", spec.Read, spec.AllNamespaces, 0, 1, spec.InvalidField},
			{"the largest transfer", spec.Read, 1, 0, most, spec.Success},
			{"a block more than the largest transfer", spec.Read, 1, 0, most + 1, spec.InvalidField},
		} {
			var cmd spec.Command
			cmd.SetHead(x.opcode, 0, x.namespace)
			cmd.SetBlocks(x.first, x.blocks)
			n := x.blocks * d.blockBytes
			lists := nvmetest.Alloc(t, c.Transport(), (n/nvme.Page/500+2)*nvme.Page)
			point(&cmd, m, n, lists)
			if _, err := q.Do(&cmd, nil, 0, 0); x.want.Failed() && !errors.Is(err, x.want) || !x.want.Failed() && err != nil {
				t.Errorf("drive %d: %s: %v, want %v", which, x.what, err, x.want)
			}
		}
		if !bytes.Equal(m.Bytes[:most*d.blockBytes], d.content()[:most*d.blockBytes]) {
			t.Errorf("drive %d: the largest transfer has other bytes", which)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// point writes the PRPs of n bytes of memory, as the specification has them; where the
// driver's own transfers end, lists of several pages go on.
func point(cmd *spec.Command, m *nvme.Memory, n int, lists *nvme.Memory) {
	pages := m.Pages[:(n+nvme.Page-1)/nvme.Page]
	second := uint64(0)
	switch {
	case len(pages) == 2:
		second = pages[1]
	case len(pages) > 2:
		second = lists.Pages[0]
		for i, slot := 1, 0; i < len(pages); slot++ {
			address := pages[i]
			if slot%512 == 511 && i < len(pages)-1 {
				address = lists.Pages[slot/512+1]
			} else {
				i++
			}
			for k := range 8 {
				lists.Bytes[8*slot+k] = byte(address >> (8 * k))
			}
		}
	}
	cmd.SetPRP(pages[0], second)
}

func admin(opcode byte, ten, eleven uint32, one uint64) (cmd spec.Command) {
	cmd.SetHead(opcode, 0, 0)
	cmd.SetWord(10, ten)
	cmd.SetWord(11, eleven)
	cmd.SetPRP(one, 0)
	return cmd
}

// Queues are deleted in the order that the specification demands, also with commands under
// way, every one of which ends; then they are made again, as new.
func TestDriveDeleteQueues(t *testing.T) {
	c := open(t, small, nvme.Options{Depth: 64})
	q, space := c.Queues()[0], c.Namespace()
	m := nvmetest.Alloc(t, c.Transport(), 64<<10)
	for range q.Room() {
		cmd := space.Transfer(spec.Read, 0, 128)
		if err := q.Submit(&cmd, m, 0, 64<<10, 0); err != nil {
			t.Fatal(err)
		}
	}
	q.Ring()
	for _, x := range []struct {
		what string
		cmd  spec.Command
		want spec.Status
	}{
		{"the completion queue of a submission queue", admin(spec.DeleteCQ, 1, 0, 0), spec.InvalidQueueDeletion},
		{"the submission queue", admin(spec.DeleteSQ, 1, 0, 0), spec.Success},
		{"the submission queue again", admin(spec.DeleteSQ, 1, 0, 0), spec.InvalidQueueID},
		{"the admin queue", admin(spec.DeleteSQ, 0, 0, 0), spec.InvalidQueueID},
	} {
		if _, err := c.Admin(&x.cmd, nil, 0); x.want.Failed() && !errors.Is(err, x.want) || !x.want.Failed() && err != nil {
			t.Errorf("delete %s: %v, want %v", x.what, err, x.want)
		}
	}
	// All that was fetched has ended before the deletion did; the rest never will.
	ended := 0
	if _, err := q.Poll(func(_ uint64, done spec.Completion) {
		if ended++; done.Status.Failed() && !errors.Is(done.Status, spec.AbortSQDeleted) {
			t.Errorf("a read: %v", done.Status)
		}
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of 63 reads ended", ended)
	cmd := admin(spec.DeleteCQ, 1, 0, 0)
	if _, err := c.Admin(&cmd, nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := c.Reset(context.Background()); err != nil {
		t.Fatal(err)
	}
	reads(t, c, c.Queues()[0], drives[small].content(), 4096, 500, rand.New(rand.NewPCG(5, 5)))
}

// A reset while reads are in flight leaves a controller that is as new, again and again. All of
// them were fetched: some that QEMU 7.2 fetches while it is being reset go on with queues that
// are gone, and it crashes.
func TestDriveResetInFlight(t *testing.T) {
	c := open(t, slow, nvme.Options{Depth: 128, Queues: 4})
	m := nvmetest.Alloc(t, c.Transport(), 128<<10)
	inFlight := 0
	for round := range 4 {
		space := c.Namespace()
		for _, q := range c.Queues() {
			for range q.Room() {
				cmd := space.Transfer(spec.Read, uint64(round), 256)
				if err := q.Submit(&cmd, m, 0, 128<<10, 0); err != nil {
					t.Fatal(err)
				}
			}
			q.Ring()
		}
		for range 2 { // the controller looks at its queues in turn
			cmd := admin(spec.GetFeatures, spec.NumberOfQueues, 0, 0)
			if _, err := c.Admin(&cmd, nil, 0); err != nil {
				t.Fatal(err)
			}
		}
		for _, q := range c.Queues() {
			if _, err := q.Poll(func(uint64, spec.Completion) {}); err != nil {
				t.Fatal(err)
			}
			inFlight += q.Busy()
		}
		old := c.Queues()[0]
		if err := c.Reset(context.Background()); err != nil {
			t.Fatal(err)
		}
		if _, err := old.Poll(nil); !errors.Is(err, nvme.ErrClosed) {
			t.Errorf("a queue of before: %v", err)
		}
		fill(m.Bytes, 0xa5)
		reads(t, c, c.Queues()[round], drives[slow].content(), 8192, 127, rand.New(rand.NewPCG(uint64(round), 9)))
		if !untouched(m.Bytes) {
			t.Fatal("a read of before the reset wrote to memory after it")
		}
	}
	if t.Logf("%d reads were in flight", inFlight); inGuest && inFlight == 0 {
		t.Error("no read was in flight at a reset")
	}
}
