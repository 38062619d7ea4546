package soft_test

import (
	"bytes"
	"errors"
	"testing"

	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/nvmetest"
	"diskgnn/iostack/nvme/soft"
	"diskgnn/iostack/nvme/spec"
)

const size = 4 << 20

// A drive that is reached by itself is the first transport of the suite.
func TestTransport(t *testing.T) {
	nvmetest.Run(t, func(_ *testing.T, d *soft.Drive) nvme.Transport { return d })
}

// What is malformed gets the status that the specification has for it.
func TestStatuses(t *testing.T) {
	_, d := nvmetest.Serve(t, soft.Options{})
	c := nvmetest.Open(t, d, nvme.Options{})
	q := c.Queues()[0]
	m := nvmetest.Alloc(t, d, 1<<20)
	io := func(opcode byte, namespace uint32, first uint64, n int) (cmd spec.Command) {
		cmd.SetHead(opcode, 0, namespace)
		cmd.SetBlocks(first, n)
		return cmd
	}
	prp := func(one, two uint64, n int) spec.Command {
		cmd := io(spec.Read, 1, 0, n)
		cmd.SetPRP(one, two)
		return cmd
	}
	fused := io(spec.Read, 1, 0, 1)
	fused[1] = 1
	sgl := io(spec.Read, 1, 0, 1)
	sgl[1] = 1 << 6
	reserved := prp(m.Pages[0], 0, 1)
	reserved[1] = 0x3c
	for _, x := range []struct {
		what string
		cmd  spec.Command
		want spec.Status
	}{
		{"namespace 0", io(spec.Read, 0, 0, 1), spec.InvalidNamespace},
		{"namespace 2", io(spec.Read, 2, 0, 1), spec.InvalidNamespace},
		{"reading all namespaces", io(spec.Read, ^uint32(0), 0, 1), spec.InvalidField},
		{"flushing all namespaces", io(spec.Flush, ^uint32(0), 0, 1), spec.Success},
		{"reserved bits beside the opcode", reserved, spec.Success},
		{"a command with an SGL", sgl, spec.InvalidField},
		{"an opcode that is none", io(0x7f, 1, 0, 1), spec.InvalidOpcode},
		{"the first block behind the last", io(spec.Read, 1, size/512, 1), spec.LBAOutOfRange},
		{"the last block and one more", io(spec.Read, 1, size/512-1, 2), spec.LBAOutOfRange},
		{"a block beyond all", io(spec.Read, 1, 1<<63, 1), spec.LBAOutOfRange},
		{"more than a transfer", io(spec.Read, 1, 0, 257), spec.InvalidField},
		{"a fused command", fused, spec.InvalidField},
		{"PRP1 in the middle of a word", prp(m.Pages[0]+2, 0, 1), spec.InvalidPRPOffset},
		{"PRP1 nowhere", prp(12345*4096, 0, 1), spec.DataTransferError},
		{"PRP2 in the middle of a page", prp(m.Pages[0], m.Pages[1]+512, 16), spec.InvalidPRPOffset},
		{"PRP2 nowhere", prp(m.Pages[0], 0, 16), spec.DataTransferError},
		{"a list nowhere", prp(m.Pages[0], 0, 32), spec.DataTransferError},
		{"a list of nothing", prp(m.Pages[0], m.Pages[1], 32), spec.DataTransferError},
		{"PRP2 that is not needed", prp(m.Pages[0], 12345, 1), spec.Success},
	} {
		_, err := q.Do(&x.cmd, nil, 0, 0)
		if x.want == spec.Success && err != nil || x.want != spec.Success && !errors.Is(err, x.want) {
			t.Errorf("%s: %v, want %v", x.what, err, x.want)
		}
	}
	admin := func(opcode byte, ten, eleven uint32, one uint64) (cmd spec.Command) {
		cmd.SetHead(opcode, 0, 0)
		cmd.SetWord(10, ten)
		cmd.SetWord(11, eleven)
		cmd.SetPRP(one, 0)
		return cmd
	}
	for _, x := range []struct {
		what string
		cmd  spec.Command
		want spec.Status
	}{
		{"completion queue 0", admin(spec.CreateCQ, 7<<16, 1, m.Pages[0]), spec.InvalidQueueID},
		{"completion queue 1 again", admin(spec.CreateCQ, 7<<16|1, 1, m.Pages[0]), spec.InvalidQueueID},
		{"completion queue 129", admin(spec.CreateCQ, 7<<16|129, 1, m.Pages[0]), spec.InvalidQueueID},
		{"a queue of one entry", admin(spec.CreateCQ, 2, 1, m.Pages[0]), spec.InvalidQueueSize},
		{"a queue of too many", admin(spec.CreateCQ, 4096<<16|2, 1, m.Pages[0]), spec.InvalidQueueSize},
		{"a queue in pieces", admin(spec.CreateCQ, 7<<16|2, 0, m.Pages[0]), spec.InvalidField},
		{"a queue that begins in a page", admin(spec.CreateCQ, 7<<16|2, 1, m.Pages[0]+64), spec.InvalidPRPOffset},
		{"a submission queue without a completion queue", admin(spec.CreateSQ, 7<<16|2, 2<<16|1, m.Pages[0]), spec.CQInvalid},
		{"a completion queue in use", admin(spec.DeleteCQ, 1, 0, 0), spec.InvalidQueueDeletion},
		{"a submission queue that is none", admin(spec.DeleteSQ, 9, 0, 0), spec.InvalidQueueID},
		{"an identification that is none", admin(spec.Identify, 0x77, 0, m.Pages[0]), spec.InvalidField},
		{"a feature that is none", admin(spec.GetFeatures, 0x77, 0, 0), spec.InvalidField},
		{"an opcode that is none", admin(0x55, 0, 0, 0), spec.InvalidOpcode},
		{"deleting the submission queue", admin(spec.DeleteSQ, 1, 0, 0), spec.Success},
		{"then the completion queue", admin(spec.DeleteCQ, 1, 0, 0), spec.Success},
	} {
		_, err := c.Admin(&x.cmd, nil, 0)
		if x.want == spec.Success && err != nil || x.want != spec.Success && !errors.Is(err, x.want) {
			t.Errorf("%s: %v, want %v", x.what, err, x.want)
		}
	}
}

// A drive without a medium moves no byte, and refuses what is malformed all the same.
func TestNull(t *testing.T) {
	_, d := nvmetest.Serve(t, soft.Options{Null: true})
	c := nvmetest.Open(t, d, nvme.Options{})
	q, space := c.Queues()[0], c.Namespace()
	m := nvmetest.Alloc(t, d, 128<<10)
	for i := range 3 * q.Depth() {
		cmd := space.Transfer(spec.Read, uint64(i), 256)
		if _, err := q.Do(&cmd, m, 0, 128<<10); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(m.Bytes, make([]byte, 128<<10)) {
		t.Error("a read without a medium wrote memory")
	}
	for want, cmd := range map[spec.Status]spec.Command{
		spec.LBAOutOfRange: space.Transfer(spec.Read, size/512, 1),
		spec.InvalidField:  space.Transfer(spec.Read, 0, 257),
	} {
		if _, err := q.Do(&cmd, m, 0, 512); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
}

// A queue is lent as it was created, and not used by its owner any more.
func TestLend(t *testing.T) {
	_, d := nvmetest.Serve(t, soft.Options{StrideShift: 2})
	c := nvmetest.Open(t, d, nvme.Options{Queues: 2, Depth: 8})
	q, space := c.Queues()[1], c.Namespace()
	r, err := q.Lend()
	if err != nil {
		t.Fatal(err)
	}
	if r.ID != 2 || r.Depth != 8 || r.Submission != 0x1000+4*16 || r.Completion != 0x1000+5*16 || len(r.SQ.Bytes) < 8*64 || len(r.CQ.Bytes) < 8*16 {
		t.Errorf("%+v", r)
	}
	m := nvmetest.Alloc(t, d, 4096)
	cmd := space.Transfer(spec.Read, 0, 1)
	if err := q.Submit(&cmd, m, 0, 512, 0); !errors.Is(err, nvme.ErrLent) {
		t.Errorf("%v", err)
	}
	if _, err := q.Lend(); !errors.Is(err, nvme.ErrLent) {
		t.Errorf("lent twice: %v", err)
	}
	if _, err := c.Queues()[0].Do(&cmd, m, 0, 512); err != nil {
		t.Error(err)
	}
	if _, err := c.Queues()[0].Lend(); err == nil {
		t.Error("a queue that was used is lent")
	}
}
