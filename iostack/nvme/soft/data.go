package soft

import (
	"encoding/binary"

	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/spec"
)

// segments returns the memory of a command's data, n bytes, by its PRPs.
func (b *bus) segments(cmd *spec.Command, n int) (parts [][]byte, status spec.Status) {
	one := cmd.PRP1()
	if one%4 != 0 {
		return nil, spec.InvalidPRPOffset | spec.DNR
	}
	take := func(address uint64) bool {
		p := b.at(address)
		if p == nil {
			return false
		}
		parts = append(parts, p[:min(n, len(p))])
		n -= len(parts[len(parts)-1])
		return true
	}
	if !take(one) {
		return nil, spec.DataTransferError
	}
	switch {
	case n == 0:
		return parts, spec.Success
	case n <= nvme.Page:
		if cmd.PRP2()%nvme.Page != 0 {
			return nil, spec.InvalidPRPOffset | spec.DNR
		}
		if !take(cmd.PRP2()) {
			return nil, spec.DataTransferError
		}
		return parts, spec.Success
	}
	at := cmd.PRP2()
	if at%8 != 0 {
		return nil, spec.InvalidPRPOffset | spec.DNR
	}
	for n > 0 {
		list := b.at(at)
		if list == nil {
			return nil, spec.DataTransferError
		}
		entries := len(list) / 8
		for i := range entries {
			address := binary.LittleEndian.Uint64(list[8*i:])
			if i == entries-1 && n > nvme.Page { // more follows: the list goes on
				if address%8 != 0 {
					return nil, spec.InvalidPRPOffset | spec.DNR
				}
				at = address
				break
			}
			if address%nvme.Page != 0 {
				return nil, spec.InvalidPRPOffset | spec.DNR
			}
			if !take(address) {
				return nil, spec.DataTransferError
			}
			if n == 0 {
				break
			}
		}
	}
	return parts, spec.Success
}

// work carries out I/O commands until the controller has ended.
func (c *controller) work() {
	buf := make([]byte, nvme.Page<<c.d.o.TransferMax)
	for j := range c.jobs {
		j.status = c.d.carry(&j.cmd, buf)
		c.done <- j
	}
}

// carry carries out an I/O command, by way of a buffer of the largest transfer.
func (d *Drive) carry(cmd *spec.Command, buf []byte) spec.Status {
	switch cmd.Opcode() {
	case spec.Flush, spec.Read, spec.Write:
	default:
		return spec.InvalidOpcode | spec.DNR
	}
	switch cmd.Namespace() {
	case 1:
	case spec.AllNamespaces:
		if cmd.Opcode() != spec.Flush {
			return spec.InvalidField | spec.DNR
		}
	default:
		return spec.InvalidNamespace | spec.DNR
	}
	if cmd.Flags()&(spec.Fused|spec.SGL) != 0 {
		return spec.InvalidField | spec.DNR
	}
	if cmd.Opcode() == spec.Flush {
		if err := d.file.Sync(); err != nil && !d.o.ReadOnly {
			return spec.WriteFault
		}
		return spec.Success
	}
	first, n := cmd.Blocks()
	bytes := n * d.o.BlockBytes
	switch {
	case bytes > len(buf):
		return spec.InvalidField | spec.DNR
	case first > d.blocks || uint64(n) > d.blocks-first:
		return spec.LBAOutOfRange | spec.DNR
	}
	parts, status := d.bus.segments(cmd, bytes)
	if status.Failed() {
		return status
	}
	buf = buf[:bytes]
	if cmd.Opcode() == spec.Read {
		if _, err := d.file.ReadAt(buf, int64(first)*int64(d.o.BlockBytes)); err != nil {
			return spec.UnrecoveredReadError
		}
		for _, p := range parts {
			buf = buf[copy(p, buf):]
		}
		return spec.Success
	}
	if d.o.ReadOnly {
		return spec.AccessDenied | spec.DNR
	}
	at := 0
	for _, p := range parts {
		at += copy(buf[at:], p)
	}
	if _, err := d.file.WriteAt(buf, int64(first)*int64(d.o.BlockBytes)); err != nil {
		return spec.WriteFault
	}
	return spec.Success
}
