package collective

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"

	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/train/engine"
)

func frame(k kind, parts ...[]byte) []byte {
	var b bytes.Buffer
	_ = writeFrame(&b, k, parts...) // which a buffer does not fail
	return b.Bytes()
}

// By hand.
func TestFrame(t *testing.T) {
	b := frame(beat, []byte{1, 2}, []byte{3})
	if len(b) != headerBytes+3 || string(b[:4]) != "DGC1" || b[4] != byte(beat) || binary.LittleEndian.Uint64(b[12:]) != 3 ||
		binary.LittleEndian.Uint32(b[8:]) != binio.CRC([]byte{1, 2, 3}) || !bytes.Equal(b[24:], []byte{1, 2, 3}) {
		t.Errorf("%x", b)
	}
	r := bytes.NewReader(b)
	h, err := readHeader(r)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := h.readPayload(r, 3); err != nil || !bytes.Equal(p, []byte{1, 2, 3}) {
		t.Errorf("%x, %v", p, err)
	}
	if _, err := readHeader(r); err != io.EOF {
		t.Error(err)
	}
}

// Every flipped bit and every cut is noticed.
func TestFrameDamage(t *testing.T) {
	whole := frame(message, make([]byte, 8), []byte("text"))
	read := func(b []byte) error {
		r := bytes.NewReader(b)
		h, err := readHeader(r)
		if err == nil {
			_, err = h.readPayload(r, 100)
		}
		return err
	}
	for i := range 8 * len(whole) {
		b := bytes.Clone(whole)
		b[i/8] ^= 1 << (i % 8)
		if err := read(b); err == nil {
			t.Errorf("bit %d", i)
		}
	}
	for n := range whole {
		if err := read(whole[:n]); err == nil {
			t.Errorf("%d bytes", n)
		}
	}
}

// A length says nothing of memory: a payload of 2⁴⁰ bytes that does not come takes next to none.
func TestForgedLength(t *testing.T) {
	h := header{kind: message, length: mostMessage}
	if n := testing.AllocsPerRun(1, func() {
		if _, err := h.readPayload(bytes.NewReader(make([]byte, 100)), mostMessage); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(err)
		}
	}); n > 10 {
		t.Errorf("%v allocations", n)
	}
	if _, err := h.readPayload(nil, 100); !errors.Is(err, fault.ErrCorrupt) {
		t.Error(err)
	}
}

// FuzzRead feeds a rank's reader whatever bytes: it never panics, keeps to its buffers, and what
// it hands on fits the steps.
func FuzzRead(f *testing.F) {
	l := layouts["batch"]
	number := make([]byte, 8)
	floats := make([]byte, 4*l.Count())
	f.Add(frame(message, number, []byte("x")), true)
	f.Add(frame(contribution, make([]byte, contributionHead), floats), true)
	f.Add(append(frame(ask, make([]byte, sumHead)), frame(bye)...), true)
	f.Add(frame(sum, make([]byte, sumHead), floats[:4*l.Trained]), false)
	f.Add(frame(lost, []byte(`{"Why":"x"}`)), false)
	f.Add(append(frame(beat, number), frame(hello, []byte("{}"))...), false)
	f.Fuzz(func(t *testing.T, b []byte, root bool) {
		here, there := net.Pipe()
		there.Close()
		g := &Group{world: 2, limits: quick, watch: newWatch(quick)}
		if !root {
			g.rank = 1
		}
		g.ctx, g.cancel = ctxWithCancel()
		p := newPeer(1-g.rank, "", here)
		g.peers = []*peer{p}
		g.prepare(&step{elements: l.Count(), trained: l.Trained, batches: 2, sum: engine.NewSum(device.NewArena(), &l, 2)}, 2)
		defer g.said.Wait()
		defer g.once.Do(func() { g.cancel(errDone) })
		p.inbox = make(chan received, 1+len(b)/headerBytes)
		r := bytes.NewReader(b)
		for {
			h, err := readHeader(r)
			if err == nil {
				if h.kind == contribution && len(p.free) == 0 {
					break // it would wait for room
				}
				err = p.take(g, r, &h)
			}
			if err != nil {
				break
			}
		}
		close(p.inbox)
		for m := range p.inbox {
			if m.kind == contribution && len(m.floats) != l.Count() || m.labelled < 0 || m.kind == sum && m.batches > 2 {
				t.Errorf("%+v", m)
			}
		}
	})
}

func ctxWithCancel() (context.Context, context.CancelCauseFunc) {
	return context.WithCancelCause(context.Background())
}
