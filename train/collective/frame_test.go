package collective

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"unicode/utf8"

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
	if len(b) != headerBytes+3 || string(b[:4]) != "DGC2" || b[4] != byte(beat) || binary.LittleEndian.Uint64(b[12:]) != 3 ||
		binary.LittleEndian.Uint32(b[8:]) != binio.CRC([]byte{1, 2, 3}) || !bytes.Equal(b[24:], []byte{1, 2, 3}) {
		t.Errorf("%x", b)
	}
	r := bytes.NewReader(b)
	h, err := readHeader(r)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := h.readPayload(r); err != nil || !bytes.Equal(p, []byte{1, 2, 3}) {
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
			err = h.readParts(r, make([]byte, min(h.length, 100)))
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

// forged is the head of a frame of so many bytes, which do not come.
func forged(k kind, length int64) []byte {
	var b [headerBytes]byte
	(&header{kind: k, length: length}).encode(&b)
	return b[:]
}

// By hand: every kind has its most bytes. One more is refused before anything is read, and takes no
// memory.
func TestMost(t *testing.T) {
	for k, want := range map[kind]int64{hello: 4096, welcome: 0, refusal: 4096, message: -1, contribution: -1, ask: 24, sum: -1, beat: 8, lost: 4096, bye: 0} {
		if got := k.most(); got != want {
			t.Errorf("kind %d: %d, want %d", k, got, want)
		}
		h := header{kind: k, length: want + 1}
		if _, err := h.readPayload(nil); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("kind %d: %v", k, err)
		}
		if want < 0 {
			continue
		}
		b := frame(k, make([]byte, want))
		if p, err := (&header{kind: k, length: want, crc: binary.LittleEndian.Uint32(b[8:])}).readPayload(bytes.NewReader(b[headerBytes:])); err != nil || int64(len(p)) != want {
			t.Errorf("kind %d: %d bytes, %v", k, len(p), err)
		}
	}
}

// A text is cut so that its JSON fits into a frame, whatever is in it.
func TestShort(t *testing.T) {
	if short("text") != "text" || short(strings.Repeat("x", 512)) != strings.Repeat("x", 512) {
		t.Error("a short text is cut")
	}
	for _, text := range []string{strings.Repeat("x", 513), strings.Repeat("\x01", 1e5), strings.Repeat("ä", 1e5), "x" + strings.Repeat("ä", 1e5)} {
		b, err := json.Marshal(refused{Why: short(text)})
		if err != nil || len(b) > mostText || !utf8.ValidString(short(text)) || !strings.HasSuffix(short(text), "…") {
			t.Errorf("%d bytes, %v: %.20q…", len(b), err, short(text))
		}
	}
}

// What a stranger writes is one line in a log, and moves no cursor.
func TestTextOfStrangers(t *testing.T) {
	const text, line = "a\x1b[2J\nrank 2 of 3 is there", `a\x1b[2J; rank 2 of 3 is there`
	if got := short(text); got != line {
		t.Errorf("%q", got)
	}
	for _, r := range []refused{{Why: text}, {Why: text, Other: true}, {Why: text, Later: true}, {Why: text, Ended: true}} {
		if err, _ := r.refusal(&Member{Rank: 1, World: 3}, "there"); !strings.HasSuffix(err.Error(), line) {
			t.Errorf("%q", err)
		}
	}
}

// FuzzRead feeds a rank's reader whatever bytes: it never panics, keeps to its buffers, and what
// it hands on fits the steps.
func FuzzRead(f *testing.F) {
	l := layouts["batch"]
	number := make([]byte, 8)
	floats := make([]byte, 4*l.Count())
	f.Add(frame(message, number, []byte("x")), true)
	f.Add(frame(message, number, make([]byte, mostUnasked+1)), true)
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
		p.expect(0, mostUnasked+1)
		r := bytes.NewReader(b)
		for {
			h, err := readHeader(r)
			if err == nil {
				if h.kind == contribution && len(p.free) == 0 || h.kind == message && h.length > mostUnasked && later(b[len(b)-r.Len():]) {
					break // it would wait for room, or for a call
				}
				err = p.take(g, r, &h)
			}
			if err != nil {
				break
			}
		}
		close(p.inbox)
		for m := range p.inbox {
			if m.kind == message && len(m.bytes) > mostUnasked+1 || m.kind == contribution && len(m.floats) != l.Count() || m.labelled < 0 || m.kind == sum && m.batches > 2 {
				t.Errorf("%+v", m)
			}
		}
	})
}

// later tells whether a message is of a call after the first.
func later(payload []byte) bool { return len(payload) >= 8 && binary.LittleEndian.Uint64(payload) > 0 }

func ctxWithCancel() (context.Context, context.CancelCauseFunc) {
	return context.WithCancelCause(context.Background())
}
