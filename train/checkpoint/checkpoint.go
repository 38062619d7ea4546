// Package checkpoint keeps the checkpoints of a training run: files in a directory of their own,
// each complete or absent.
//
//	┌──────────┬───────┬──────────────────────────┬─────┬───────────┬───────────┬─
//	│ DGNNCKP2 │ u32 N │ N bytes of JSON (header) │ CRC │ section 0 │ section 1 │ …
//	└──────────┴───────┴──────────────────────────┴─────┴───────────┴───────────┴─
//
//	offset  bytes  content
//	0       8      magic; its last byte is the version
//	8       4      N, the bytes of the header
//	12      N      the header, of at most 1 MiB
//	12+N    4      CRC-32C of all bytes before it
//	16+N           the sections, one after the other up to the end of the file
//
// Numbers are little-endian. The header is one JSON object:
//
//	{"head": …, "sections": [{"name": "engine/weights", "bytes": 4096, "crc": 3735928559}, …]}
//
// head is the run's own. A section is a sequence of bytes, opaque to this package; names differ and
// are sorted, crc is the CRC-32C of the section's bytes. So every byte of the file is checked, and
// bytes after the last section are an error.
//
// A file is named after the number of training steps done, step-000000001234.ckpt, so that names
// sort by time. It is written as NAME.partial, made durable and renamed; an existing .partial is a
// remnant. Any change of the format raises the version; versions has the decoder of each. Version 1
// is refused: its run is trained anew, or by the program that began it.
package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
)

const (
	magic      = "DGNNCKP" // and the version
	version    = '2'
	fixedBytes = len(magic) + 1 + 4 // before the header
	crcBytes   = 4
	mostHeader = int64(1 << 20) // bytes; a header has some two thousand
)

// MostFront bounds the bytes of a file before its sections.
const MostFront = int64(fixedBytes+crcBytes) + mostHeader

// header describes the file.
type header struct {
	Head     json.RawMessage `json:"head"`
	Sections []section       `json:"sections"`
}

type section struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	CRC   uint32 `json:"crc"`
}

// encode returns the bytes before the sections, and the order of the sections.
func encode(head any, sections map[string][]byte) (front []byte, order []string, err error) {
	h := header{Sections: []section{}}
	if h.Head, err = json.Marshal(head); err != nil {
		return nil, nil, err
	}
	order = slices.Sorted(maps.Keys(sections))
	for _, name := range order {
		b := sections[name]
		h.Sections = append(h.Sections, section{name, int64(len(b)), binio.CRC(b)})
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, nil, err
	}
	front = append([]byte(magic), version)
	front = binary.LittleEndian.AppendUint32(front, uint32(len(text)))
	front = append(front, text...)
	return binary.LittleEndian.AppendUint32(front, binio.CRC(front)), order, nil
}

// Encode returns the bytes of a file, in pieces; the sections are pieces as they are. head must be encodable as JSON.
func Encode(head any, sections map[string][]byte) (content [][]byte, err error) {
	front, order, err := encode(head, sections)
	if err != nil {
		return nil, err
	}
	content = append(content, front)
	for _, s := range order {
		content = append(content, sections[s])
	}
	return content, nil
}

// Decode decodes a whole file. The head and the sections alias b. For any b, the result is the
// written content or an error of kind fault.ErrCorrupt or, for another version, fault.ErrVersion.
func Decode(b []byte) (head json.RawMessage, sections map[string][]byte, err error) {
	h, at, err := decodeHeader(b)
	if err != nil {
		return nil, nil, err
	}
	sections = make(map[string][]byte, len(h.Sections))
	err = h.each(int64(at), int64(len(b)), func(s *section, at int64) error {
		end := at + s.Bytes
		sections[s.Name] = b[at:end:end]
		return s.compare(at, binio.CRC(b[at:end]))
	})
	if err != nil {
		return nil, nil, err
	}
	return h.Head, sections, nil
}

// Verify checks a file of size bytes as Decode does, in the memory of its header, and returns the
// head.
func Verify(r io.ReaderAt, size int64) (head json.RawMessage, err error) {
	front := make([]byte, max(0, min(size, int64(fixedBytes))))
	if n, err := r.ReadAt(front, 0); n < len(front) {
		return nil, err
	}
	n, err := headerBytes(front, size)
	if err != nil {
		return nil, err
	}
	front = make([]byte, int64(fixedBytes)+n+crcBytes)
	if n, err := r.ReadAt(front, 0); n < len(front) {
		return nil, err
	}
	h, at, err := decodeHeader(front)
	if err != nil {
		return nil, err
	}
	buf := make([]byte, 1<<16)
	err = h.each(int64(at), size, func(s *section, at int64) error {
		crc := uint32(0)
		for from := io.NewSectionReader(r, at, s.Bytes); ; {
			n, err := from.Read(buf)
			crc = binio.UpdateCRC(crc, buf[:n])
			if errors.Is(err, io.EOF) {
				return s.compare(at, crc)
			}
			if err != nil {
				return err
			}
		}
	})
	return h.Head, err
}

// each calls f for every section and its offset, from at to the end of the file.
func (h *header) each(at, size int64, f func(s *section, at int64) error) error {
	for i := range h.Sections {
		s := &h.Sections[i]
		if i > 0 && s.Name <= h.Sections[i-1].Name {
			return corrupt("the section %q follows %q: sections are not sorted by name", s.Name, h.Sections[i-1].Name)
		}
		if s.Bytes < 0 || s.Bytes > size-at {
			return corrupt("the section %q has %d bytes, but only %d are left in the file", s.Name, s.Bytes, size-at)
		}
		if err := f(s, at); err != nil {
			return err
		}
		at += s.Bytes
	}
	if at != size {
		return corrupt("the file has %d bytes after the last section", size-at)
	}
	return nil
}

// compare refuses a section at an offset if the checksum of its bytes differs.
func (s *section) compare(at int64, crc uint32) error {
	if crc != s.CRC {
		return corrupt("the section %q, bytes %d to %d, does not match its checksum", s.Name, at, at+s.Bytes)
	}
	return nil
}

// headerBytes returns the length of the header from the first bytes of a file of size bytes.
func headerBytes(b []byte, size int64) (int64, error) {
	if len(b) < fixedBytes || string(b[:len(magic)]) != magic {
		return 0, corrupt("not a checkpoint of this program")
	}
	n := int64(binary.LittleEndian.Uint32(b[fixedBytes-4:]))
	if n > mostHeader || n > size-int64(fixedBytes+crcBytes) {
		return 0, corrupt("the header has %d bytes by its length field, but the file has %d bytes", n, size)
	}
	return n, nil
}

// decodeHeader returns the header and the offset of the sections.
func decodeHeader(b []byte) (h header, at int, err error) {
	n, err := headerBytes(b, int64(len(b)))
	if err != nil {
		return h, 0, err
	}
	end := fixedBytes + int(n)
	if binio.CRC(b[:end]) != binary.LittleEndian.Uint32(b[end:]) {
		return h, 0, corrupt("the header, bytes 0 to %d, does not match its checksum", end)
	}
	decode, err := versions.Decoder(int(b[len(magic)]-'0'), "a checkpoint of version '%d'; this program reads version '%s'")
	if err != nil {
		return h, 0, err
	}
	if err := decode(b[fixedBytes:end], &h); err != nil {
		return h, 0, corrupt("header: %v", err)
	}
	return h, end + crcBytes, nil
}

// versions has the header's decoder for each version.
var versions = stage.Versions[func([]byte, *header) error]{version - '0': func(b []byte, h *header) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(h)
}}

func corrupt(format string, args ...any) error { return fault.New(fault.ErrCorrupt, format, args...) }
