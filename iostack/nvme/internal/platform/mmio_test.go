package platform

import "testing"

func TestRegisters(t *testing.T) {
	all := make(Registers, 20)
	r := all[:16]
	r.Store32(0, 0x04030201)
	r.Store64(8, 0x1817161514131211)
	if string(r[:4]) != "\x01\x02\x03\x04" || string(r[8:]) != "\x11\x12\x13\x14\x15\x16\x17\x18" {
		t.Errorf("% x", []byte(r))
	}
	if r.Load32(0) != 0x04030201 || r.Load64(8) != 0x1817161514131211 {
		t.Errorf("%x, %x", r.Load32(0), r.Load64(8))
	}
	// Behind the last there is nothing, half of a register included.
	for _, offset := range []int{-4, 13, 14, 16, 1 << 20} {
		r.Store32(offset, 5)
		if r.Load32(offset) != ^uint32(0) {
			t.Errorf("%d: %x", offset, r.Load32(offset))
		}
	}
	if string(all[16:]) != "\x00\x00\x00\x00" {
		t.Errorf("% x", []byte(all))
	}
	if r.Load64(12) != 0xffffffff_18171615 {
		t.Errorf("%x", r.Load64(12))
	}
}
