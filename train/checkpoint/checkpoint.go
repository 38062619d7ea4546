// Package checkpoint keeps what a training run goes on from: files in a directory of
// their own, each complete or not there.
//
//	┌──────────┬───────┬──────────────────────────┬─────┬───────────┬───────────┬─
//	│ DGNNCKP2 │ u32 N │ N bytes of JSON (header) │ CRC │ section 0 │ section 1 │ …
//	└──────────┴───────┴──────────────────────────┴─────┴───────────┴───────────┴─
//
//	offset  bytes  what
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
// head is the run's own. A section is a run of bytes that this package knows nothing
// of; names differ and come in order, crc is the CRC-32C of the section's bytes. So
// every byte of the file is checked, and what follows the last section is an error.
//
// A file is named after the number of training steps done, step-000000001234.ckpt, so
// that names order as time does. It is written as NAME.partial, made durable and
// renamed; a .partial that is there belongs to nobody. A program reads its own version
// only; any change of the bytes raises it.
package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
)

const (
	magic      = "DGNNCKP" // and the version
	version    = '2'
	fixedBytes = len(magic) + 1 + 4 // before the header
	crcBytes   = 4
	mostHeader = int64(1 << 20) // bytes; a header has some two thousand
)

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

// encode returns what comes before the sections' bytes, and the order of these.
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

// Decode reads a whole file's content. The head and the sections alias it. Whatever
// the bytes, the result is what was written or there is an error, of kind
// fault.ErrCorrupt or, for another version, fault.ErrVersion.
func Decode(b []byte) (head json.RawMessage, sections map[string][]byte, err error) {
	h, at, err := decodeHeader(b)
	if err != nil {
		return nil, nil, err
	}
	sections = make(map[string][]byte, len(h.Sections))
	for i, s := range h.Sections {
		if i > 0 && s.Name <= h.Sections[i-1].Name {
			return nil, nil, corrupt("the section %q after %q", s.Name, h.Sections[i-1].Name)
		}
		if s.Bytes < 0 || s.Bytes > int64(len(b)-at) {
			return nil, nil, corrupt("%q has %d bytes, %d are left", s.Name, s.Bytes, len(b)-at)
		}
		end := at + int(s.Bytes)
		if binio.CRC(b[at:end]) != s.CRC {
			return nil, nil, corrupt("%q, bytes %d to %d, does not match its checksum", s.Name, at, end)
		}
		sections[s.Name] = b[at:end:end]
		at = end
	}
	if at != len(b) {
		return nil, nil, corrupt("%d bytes after the last section", len(b)-at)
	}
	return h.Head, sections, nil
}

// decodeHeader returns the header and where the sections begin.
func decodeHeader(b []byte) (h header, at int, err error) {
	if len(b) < fixedBytes || string(b[:len(magic)]) != magic {
		return h, 0, corrupt("no checkpoint of this program")
	}
	n := int64(binary.LittleEndian.Uint32(b[fixedBytes-4:]))
	if n > mostHeader || n > int64(len(b)-fixedBytes-crcBytes) {
		return h, 0, corrupt("a header of %d bytes in a file of %d", n, len(b))
	}
	end := fixedBytes + int(n)
	if binio.CRC(b[:end]) != binary.LittleEndian.Uint32(b[end:]) {
		return h, 0, corrupt("the header, bytes 0 to %d, does not match its checksum", end)
	}
	if v := b[len(magic)]; v != version {
		return h, 0, fault.New(fault.ErrVersion, "a checkpoint of version %q; this program reads version %q", v, version)
	}
	d := json.NewDecoder(bytes.NewReader(b[fixedBytes:end]))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return h, 0, corrupt("header: %v", err)
	}
	return h, end + crcBytes, nil
}

func corrupt(format string, args ...any) error { return fault.New(fault.ErrCorrupt, format, args...) }
