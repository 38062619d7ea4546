// Package safetensors reads and writes named tensors in the safetensors format,
// which PyTorch, JAX and others load without running code.
//
//	┌──────────────┬───────────────────────────────┬─────────────────────────┐
//	│ u64 length N │ N bytes of JSON (the header)  │ data                    │
//	└──────────────┴───────────────────────────────┴─────────────────────────┘
//
// All numbers are little-endian. The header is one JSON object:
//
//	{"__metadata__": {"format": "pt", …},
//	 "convs.0.lin_l.weight": {"dtype": "F32", "shape": [256, 128], "data_offsets": [0, 131072]},
//	 …}
//
// Offsets count from the first byte of data. Tensors are row-major and fill the data
// without gaps or overlap; the header is padded with spaces so that data begins at a
// multiple of 8 bytes; "__metadata__", which may be absent, maps strings to strings.
//
// This package writes and reads F32 tensors. The format has no checksum of its own, so this package
// writes one into the metadata:
//
//	"diskgnn.sha256": "f6b2…"
//
// It is the SHA-256, in 64 hexadecimal digits, of the whole file with zeros ('0') in place of these
// digits: it covers every other byte, names and shapes included. A reader refuses a file that does
// not match it. Files of other programs have no checksum, and are only checked for consistency; a
// program that rewrites a file of this package with its metadata must omit the key. The format has
// no version; files that do not fit this description are refused.
package safetensors

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
)

const (
	metadataKey = "__metadata__"
	dtypeF32    = "F32"
	lengthBytes = 8
	// maxHeader is the limit of the reference implementation.
	maxHeader = 100 << 20

	checksumKey = "diskgnn.sha256" // of the metadata
	// checksumText precedes the digits in a header. It can begin no other value: quotes in a
	// text are escaped.
	checksumText = `"` + checksumKey + `":"`
)

// noChecksum replaces the digits when the checksum is computed.
var noChecksum = strings.Repeat("0", hex.EncodedLen(sha256.Size))

// Tensor is a named array of float32, row-major.
type Tensor struct {
	Name  string
	Shape []int
	Data  []float32 // the elements; their number follows from Shape
}

// entry is a tensor as the header describes it.
type entry struct {
	DType   string    `json:"dtype"`
	Shape   []int     `json:"shape"`
	Offsets *[2]int64 `json:"data_offsets"`
}

// Write writes the tensors in the order given, and adds the checksum to the metadata.
func Write(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	summed := map[string]string{checksumKey: noChecksum}
	for key, value := range metadata {
		if key != checksumKey {
			summed[key] = value
		}
	}
	head, err := header(tensors, summed)
	if err != nil {
		return err
	}
	h := sha256.New()
	h.Write(head)
	for i := range tensors {
		h.Write(binio.Bytes(tensors[i].Data))
	}
	digits := bytes.Index(head, []byte(checksumText)) + len(checksumText)
	hex.Encode(head[digits:], h.Sum(nil))
	if _, err := w.Write(head); err != nil {
		return err
	}
	for i := range tensors {
		if _, err := w.Write(binio.Bytes(tensors[i].Data)); err != nil {
			return err
		}
	}
	return nil
}

// header returns everything before the data.
func header(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	b := append(make([]byte, lengthBytes), '{')
	field := func(key string, value any) error {
		k, err := json.Marshal(key)
		if err != nil {
			return err
		}
		v, err := json.Marshal(value)
		if err != nil {
			return err
		}
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(append(append(b, k...), ':'), v...)
		return nil
	}
	if metadata != nil {
		if err := field(metadataKey, metadata); err != nil {
			return nil, err
		}
	}
	seen := make(map[string]bool, len(tensors))
	offset := int64(0)
	for _, t := range tensors {
		n, err := elements(t.Shape)
		switch {
		case err != nil:
			return nil, fmt.Errorf("safetensors: %q: %w", t.Name, err)
		case n != int64(len(t.Data)):
			return nil, fmt.Errorf("safetensors: %q has %d elements, which does not fit the shape %v", t.Name, len(t.Data), t.Shape)
		case t.Name == metadataKey || seen[t.Name]:
			return nil, fmt.Errorf("safetensors: the name %q is taken", t.Name)
		}
		seen[t.Name] = true
		shape := t.Shape
		if shape == nil {
			shape = []int{} // a scalar's is [], never null
		}
		if err := field(t.Name, entry{dtypeF32, shape, &[2]int64{offset, offset + 4*n}}); err != nil {
			return nil, err
		}
		offset += 4 * n
	}
	b = append(b, '}')
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	binary.LittleEndian.PutUint64(b, uint64(len(b)-lengthBytes))
	return b, nil
}

// elements returns the number of elements of a shape.
func elements(shape []int) (int64, error) {
	n := int64(1)
	for _, d := range shape {
		if d < 0 || d > 0 && n > math.MaxInt64/8/int64(d) {
			return 0, fault.New(fault.ErrCorrupt, "impossible shape %v", shape)
		}
		n *= int64(d)
	}
	return n, nil
}

// Checked reports whether a file's metadata has a checksum, which Decode and Verify compare.
func Checked(metadata map[string]string) bool { return metadata[checksumKey] != "" }

// compare makes sure that a header and the data after it match the checksum in the metadata, if
// there is one.
func compare(front []byte, data io.Reader, metadata map[string]string) error {
	want, ok := metadata[checksumKey]
	if !ok {
		return nil
	}
	text := []byte(checksumText + want + `"`)
	at := bytes.Index(front, text)
	if at < 0 || len(want) != len(noChecksum) {
		return corrupt("%.80q is not a checksum", want)
	}
	at += len(checksumText)
	h := sha256.New()
	h.Write(front[:at])
	h.Write([]byte(noChecksum))
	h.Write(front[at+len(want):])
	if _, err := io.Copy(h, data); err != nil {
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != want {
		return corrupt("the file does not match the checksum in it: it was damaged or changed")
	}
	return nil
}

// Decode decodes a whole file. It returns a copy of the tensors, in the order of their data, and
// the metadata. For any b, the result is consistent or an error of kind fault.ErrCorrupt; a dtype
// other than F32 is an error of kind fault.ErrVersion.
func Decode(b []byte) (tensors []Tensor, metadata map[string]string, err error) {
	head, data, err := split(b)
	if err != nil {
		return nil, nil, err
	}
	fields, metadata, err := decodeHeader(head)
	if err != nil {
		return nil, nil, err
	}
	if err := compare(b[:len(b)-len(data)], bytes.NewReader(data), metadata); err != nil {
		return nil, nil, err
	}
	list, err := locateAll(fields, int64(len(data)))
	if err != nil {
		return nil, nil, err
	}
	for _, l := range list {
		l.Data = make([]float32, (l.end-l.begin)/4)
		copy(binio.Bytes(l.Data), data[l.begin:l.end])
		tensors = append(tensors, l.Tensor)
	}
	return tensors, metadata, nil
}

// Verify checks a file of size bytes as Decode does, in the memory of its header alone, and returns
// the metadata.
func Verify(r io.ReaderAt, size int64) (metadata map[string]string, err error) {
	length := make([]byte, max(0, min(size, lengthBytes)))
	if n, err := r.ReadAt(length, 0); n < len(length) {
		return nil, err
	}
	n, err := headerLength(length, size)
	if err != nil {
		return nil, err
	}
	front := make([]byte, lengthBytes+n)
	if n, err := r.ReadAt(front, 0); n < len(front) {
		return nil, err
	}
	fields, metadata, err := decodeHeader(front[lengthBytes:])
	if err != nil {
		return nil, err
	}
	rest := size - int64(len(front))
	if err := compare(front, io.NewSectionReader(r, int64(len(front)), rest), metadata); err != nil {
		return nil, err
	}
	_, err = locateAll(fields, rest)
	return metadata, err
}

// locateAll returns the tensors in the order of their data, which they fill.
func locateAll(fields map[string]json.RawMessage, bytes int64) ([]located, error) {
	found := make([]located, 0, len(fields))
	for name, raw := range fields {
		l, err := locate(name, raw)
		if err != nil {
			return nil, err
		}
		found = append(found, l)
	}
	// Tensors without elements have equal offsets: the name decides their order.
	slices.SortFunc(found, func(a, b located) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), cmp.Compare(a.Name, b.Name))
	})
	at := int64(0)
	for _, l := range found {
		if l.begin != at || l.end > bytes {
			return nil, corrupt("%q: its data are bytes %d to %d of %d, but must begin at byte %d", l.Name, l.begin, l.end, bytes, at)
		}
		at = l.end
	}
	if at != bytes {
		return nil, corrupt("%d bytes follow the last tensor", bytes-at)
	}
	return found, nil
}

// decodeHeader returns the tensors' entries by name, and the metadata.
func decodeHeader(head []byte) (fields map[string]json.RawMessage, metadata map[string]string, err error) {
	if !bytes.HasPrefix(head, []byte("{")) {
		return nil, nil, corrupt("the header is not a JSON object")
	}
	if err := json.Unmarshal(head, &fields); err != nil {
		return nil, nil, corrupt("header: %v", err)
	}
	if raw, ok := fields[metadataKey]; ok {
		if err := json.Unmarshal(raw, &metadata); err != nil {
			return nil, nil, corrupt("%s: %v", metadataKey, err)
		}
		delete(fields, metadataKey)
	}
	return fields, metadata, nil
}

// located is a tensor without its data, and the data's offsets.
type located struct {
	Tensor
	begin, end int64
}

func split(b []byte) (head, data []byte, err error) {
	n, err := headerLength(b, int64(len(b)))
	if err != nil {
		return nil, nil, err
	}
	return b[lengthBytes : lengthBytes+n], b[lengthBytes+n:], nil
}

// headerLength returns the length of the header from the first bytes of a file of size bytes.
func headerLength(b []byte, size int64) (int64, error) {
	if size < lengthBytes {
		return 0, corrupt("a file of %d bytes is too short for a header", size)
	}
	n := binary.LittleEndian.Uint64(b)
	if n > maxHeader || n > uint64(size-lengthBytes) {
		return 0, corrupt("the header has %d bytes by its length field, but the file has %d bytes", n, size)
	}
	return int64(n), nil
}

func locate(name string, raw json.RawMessage) (located, error) {
	var e entry
	if err := json.Unmarshal(raw, &e); err != nil {
		return located{}, corrupt("%q: %v", name, err)
	}
	if e.DType == "" {
		return located{}, corrupt("%q has no dtype", name)
	}
	if e.DType != dtypeF32 {
		return located{}, fault.New(fault.ErrVersion, "safetensors: %q is of dtype %q; this program reads %s", name, e.DType, dtypeF32)
	}
	n, err := elements(e.Shape)
	if err != nil || e.Shape == nil || e.Offsets == nil || e.Offsets[0] < 0 || e.Offsets[1]-e.Offsets[0] != 4*n {
		return located{}, corrupt("%q: the shape %v does not describe its data", name, e.Shape)
	}
	return located{Tensor{Name: name, Shape: e.Shape}, e.Offsets[0], e.Offsets[1]}, nil
}

func corrupt(format string, args ...any) error {
	return fault.New(fault.ErrCorrupt, "safetensors: "+format, args...)
}
