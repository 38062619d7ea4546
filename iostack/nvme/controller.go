package nvme

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"diskgnn/iostack/nvme/spec"
)

// Options are the options of a Controller. The zero value means the defaults.
type Options struct {
	Queues  int           // number of queue pairs for reads and writes; 0: one
	Depth   int           // entries of each queue; 0: 256. The controller's limit applies
	Timeout time.Duration // time limit of a command; 0: 10 s

	// Now and Pause replace the clock, and the pause between two polls for a completion; nil: the clock and
	// a pause of the machine.
	Now   func() time.Time
	Pause func()
}

// Controller is a controller that Open has brought up. Its queues may be used at the same time, each by one
// goroutine. All other methods are for one goroutine, while no queue is in use.
type Controller struct {
	t      Transport
	o      Options
	caps   spec.Capabilities
	stride int
	admin  *Queue
	queues []*Queue
	id     Identity
	space  Namespace
	closed bool
}

// Identity is the data that a controller reports about itself.
type Identity struct {
	Serial, Model, Firmware string
	MaxTransfer             int // largest transfer of a command, in bytes
	Namespaces              uint32
}

// Namespace is a range of blocks.
type Namespace struct {
	ID         uint32
	Blocks     uint64
	BlockBytes int
}

// maxTransfer is the largest transfer of a command in bytes, also if the controller allows more.
const maxTransfer = 1 << 20

// Open brings a controller up: it disables the controller, sets its admin queues, enables and identifies
// it, and makes queue pairs. It does not touch the data of the first namespace. Close of the controller
// closes the transport; if Open fails, it closes the transport.
func Open(ctx context.Context, t Transport, o Options) (*Controller, error) {
	c := &Controller{t: t, o: o}
	if c.o.Queues == 0 {
		c.o.Queues = 1
	}
	if c.o.Depth == 0 {
		c.o.Depth = 256
	}
	if c.o.Timeout == 0 {
		c.o.Timeout = 10 * time.Second
	}
	if c.o.Now == nil {
		c.o.Now = time.Now
	}
	if c.o.Pause == nil {
		c.o.Pause = runtime.Gosched
	}
	if err := c.up(ctx); err != nil {
		name := t.Name()
		if caution := Caution(t); caution != "" {
			name += " (" + caution + ")"
		}
		return nil, errors.Join(fmt.Errorf("bring up %s: %w", name, err), c.Close())
	}
	return c, nil
}

func (c *Controller) now() time.Time { return c.o.Now() }
func (c *Controller) pause()         { c.o.Pause() }

// Identity returns the data that the controller reported about itself.
func (c *Controller) Identity() Identity { return c.id }

// Namespace returns the first namespace.
func (c *Controller) Namespace() Namespace { return c.space }

// Queues returns the queue pairs, at least one. The controller may have granted fewer than Options.Queues.
func (c *Controller) Queues() []*Queue { return c.queues }

// Transport returns the transport.
func (c *Controller) Transport() Transport { return c.t }

func (c *Controller) up(ctx context.Context) error {
	c.caps = spec.Capabilities(c.t.Load64(spec.CAP))
	if uint64(c.caps) == ^uint64(0) {
		return fmt.Errorf("%w: its registers read as ones", ErrFatal)
	}
	if c.caps.MinPage() > Page || c.caps.MaxPage() < Page {
		return fmt.Errorf("%w: it has pages of %d to %d bytes, not of %d", ErrUnsupported, c.caps.MinPage(), c.caps.MaxPage(), Page)
	}
	c.stride = c.caps.Stride()
	if err := c.enable(ctx, false); err != nil {
		return err
	}
	admin, err := c.newQueue(0, min(64, c.caps.MaxEntries()))
	if err != nil {
		return err
	}
	c.admin = admin
	c.t.Store32(spec.AQA, uint32(admin.depth-1)<<16|uint32(admin.depth-1))
	c.t.Store64(spec.ASQ, admin.sq.Address(0))
	c.t.Store64(spec.ACQ, admin.cq.Address(0))
	if err := c.enable(ctx, true); err != nil {
		return err
	}
	if err := c.identify(); err != nil {
		return err
	}
	return c.makeQueues()
}

// enable sets or clears CC.EN and waits for CSTS to follow, up to the time limit that the controller
// states.
func (c *Controller) enable(ctx context.Context, on bool) error {
	want := uint32(0)
	if on {
		c.t.Store32(spec.CC, spec.Enable|spec.Entries)
		want = spec.Ready
	} else {
		c.t.Store32(spec.CC, c.t.Load32(spec.CC)&^spec.Enable)
	}
	deadline := c.now().Add(time.Duration(max(1, c.caps.Timeout())) * 500 * time.Millisecond)
	for {
		status := c.t.Load32(spec.CSTS)
		switch {
		case status == ^uint32(0), on && status&spec.Fatal != 0:
			return fmt.Errorf("%w: CSTS %08xh", ErrFatal, status)
		case status&spec.Ready == want:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case c.now().After(deadline):
			return fmt.Errorf("%w: CSTS stays %08xh with CC.EN %v for %v", ErrTimeout, status, on, time.Duration(max(1, c.caps.Timeout()))*500*time.Millisecond)
		}
		c.pause()
	}
}

// newQueue makes the rings of a queue pair. The queue is not created at the controller yet.
func (c *Controller) newQueue(id, depth int) (*Queue, error) {
	q := &Queue{c: c, id: id, depth: depth, phase: true, slots: make([]slot, depth-1), perSlot: listBytes(maxTransfer)}
	for i := range q.slots {
		q.free = append(q.free, uint16(len(q.slots)-1-i))
	}
	var err error
	if q.sq, err = c.t.Alloc(depth * spec.CommandBytes); err != nil {
		return nil, err
	}
	if q.cq, err = c.t.Alloc(depth * spec.CompletionBytes); err != nil {
		return nil, err
	}
	q.lists, err = c.t.Alloc(len(q.slots) * q.perSlot)
	return q, err
}

// identify reads the identity of the controller and of its first namespace.
func (c *Controller) identify() error {
	page, err := c.t.Alloc(spec.IdentifyBytes)
	if err != nil {
		return err
	}
	defer c.t.Free(page)
	ask := func(what uint32, namespace uint32) ([]byte, error) {
		var cmd spec.Command
		cmd.SetHead(spec.Identify, 0, namespace)
		cmd.SetWord(10, what)
		_, err := c.admin.Do(&cmd, page, 0, spec.IdentifyBytes)
		return page.Bytes, err
	}
	b, err := ask(spec.IdentifyController, 0)
	if err != nil {
		return fmt.Errorf("identify the controller: %w", err)
	}
	text := func(b []byte) string { return strings.TrimSpace(strings.TrimRight(string(b), "\x00")) }
	c.id = Identity{
		Serial: text(b[4:24]), Model: text(b[24:64]), Firmware: text(b[64:72]),
		MaxTransfer: maxTransfer, Namespaces: binary.LittleEndian.Uint32(b[516:]),
	}
	if limit := b[77]; limit > 0 && limit < 20 { // 2^limit of the smallest page; 0: no limit
		c.id.MaxTransfer = min(maxTransfer, c.caps.MinPage()<<limit)
	}
	if b[512]>>4 < 6 || b[512]&15 > 6 || b[513]>>4 < 4 || b[513]&15 > 4 {
		return fmt.Errorf("%w: it has queue entries of 2^%d…2^%d and 2^%d…2^%d bytes, not of 2^6 and 2^4", ErrUnsupported, b[512]&15, b[512]>>4, b[513]&15, b[513]>>4)
	}
	if b, err = ask(spec.IdentifyNamespace, 1); err != nil {
		return fmt.Errorf("identify namespace 1: %w", err)
	}
	format := binary.LittleEndian.Uint32(b[128+4*(b[26]&15):])
	c.space = Namespace{ID: 1, Blocks: binary.LittleEndian.Uint64(b), BlockBytes: 1 << (format >> 16 & 0xff)}
	if format&0xffff != 0 || format>>16&0xff < 9 || format>>16&0xff > 12 || c.space.Blocks == 0 {
		return fmt.Errorf("%w: namespace 1 has %d blocks of 2^%d bytes with %d bytes of metadata; needed are blocks of 512 to 4096 bytes without metadata", ErrUnsupported,
			c.space.Blocks, format>>16&0xff, format&0xffff)
	}
	return nil
}

// makeQueues requests queue pairs, and creates the granted number.
func (c *Controller) makeQueues() error {
	var cmd spec.Command
	cmd.SetHead(spec.SetFeatures, 0, 0)
	cmd.SetWord(10, spec.NumberOfQueues)
	cmd.SetWord(11, uint32(c.o.Queues-1)<<16|uint32(c.o.Queues-1))
	done, err := c.admin.Do(&cmd, nil, 0, 0)
	if err != nil {
		return fmt.Errorf("ask for %d queues: %w", c.o.Queues, err)
	}
	granted := min(int(done.Result&0xffff), int(done.Result>>16)) + 1
	if m, ok := c.t.(mapped); ok {
		granted = min(granted, ((m.Mapped()-4-spec.Doorbells)/c.stride-1)/2)
	}
	if granted < 1 {
		return fmt.Errorf("%w: the doorbells of queue 1 are not within reach of %s", ErrUnsupported, c.t.Name())
	}
	for id := 1; id <= min(c.o.Queues, granted); id++ {
		q, err := c.newQueue(id, max(2, min(c.o.Depth, c.caps.MaxEntries())))
		if err != nil {
			return err
		}
		for _, make := range []struct {
			opcode byte
			ring   *Memory
			word   uint32
		}{{spec.CreateCQ, q.cq, 1}, {spec.CreateSQ, q.sq, uint32(id)<<16 | 1}} {
			var cmd spec.Command
			cmd.SetHead(make.opcode, 0, 0)
			cmd.SetPRP(make.ring.Address(0), 0)
			cmd.SetWord(10, uint32(q.depth-1)<<16|uint32(id))
			cmd.SetWord(11, make.word)
			if _, err := c.admin.Do(&cmd, nil, 0, 0); err != nil {
				return fmt.Errorf("create queue %d: %w", id, err)
			}
		}
		c.queues = append(c.queues, q)
	}
	return nil
}

// Admin carries out an admin command and waits for it. m is memory for n bytes of data, or nil. A failed
// command is an error of type spec.Status.
func (c *Controller) Admin(cmd *spec.Command, m *Memory, n int) (spec.Completion, error) {
	if c.closed {
		return spec.Completion{}, ErrClosed
	}
	return c.admin.Do(cmd, m, 0, n)
}

// Abort asks the controller to abort the command id of a queue, and returns whether it did; it may refuse.
// An aborted command is completed with spec.AbortRequested. Queues may be in use during the call.
func (c *Controller) Abort(q *Queue, id uint16) (aborted bool, err error) {
	var cmd spec.Command
	cmd.SetHead(spec.Abort, 0, 0)
	cmd.SetWord(10, uint32(id)<<16|uint32(q.id))
	done, err := c.Admin(&cmd, nil, 0)
	return err == nil && done.Result&1 == 0, err
}

// Timeout returns the time limit of a command.
func (c *Controller) Timeout() time.Duration { return c.o.Timeout }

// Reset disables the controller and brings it up again, with new queues: the old queues are gone, and
// commands that were under way are lost. A controller that cannot be disabled may still write to the rings
// and to memory of commands: this memory is kept, and only Close is then allowed.
func (c *Controller) Reset(ctx context.Context) error {
	if c.closed {
		return ErrClosed
	}
	all := c.kill(errors.Join(ErrClosed, errors.New("the controller was reset")))
	err := c.enable(ctx, false)
	if err == nil {
		for _, q := range all {
			for _, m := range []*Memory{q.sq, q.cq, q.lists} {
				err = errors.Join(err, c.t.Free(m))
			}
		}
		c.admin, c.queues = nil, nil
	}
	if err != nil {
		return fmt.Errorf("reset %s: %w", c.t.Name(), err)
	}
	return c.up(ctx)
}

// kill makes all queues return an error, and returns the queues.
func (c *Controller) kill(dead error) (all []*Queue) {
	for _, q := range append(c.queues[:len(c.queues):len(c.queues)], c.admin) {
		if q != nil {
			q.dead = dead
			all = append(all, q)
		}
	}
	return all
}

// Close disables the controller, waits until it is disabled, and closes the transport. If it cannot be
// disabled, the memory that it may write to is abandoned. Closing again does nothing.
func (c *Controller) Close() error {
	if c.closed {
		return nil
	}
	c.closed = true
	c.kill(ErrClosed)
	err := c.enable(context.Background(), false)
	if err == nil || errors.Is(err, ErrFatal) { // which is not there any more, and writes nothing
		return c.t.Close()
	}
	return errors.Join(fmt.Errorf("disable %s: %w", c.t.Name(), err), c.t.Abandon())
}

// Transfer returns the command that reads or writes n blocks of the namespace from block first on. opcode
// is spec.Read or spec.Write.
func (s *Namespace) Transfer(opcode byte, first uint64, n int) (cmd spec.Command) {
	cmd.SetHead(opcode, 0, s.ID)
	cmd.SetBlocks(first, n)
	return cmd
}

// Flush returns the command that makes all completed writes to the namespace durable.
func (s *Namespace) Flush() (cmd spec.Command) {
	cmd.SetHead(spec.Flush, 0, s.ID)
	return cmd
}
