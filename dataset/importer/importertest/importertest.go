// Package importertest makes small sources in other formats for tests: NumPy arrays, trees of files,
// and changed copies of good ones. It imports them, or checks that they are refused.
package importertest

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// NPY returns a .npy file with the elements, a slice of numbers, and the shape.
func NPY(shape string, elements any) []byte { return NPYOrder(shape, false, elements) }

// NPYOrder is NPY, column-major if fortran.
func NPYOrder(shape string, fortran bool, elements any) []byte {
	descr := map[reflect.Kind]string{
		reflect.Int8: "|i1", reflect.Uint8: "|u1", reflect.Int16: "<i2", reflect.Int32: "<i4", reflect.Uint32: "<u4", reflect.Int64: "<i8",
		reflect.Uint16: "<f2", reflect.Float32: "<f4", reflect.Float64: "<f8", reflect.Bool: "|b1",
	}[reflect.TypeOf(elements).Elem().Kind()]
	order := "False"
	if fortran {
		order = "True"
	}
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", descr, order, shape)
	var b bytes.Buffer
	b.WriteString("\x93NUMPY\x01\x00")
	for _, v := range []any{uint16(len(header)), []byte(header), elements} {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

// Vector returns a .npy file with the elements, a slice of numbers, as an array of one dimension.
func Vector(elements any) []byte {
	return NPY(fmt.Sprintf("(%d,)", reflect.ValueOf(elements).Len()), elements)
}

// Tree is a set of files: name to content.
type Tree map[string][]byte

// Write writes the files, those named X.npz/Y as members of an archive.
func (tr Tree) Write(t testing.TB, dir string) {
	t.Helper()
	archives := map[string]map[string][]byte{}
	for name, content := range tr {
		if content == nil {
			continue
		}
		if archive, key, ok := strings.Cut(name, "/"); ok {
			if archives[archive] == nil {
				archives[archive] = map[string][]byte{}
			}
			archives[archive][key] = content
			continue
		}
		Save(t, filepath.Join(dir, name), content)
	}
	for archive, members := range archives {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for _, key := range slices.Sorted(maps.Keys(members)) {
			w, err := z.Create(key + ".npy")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(members[key]); err != nil {
				t.Fatal(err)
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		Save(t, filepath.Join(dir, archive), b.Bytes())
	}
}

func Save(t testing.TB, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name, content, 0o666); err != nil {
		t.Fatal(err)
	}
}

// FormText returns a .npy file with one short string, as SciPy writes the name of a matrix's format.
func FormText(text string) string {
	header := fmt.Sprintf("{'descr': '|S%d', 'fortran_order': False, 'shape': (), }\n", len(text))
	return "\x93NUMPY\x01\x00" + string(rune(len(header))) + "\x00" + header + text
}

// Torch returns a file of torch.save with the given pickle, and storages as its records data/0, data/1
// and so on.
func Torch(t testing.TB, pickle string, storages ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	add := func(name string, content []byte) {
		w, err := z.CreateHeader(&zip.FileHeader{Name: "archive/" + name, Method: zip.Store})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	add("data.pkl", []byte(pickle))
	for i, s := range storages {
		add(fmt.Sprintf("data/%d", i), s)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
