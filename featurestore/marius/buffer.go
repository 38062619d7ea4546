package marius

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/phases"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
)

// buffer has the partitions in memory, each in a room of frames. It implements phases.Residents.
type buffer struct {
	*design
	stack  iostack.Stack
	file   iostack.File // of the rows by partition; nil before Seek
	sums   *binio.Sums  // of its pages
	course *course

	frames  *phases.Frames // room after room
	places  *device.Host   // by node: the place of its row in the file
	landing *device.Host   // of both trips
	rooms   []int32        // by partition: its room, or absent
	free    []int32        // rooms without a partition

	phase int    // number of the present phase
	ahead pieces // partitions of the next phase that are read during the present one
	had   int    // batches of the present phase after their turns
	trips [2]trip
}

// absent is the room of a partition that is not in RAM.
const absent = -1

// A trip is a group of reads of pieces in flight.
type trip struct {
	group   iostack.Group
	req     [tripPieces]iostack.Request
	to      [tripPieces]int64 // by request: the place of the piece in the frames, in bytes
	n       int
	landing []byte // of pieces for frames on the GPU; nil: there are none
}

// pieces are the pieces of some partitions, in the order of the file.
type pieces struct {
	of    []uint16
	begun int   // place in of of the first partition that was not read whole
	off   int64 // bytes read of this partition
	read  int64 // bytes read of all partitions
	bytes int64 // bytes of all partitions
}

func (b *buffer) pieces(of []uint16) pieces {
	p := pieces{of: of}
	for _, in := range of {
		p.bytes += b.table.bytes(int(in))
	}
	return p
}

// Close releases files and memory.
func (b *buffer) Close() error {
	var err error
	if b.file != nil {
		_ = errors.Join(b.stack.Unregister(b.frames.RAM), b.stack.Unregister(b.landing.Bytes())) // Register was a hint
		err = b.file.Close()
	}
	for _, h := range []*device.Host{b.places, b.landing} {
		if h != nil {
			h.Free()
		}
	}
	return err
}

// begin computes the phases, and opens the file of rows by partition, which it makes if needed. It returns
// the bytes read.
func (b *buffer) begin(ctx context.Context, rep progress.Reporter) (read int64, err error) {
	places := b.places.Uint32s()[:b.facts.Nodes]
	if b.course, err = b.newCourse(ctx, places); err != nil {
		return 0, err
	}
	if b.sums, read, err = b.prepared(ctx, places, rep); err != nil {
		return 0, err
	}
	if b.file, err = b.stack.Open(b.design.file()); err != nil {
		return 0, err
	}
	_ = errors.Join(b.stack.Register(b.frames.RAM), b.stack.Register(b.landing.Bytes())) // a hint
	return read, nil
}

// damaged adds to an error about the file of rows by partition the advice to remove it.
func (b *buffer) damaged(err error) error {
	if err == nil || !errors.Is(err, fault.ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%w; remove it, and the next run will make it again", err)
}

// Seek reads the partitions in RAM before the batch: the partitions of its phase, and the part of the next
// phase that its earlier batches read ahead. Before the first batch of a phase, Seek leaves out the
// partitions of the previous phase that the batch will replace.
func (b *buffer) Seek(ctx context.Context, batch int, rep progress.Reporter) (read int64, err error) {
	if b.file == nil {
		if read, err = b.begin(ctx, rep); err != nil {
			return 0, err
		}
	}
	number, before := b.course.at(batch)
	n := len(b.course.phases)
	begins := before == 0 && n > 1
	if begins {
		number = (number + n - 1) % n
		before = b.course.phases[number].batches
	}
	b.empty()
	b.phase, b.had = number, 0
	for _, p := range b.course.phases[number].held {
		b.take(int(p))
	}
	here := b.pieces(b.course.phases[number].held)
	if begins {
		here = b.pieces(common(here.of, b.course.phases[(number+1)%n].held))
	}
	task := rep.Task("read the partitions in the buffer", here.bytes, progress.Bytes)
	defer task.Done()
	var counts featurestore.Counts
	if err := b.bring(ctx, &here, here.bytes, &counts); err != nil {
		return 0, err
	}
	b.enter()
	b.had = before
	if err := b.bring(ctx, &b.ahead, b.share(), &counts); err != nil {
		return 0, err
	}
	if !begins {
		err = b.repeat(ctx, batch, before)
	}
	return read + counts.BytesRead, err
}

// repeat brings the uses of frames to their state before the given batch: it finds the nodes of the `before`
// earlier batches of the phase.
func (b *buffer) repeat(ctx context.Context, batch, before int) error {
	if len(b.course.comes(b.phase)) == 0 {
		return nil // no partition came with the phase: no row is fresh
	}
	var buf []byte
	for i := range before {
		index := (batch - before + i + b.course.train) % b.course.train
		nodes, again, err := b.source.Inputs(ctx, featurestore.Ref{Index: index}, buf)
		if buf = again; err != nil {
			return fmt.Errorf("find the input nodes of earlier batches: %w", err)
		}
		if err := b.Find(nodes); err != nil {
			return err
		}
		b.frames.Uses(nodes)
	}
	return nil
}

// common returns the numbers that are in both ascending lists.
func common(x, y []uint16) (both []uint16) {
	for len(x) > 0 && len(y) > 0 {
		switch {
		case x[0] < y[0]:
			x = x[1:]
		case x[0] > y[0]:
			y = y[1:]
		default:
			both, x, y = append(both, x[0]), x[1:], y[1:]
		}
	}
	return both
}

// empty frees all rooms.
func (b *buffer) empty() {
	b.free = b.free[:0]
	for room := cap(b.free) - 1; room >= 0; room-- {
		b.free = append(b.free, int32(room))
	}
	for p := range b.rooms {
		b.rooms[p] = absent
	}
}

func (b *buffer) take(p int) {
	last := len(b.free) - 1
	b.rooms[p], b.free = b.free[last], b.free[:last]
}

// enter begins the present phase: rows of partitions that came with it count as read, and free rooms go to
// partitions of the next phase, which are read ahead.
func (b *buffer) enter() {
	b.frames.Forget()
	for _, p := range b.course.comes(b.phase) {
		lo := int64(b.rooms[p]) * b.table.roomRows()
		b.frames.Read(lo, lo+b.table.rows(int(p)))
	}
	next := b.course.comes((b.phase + 1) % len(b.course.phases))
	next = next[:min(len(next), len(b.free))]
	for _, p := range next {
		b.take(int(p))
	}
	b.ahead = b.pieces(next)
}

// share returns the bytes of the next phase that are to be read after the first `had` batches of the present
// phase.
func (b *buffer) share() int64 {
	n := int64(b.course.phases[b.phase].batches)
	whole := b.ahead.bytes / n
	return whole*int64(b.had) + (b.ahead.bytes-whole*n)*int64(b.had)/n
}

// Turn replaces partitions at the beginning of a phase, and reads the batch's share of the next phase.
func (b *buffer) Turn(ctx context.Context, batch int, counts *featurestore.Counts) error {
	n := len(b.course.phases)
	if next := (b.phase + 1) % n; n > 1 && batch == b.course.phases[next].first {
		if err := b.change(ctx, next, counts); err != nil {
			return err
		}
	}
	b.had++
	return b.bring(ctx, &b.ahead, b.share(), counts)
}

// change makes the next phase the present one, and adds its reads to counts. Earlier batches do not need the
// partitions any more that leave.
func (b *buffer) change(ctx context.Context, next int, counts *featurestore.Counts) error {
	if err := b.frames.Settle(ctx); err != nil {
		return err
	}
	held := b.course.phases[next].held
	for _, p := range b.course.phases[b.phase].held {
		if _, stays := slices.BinarySearch(held, p); !stays {
			b.free = append(b.free, b.rooms[p])
			b.rooms[p] = absent
		}
	}
	var missing []uint16
	for _, p := range held {
		if b.rooms[p] == absent {
			b.take(int(p))
			missing = append(missing, p)
		}
	}
	rest := b.pieces(missing)
	if err := b.bring(ctx, &rest, rest.bytes, counts); err != nil {
		return err
	}
	b.phase, b.had = next, 0
	b.enter()
	return nil
}

// Find implements phases.Residents.
func (b *buffer) Find(nodes []uint32) error {
	places, roomRows := b.places.Uint32s(), b.table.roomRows()
	for i, v := range nodes {
		place := int64(places[v])
		p := b.table.of(place)
		if b.rooms[p] == absent {
			return fault.New(fault.ErrCorrupt, "%s: a batch has node %d, but its partition %d is not in the buffer", b.source.Dir(), v, p)
		}
		nodes[i] = uint32(int64(b.rooms[p])*roomRows + place - b.table.begin[p])
	}
	return nil
}

// bring reads pieces into the rooms of their partitions until upTo bytes of them are read, rounded up to
// whole pages. It adds its reads to counts.
func (b *buffer) bring(ctx context.Context, p *pieces, upTo int64, counts *featurestore.Counts) (err error) {
	for turn := 0; p.read < upTo || b.trips[0].n+b.trips[1].n > 0; turn = 1 - turn {
		t := &b.trips[turn]
		if err = b.finish(ctx, t); err != nil {
			break
		}
		if err = b.start(t, p, upTo, counts); err != nil {
			break
		}
	}
	if err == nil {
		err = b.frames.Flush()
	}
	if err != nil {
		for i := range b.trips {
			iostack.Drop(b.stack, &b.trips[i].group)
			b.trips[i].n = 0
		}
		return b.damaged(fmt.Errorf("read partitions: %w", err))
	}
	return nil
}

// start submits the reads of the next trip, if any are left.
func (b *buffer) start(t *trip, p *pieces, upTo int64, counts *featurestore.Counts) error {
	for t.n < tripPieces && p.read < upTo {
		in := int(p.of[p.begun])
		whole := b.table.bytes(in)
		n := min(pieceBytes, whole-p.off, binio.AlignUp(upTo-p.read, binio.Page))
		at := int64(b.rooms[in])*b.table.roomRows()*b.table.row + p.off
		off := b.table.offset[in] + p.off
		buf := b.frames.Bytes(at, n)
		if buf == nil {
			buf = t.landing[t.n*pieceBytes:][:n]
		}
		t.req[t.n], t.to[t.n] = iostack.Request{File: b.file, Offset: off, Buf: buf}, at
		t.n++
		counts.BytesRead += iostack.Extent(b.file, off, n)
		counts.Requests++
		p.read += n
		if p.off += n; p.off == whole {
			p.begun, p.off = p.begun+1, 0
		}
	}
	if t.n == 0 {
		return nil
	}
	return b.stack.Submit(&t.group, t.req[:t.n])
}

// finish waits for the reads of a trip, if any, checks them, and writes pieces that landed to their frames.
func (b *buffer) finish(ctx context.Context, t *trip) error {
	n := t.n
	if t.n = 0; n == 0 {
		return nil
	}
	if err := b.stack.Wait(ctx, &t.group); err != nil {
		return err
	}
	for i, r := range t.req[:n] {
		if err := b.sums.Verify(b.file.Name(), r.Offset, r.Buf); err != nil {
			return err
		}
		if b.frames.Bytes(t.to[i], int64(len(r.Buf))) != nil {
			continue // it landed in place
		}
		if err := b.frames.Write(t.to[i], r.Buf); err != nil {
			return err
		}
	}
	return nil
}

func (d *design) Open(stack iostack.Stack, _ featurestore.Loaders, frames *phases.Frames, rooms int64) (phases.Residents, error) {
	b := &buffer{design: d, stack: stack, frames: frames, rooms: make([]int32, d.params.Partitions), free: make([]int32, 0, rooms)}
	var errs [2]error
	b.places, errs[0] = device.NewHost(int(d.placesBytes()))
	b.landing, errs[1] = device.NewHost(int(landingBytes(frames.Near)))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	if half := len(b.landing.Bytes()) / 2; half > 0 {
		b.trips[0].landing, b.trips[1].landing = b.landing.Bytes()[:half], b.landing.Bytes()[half:]
	}
	return b, nil
}
