package collective

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
)

const (
	magic       = "DGC2"
	headerBytes = 24
	// Bytes before the float32s of a contribution and a sum.
	contributionHead = 16
	sumHead          = 24
)

// kind is the kind of a frame.
type kind byte

const (
	hello kind = 1 + iota
	welcome
	refusal
	message
	contribution
	ask
	sum
	beat
	lost
	bye
	kinds
)

// The most bytes of payloads. The lengths of contributions and sums follow from the model; the call
// that waits for a message bounds it beyond mostUnasked.
const (
	mostText    = 4 << 10  // of JSON
	mostUnasked = 64 << 10 // of a message that no call waits for yet
)

// most returns the most bytes of a frame that is no message and has no floats; −1 for the others.
func (k kind) most() int64 {
	switch k {
	case hello, refusal, lost:
		return mostText
	case welcome, bye:
		return 0
	case beat:
		return 8
	case ask:
		return sumHead
	}
	return -1
}

// short cuts a text for a frame of JSON, in which a byte may take six, or from such a frame. The
// text becomes one line.
func short(text string) string {
	text = fault.Line(text)
	const most = 512
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// header is the head of a frame.
type header struct {
	kind   kind
	crc    uint32
	length int64
}

func (h *header) encode(b *[headerBytes]byte) {
	copy(b[:], magic)
	b[4], b[5], b[6], b[7] = byte(h.kind), 0, 0, 0
	binary.LittleEndian.PutUint32(b[8:], h.crc)
	binary.LittleEndian.PutUint64(b[12:], uint64(h.length))
	binary.LittleEndian.PutUint32(b[20:], binio.CRC(b[:20]))
}

// readHeader reads the head of a frame. Other bytes are an error of kind fault.ErrCorrupt; at the
// end of the connection it returns the reader's error.
func readHeader(r io.Reader) (h header, err error) {
	var b [headerBytes]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return h, err
	}
	switch {
	case string(b[:4]) != magic:
		return h, bad("%q does not begin a frame of this version of the program", b[:4])
	case binio.CRC(b[:20]) != binary.LittleEndian.Uint32(b[20:]):
		return h, bad("the head of a frame does not match its checksum")
	}
	h = header{kind(b[4]), binary.LittleEndian.Uint32(b[8:]), int64(binary.LittleEndian.Uint64(b[12:]))}
	if h.kind < hello || h.kind >= kinds || h.length < 0 {
		return h, bad("a frame has the kind %d and %d bytes, which no frame has", h.kind, h.length)
	}
	return h, nil
}

// readPayload reads a payload within the limit of its kind.
func (h *header) readPayload(r io.Reader) ([]byte, error) {
	if most := h.kind.most(); h.length > most {
		return nil, bad("a frame of kind %d has %d bytes, more than the %d allowed", h.kind, h.length, most)
	}
	b := make([]byte, h.length)
	return b, h.readParts(r, b)
}

// readParts reads a payload into the given parts, one after the other, all of it.
func (h *header) readParts(r io.Reader, parts ...[]byte) error { return h.readRest(r, 0, parts...) }

// readRest is readParts for a payload with a part that was read before; crc is the checksum of that
// part.
func (h *header) readRest(r io.Reader, crc uint32, parts ...[]byte) error {
	for _, p := range parts {
		if _, err := io.ReadFull(r, p); err != nil {
			return ended(err)
		}
		crc = binio.UpdateCRC(crc, p)
	}
	return h.check(crc)
}

func (h *header) check(crc uint32) error {
	if crc != h.crc {
		return bad("a frame of kind %d does not match its checksum", h.kind)
	}
	return nil
}

// ended turns the end of a connection within a frame into an error of its own.
func ended(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// writeFrame writes a frame. Its payload is the parts, one after the other.
func writeFrame(w io.Writer, k kind, parts ...[]byte) error {
	h := header{kind: k}
	for _, p := range parts {
		h.crc = binio.UpdateCRC(h.crc, p)
		h.length += int64(len(p))
	}
	var b [headerBytes]byte
	h.encode(&b)
	if _, err := w.Write(b[:]); err != nil {
		return err
	}
	for _, p := range parts {
		if len(p) == 0 {
			continue
		}
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return nil
}

func bad(format string, args ...any) error {
	return fault.New(fault.ErrCorrupt, "%s", fmt.Sprintf(format, args...))
}
