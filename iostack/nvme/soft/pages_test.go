package soft_test

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"

	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/nvmetest"
	"diskgnn/iostack/nvme/soft"
	"diskgnn/iostack/nvme/spec"
)

// Pages of a command lie in the order of its list, wherever they are in memory.
func TestPagesInAnyOrder(t *testing.T) {
	content, d := nvmetest.Serve(t, soft.Options{})
	c := nvmetest.Open(t, d, nvme.Options{})
	space := c.Namespace()
	m := nvmetest.Alloc(t, d, 9*4096)
	list := m.Bytes[8*4096:]
	order := []int{5, 2, 3, 7, 0, 1, 6, 4}
	for i, page := range order[1:] {
		binary.LittleEndian.PutUint64(list[8*i:], m.Pages[page])
	}
	cmd := space.Transfer(spec.Read, 64, 64)
	cmd.SetPRP(m.Pages[order[0]], m.Pages[8])
	if _, err := c.Queues()[0].Do(&cmd, nil, 0, 0); err != nil {
		t.Fatal(err)
	}
	for i, page := range order {
		if !bytes.Equal(m.Bytes[page*4096:][:4096], content[64*512+i*4096:][:4096]) {
			t.Errorf("page %d of the command, which is page %d of memory, has other bytes", i, page)
		}
	}
}

// A command that is held ends when all others did, but for those that are stuck.
func TestHeldBesideStuck(t *testing.T) {
	n := 0
	_, d := nvmetest.Serve(t, soft.Options{Fate: func(*spec.Command) soft.Fate {
		n++
		return soft.Fate{Stuck: n == 1, Hold: 9 * (n - 1)}
	}})
	c := nvmetest.Open(t, d, nvme.Options{})
	q, space := c.Queues()[0], c.Namespace()
	m := nvmetest.Alloc(t, d, 4096)
	for tag := range uint64(2) {
		cmd := space.Transfer(spec.Read, 0, 1)
		if err := q.Submit(&cmd, m, 0, 512, tag); err != nil {
			t.Fatal(err)
		}
	}
	q.Ring()
	for done := false; !done; runtime.Gosched() {
		if _, err := q.Poll(func(tag uint64, _ spec.Completion) { done = tag == 1 }); err != nil {
			t.Fatal(err)
		}
	}
}
