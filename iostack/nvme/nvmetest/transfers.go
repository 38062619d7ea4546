package nvmetest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/soft"
	"diskgnn/iostack/nvme/spec"
)

// Reads of all sizes, by queues of all depths and doorbell strides, in many laps, completed
// in another order than they were submitted.
func reads(t *testing.T, reach Reach) {
	for _, depth := range []int{2, 3, 64} {
		for _, stride := range []int{0, 4} {
			rnd := rand.New(rand.NewPCG(uint64(depth), uint64(stride)))
			fates := rand.New(rand.NewPCG(uint64(stride), uint64(depth))) // the controller's
			content, d := Serve(t, soft.Options{StrideShift: stride, Fate: func(*spec.Command) soft.Fate {
				return soft.Fate{Hold: fates.IntN(4) * fates.IntN(2)}
			}})
			c := Open(t, reach(t, d), nvme.Options{Depth: depth, Queues: 2})
			for _, q := range c.Queues() {
				space := c.Namespace()
				type read struct {
					first uint64
					n, at int
				}
				const each = 132 << 10
				m := Alloc(t, c.Transport(), (depth-1)*each)
				var free []int
				for i := range depth - 1 {
					free = append(free, i)
				}
				under := map[uint64]read{}
				place := map[uint64]int{}
				left, tag := 5*depth, uint64(0)
				for left > 0 || len(under) > 0 {
					for left > 0 && q.Room() > 0 {
						i := free[len(free)-1]
						free = free[:len(free)-1]
						n := 1 + rnd.IntN(256)
						r := read{first: uint64(rnd.IntN(size/512 - n)), n: n, at: i*each + 4*rnd.IntN(1024)}
						cmd := space.Transfer(spec.Read, r.first, n)
						if err := q.Submit(&cmd, m, r.at, n*512, tag); err != nil {
							t.Fatal(err)
						}
						under[tag], place[tag] = r, i
						tag++
						left--
					}
					if cmd := space.Transfer(spec.Read, 0, 1); q.Room() == 0 && !errors.Is(q.Submit(&cmd, m, 0, 512, 0), nvme.ErrFull) {
						t.Fatal("a full queue takes a command")
					}
					q.Ring()
					if _, err := q.Poll(func(tag uint64, done spec.Completion) {
						r, known := under[tag]
						if !known || done.Status.Failed() {
							t.Errorf("read %d: %v", tag, done.Status)
						}
						if want := content[r.first*512:][:r.n*512]; !bytes.Equal(m.Bytes[r.at:][:r.n*512], want) {
							t.Errorf("read %d of %d blocks from %d has other bytes", tag, r.n, r.first)
						}
						free = append(free, place[tag])
						delete(under, tag)
					}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
}

// What is written is read back, and is in the file after a flush.
func writes(t *testing.T, reach Reach) {
	content, d := Serve(t, soft.Options{BlockBytes: 4096})
	c := Open(t, reach(t, d), nvme.Options{})
	q, space := c.Queues()[0], c.Namespace()
	m := Alloc(t, c.Transport(), 64<<10)
	for i := range m.Bytes {
		m.Bytes[i] = byte(i * 7)
	}
	cmd := space.Transfer(spec.Write, 3, 16)
	if _, err := q.Do(&cmd, m, 0, 64<<10); err != nil {
		t.Fatal(err)
	}
	cmd = space.Flush()
	if _, err := q.Do(&cmd, nil, 0, 0); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(strings.TrimPrefix(d.Name(), "soft:"))
	if err != nil {
		t.Fatal(err)
	}
	copy(content[3*4096:], m.Bytes)
	if !bytes.Equal(got, content) {
		t.Error("the file has other bytes")
	}
}
