package soft

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/spec"
)

// admin carries out an admin command and completes it. Asynchronous event requests are kept forever: there
// are no events.
func (c *controller) admin(sq *submission, cmd *spec.Command) {
	status, result := spec.InvalidOpcode|spec.DNR, uint32(0)
	switch cmd.Opcode() {
	case spec.Identify:
		status = c.identify(cmd)
	case spec.SetFeatures, spec.GetFeatures:
		status, result = c.features(cmd)
	case spec.CreateCQ:
		status = c.createCQ(cmd)
	case spec.CreateSQ:
		status = c.createSQ(cmd)
	case spec.DeleteSQ:
		status = c.deleteSQ(cmd)
	case spec.DeleteCQ:
		status = c.deleteCQ(cmd)
	case spec.Abort:
		status, result = spec.Success, 1 // not aborted: it is too late
		if c.abort(uint16(cmd.Word(10)), uint16(cmd.Word(10)>>16)) {
			result = 0
		}
	case spec.GetLogPage:
		status = c.logPage(cmd)
	case spec.AsyncEvent:
		sq.cq.promised--
		return
	}
	c.post(sq, cmd.ID(), status, result)
}

// abort ends a stuck command, and reports whether there was one.
func (c *controller) abort(queue, id uint16) bool {
	sq := c.sqs[queue]
	if sq == nil {
		return false
	}
	for i, j := range sq.stuck {
		if j.cmd.ID() == id {
			sq.stuck = slices.Delete(sq.stuck, i, i+1)
			c.post(sq, id, spec.AbortRequested, 0)
			return true
		}
	}
	return false
}

func (c *controller) identify(cmd *spec.Command) spec.Status {
	page := make([]byte, spec.IdentifyBytes)
	switch cmd.Word(10) & 0xff {
	case spec.IdentifyController:
		copy(page[4:24], "SOFT                ")
		copy(page[24:64], "diskgnn soft controller                 ")
		copy(page[64:72], "1       ")
		page[77] = byte(c.d.o.TransferMax)
		page[512], page[513] = 0x66, 0x44
		binary.LittleEndian.PutUint16(page[514:], uint16(c.d.o.MaxEntries-1))
		binary.LittleEndian.PutUint32(page[516:], 1)
	case spec.IdentifyNamespace:
		if cmd.Namespace() != 1 {
			return spec.InvalidNamespace | spec.DNR
		}
		for _, at := range []int{0, 8, 16} {
			binary.LittleEndian.PutUint64(page[at:], c.d.blocks)
		}
		shift := byte(9)
		for 1<<shift < c.d.o.BlockBytes {
			shift++
		}
		page[130] = shift
	case spec.IdentifyNamespaces:
		if cmd.Namespace() >= spec.AllNamespaces-1 {
			return spec.InvalidNamespace | spec.DNR
		}
		if cmd.Namespace() == 0 { // those behind it
			page[0] = 1
		}
	case spec.IdentifyNames:
		if cmd.Namespace() != 1 {
			return spec.InvalidNamespace | spec.DNR
		}
		page[0], page[1] = spec.NameUUID, 16
		copy(page[4:], c.d.uuid())
	default:
		return spec.InvalidField | spec.DNR
	}
	return c.answer(cmd, page)
}

// uuid returns the identifier of the namespace: it follows from the file's name, so that it never changes
// (RFC 9562, version 8).
func (d *Drive) uuid() []byte {
	b := sha256.Sum256([]byte(d.name))
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	return b[:16]
}

// logPage returns the mandatory logs, without any events.
func (c *controller) logPage(cmd *spec.Command) spec.Status {
	most := map[uint32]int{spec.ErrorLog: 64, spec.HealthLog: 512, spec.FirmwareLog: 512}[cmd.Word(10)&0xff]
	if most == 0 {
		return spec.InvalidLogPage | spec.DNR
	}
	n := (int(cmd.Word(10)>>16) + 1) * 4
	if cmd.Word(11)&0xffff != 0 || cmd.Word(12) != 0 || cmd.Word(13) != 0 || n > most {
		return spec.InvalidField | spec.DNR // beyond the log's end
	}
	return c.answer(cmd, make([]byte, n))
}

// answer copies the data of a reply to the command's memory.
func (c *controller) answer(cmd *spec.Command, b []byte) spec.Status {
	parts, status := c.d.bus.segments(cmd, len(b), nil)
	if status.Failed() {
		return status
	}
	for _, p := range parts {
		b = b[copy(p, b):]
	}
	return spec.Success
}

// features gets and sets features: the number of queues, and the mandatory ones, which have no effect.
func (c *controller) features(cmd *spec.Command) (spec.Status, uint32) {
	id, sets := cmd.Word(10)&0xff, cmd.Opcode() == spec.SetFeatures
	switch {
	case id == spec.NumberOfQueues && sets && c.created:
		return spec.CommandSequenceError | spec.DNR, 0
	case id == spec.NumberOfQueues:
		if asked := cmd.Word(11); sets && (asked&0xffff == 0xffff || asked>>16 == 0xffff) {
			return spec.InvalidField | spec.DNR, 0
		}
		granted := uint32(c.d.o.Queues - 1)
		return spec.Success, granted<<16 | granted
	case id < 1 || id > 0xb || id == 3 || id == 6: // 3 and 6 are optional
		return spec.InvalidField | spec.DNR, 0
	case sets:
		c.values[id] = cmd.Word(11)
		return spec.Success, 0
	}
	return spec.Success, c.values[id]
}

// ring returns the pages of a queue that a command creates, its identifier and size.
func (c *controller) ring(cmd *spec.Command, exists func(uint16) bool, entry int) (ring [][]byte, id, size uint16, status spec.Status) {
	id, size = uint16(cmd.Word(10)), uint16(cmd.Word(10)>>16)
	switch {
	case id == 0 || int(id) > c.d.o.Queues || exists(id):
		return nil, 0, 0, spec.InvalidQueueID | spec.DNR
	case size == 0 || int(size) >= c.d.o.MaxEntries:
		return nil, 0, 0, spec.InvalidQueueSize | spec.DNR
	case cmd.Word(11)&1 == 0:
		return nil, 0, 0, spec.InvalidField | spec.DNR
	case cmd.PRP1()%nvme.Page != 0:
		return nil, 0, 0, spec.InvalidPRPOffset | spec.DNR
	}
	if ring = c.d.bus.span(cmd.PRP1(), (int(size)+1)*entry); ring == nil {
		return nil, 0, 0, spec.InvalidField | spec.DNR
	}
	return ring, id, size + 1, spec.Success
}

func (c *controller) createCQ(cmd *spec.Command) spec.Status {
	ring, id, size, status := c.ring(cmd, func(id uint16) bool { return c.cqs[id] != nil }, spec.CompletionBytes)
	if status.Failed() {
		return status
	}
	if cmd.Word(11)>>16 != 0 && cmd.Word(11)&2 != 0 {
		return spec.InvalidInterruptVector | spec.DNR
	}
	c.created = true
	c.cqs[id] = &completion{id: id, size: size, ring: ring, phase: true}
	c.d.Store32(spec.CompletionDoorbell(int(id), 4<<c.d.o.StrideShift), 0)
	return spec.Success
}

func (c *controller) createSQ(cmd *spec.Command) spec.Status {
	ring, id, size, status := c.ring(cmd, func(id uint16) bool { return c.sqs[id] != nil }, spec.CommandBytes)
	if status.Failed() {
		return status
	}
	of := uint16(cmd.Word(11) >> 16)
	switch cq := c.cqs[of]; {
	case of == 0 || int(of) > c.d.o.Queues:
		return spec.InvalidQueueID | spec.DNR
	case cq == nil:
		return spec.CQInvalid | spec.DNR
	default:
		cq.users++
		c.sqs[id] = &submission{id: id, size: size, ring: ring, cq: cq}
	}
	c.d.Store32(spec.SubmissionDoorbell(int(id), 4<<c.d.o.StrideShift), 0)
	return spec.Success
}

// deleteSQ deletes a submission queue after it has completed the fetched commands.
func (c *controller) deleteSQ(cmd *spec.Command) spec.Status {
	id := uint16(cmd.Word(10))
	sq := c.sqs[id]
	if id == 0 || sq == nil {
		return spec.InvalidQueueID | spec.DNR
	}
	sq.deleted = true
	for c.busy > 0 {
		c.finish(c.await())
	}
	for _, j := range sq.stuck {
		c.post(sq, j.cmd.ID(), spec.AbortSQDeleted, 0)
	}
	sq.stuck = nil
	for _, h := range sq.held {
		c.post(sq, h.cmd.ID(), h.status, 0)
	}
	sq.held = nil
	sq.cq.users--
	delete(c.sqs, id)
	return spec.Success
}

func (c *controller) deleteCQ(cmd *spec.Command) spec.Status {
	id := uint16(cmd.Word(10))
	cq := c.cqs[id]
	switch {
	case id == 0 || cq == nil:
		return spec.InvalidQueueID | spec.DNR
	case cq.users > 0:
		return spec.InvalidQueueDeletion | spec.DNR
	}
	delete(c.cqs, id)
	return spec.Success
}
