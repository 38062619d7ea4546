package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"diskgnn/internal/binio"
)

// writeNPY writes an array in NumPy's format, version 1.
func writeNPY(dir, name, descr string, data []byte, shape ...int) (err error) {
	f, err := os.Create(filepath.Join(dir, name+".npy"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	const magic, align = "\x93NUMPY\x01\x00", 64
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }", descr, strings.Trim(strings.ReplaceAll(fmt.Sprint(shape), " ", ", "), "[]"))
	text += strings.Repeat(" ", align-1-(len(magic)+2+len(text))%align) + "\n"
	w := bufio.NewWriterSize(f, 1<<20)
	_, err = w.Write(binary.LittleEndian.AppendUint16([]byte(magic), uint16(len(text))))
	for _, b := range [][]byte{[]byte(text), data} {
		if err == nil {
			_, err = w.Write(b)
		}
	}
	if err != nil {
		return err
	}
	return w.Flush()
}

// readNPY reads the elements of an array in NumPy's format, version 1, as writeNPY and NumPy
// write it: little-endian, row by row.
func readNPY[T float32 | int32 | int64](dir, name, descr string) ([]T, error) {
	path := filepath.Join(dir, name+".npy")
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	const magic, prefix = "\x93NUMPY\x01", 10 // the prefix ends with the header's length
	if len(b) < prefix || string(b[:len(magic)]) != magic || len(b) < prefix+int(binary.LittleEndian.Uint16(b[prefix-2:])) {
		return nil, fmt.Errorf("%s: not a .npy array, version 1", path)
	}
	header, data, _ := bytes.Cut(b[prefix:], []byte("\n"))
	v := make([]T, len(data)/binary.Size(T(0)))
	if !bytes.Contains(header, []byte("'descr': '"+descr+"'")) || !bytes.Contains(header, []byte("'fortran_order': False")) || copy(binio.Bytes(v), data) < len(data) {
		return nil, fmt.Errorf("%s: not a whole array of %s, row by row: %s", path, descr, header)
	}
	return v, nil
}
