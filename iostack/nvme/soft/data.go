package soft

import (
	"encoding/binary"

	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/spec"
)

// segments returns the memory of a command's n bytes of data, by its PRPs, with adjacent pages joined. It
// reuses the memory of parts.
func (b *bus) segments(cmd *spec.Command, n int, parts [][]byte) (_ [][]byte, status spec.Status) {
	parts = parts[:0]
	one := cmd.PRP1()
	if one%4 != 0 {
		return parts, spec.InvalidPRPOffset | spec.DNR
	}
	take := func(address uint64) bool {
		p := b.at(address)
		if p == nil {
			return false
		}
		p = p[:min(n, len(p))]
		n -= len(p)
		if k := len(parts) - 1; k >= 0 {
			if last := parts[k]; cap(last)-len(last) >= len(p) && &last[:len(last)+1][len(last)] == &p[0] {
				parts[k] = last[:len(last)+len(p)]
				return true
			}
		}
		parts = append(parts, p)
		return true
	}
	if !take(one) {
		return parts, spec.DataTransferError
	}
	switch {
	case n == 0:
		return parts, spec.Success
	case n <= nvme.Page:
		if cmd.PRP2()%nvme.Page != 0 {
			return parts, spec.InvalidPRPOffset | spec.DNR
		}
		if !take(cmd.PRP2()) {
			return parts, spec.DataTransferError
		}
		return parts, spec.Success
	}
	at := cmd.PRP2()
	if at%8 != 0 {
		return parts, spec.InvalidPRPOffset | spec.DNR
	}
	for n > 0 {
		list := b.at(at)
		if list == nil {
			return parts, spec.DataTransferError
		}
		entries := len(list) / 8
		for i := range entries {
			address := binary.LittleEndian.Uint64(list[8*i:])
			if i == entries-1 && n > nvme.Page { // more follows: the list goes on
				if address%8 != 0 {
					return parts, spec.InvalidPRPOffset | spec.DNR
				}
				at = address
				break
			}
			if address%nvme.Page != 0 {
				return parts, spec.InvalidPRPOffset | spec.DNR
			}
			if !take(address) {
				return parts, spec.DataTransferError
			}
			if n == 0 {
				break
			}
		}
	}
	return parts, spec.Success
}

// work carries out I/O commands until the controller ends.
func (c *controller) work() {
	buf := make([]byte, nvme.Page<<c.d.o.TransferMax)
	for j := range c.jobs {
		j.status = c.d.carry(&j.cmd, buf, nil)
		c.done <- j
		c.d.kick()
	}
}

// carry carries out an I/O command through buf, which has room for the largest transfer. If there is an op,
// carry only prepares a read for it, unless the status is a failure. A drive with the option Null needs
// neither.
func (d *Drive) carry(cmd *spec.Command, buf []byte, o *op) spec.Status {
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
	case bytes > nvme.Page<<d.o.TransferMax:
		return spec.InvalidField | spec.DNR
	case first > d.blocks || uint64(n) > d.blocks-first:
		return spec.LBAOutOfRange | spec.DNR
	}
	var parts [][]byte
	if o != nil {
		parts = o.parts
	}
	parts, status := d.bus.segments(cmd, bytes, parts)
	if o != nil {
		o.parts = parts
	}
	if status.Failed() {
		return status
	}
	if d.o.Null {
		return spec.Success
	}
	if o != nil {
		return d.media.read(o, int64(first)*int64(d.o.BlockBytes))
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
