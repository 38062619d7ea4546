package npz

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/limittest"
	"diskgnn/internal/vfs"
)

// array is a .npy file.
func array(descr, shape string, elements any) []byte {
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", descr, shape)
	b := append(binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header))), header...)
	b, err := binary.Append(b, binary.LittleEndian, elements)
	if err != nil {
		panic(err)
	}
	return b
}

// packed is an archive of one array, x.
func packed(t testing.TB, array []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create("x.npy")
	if err == nil {
		_, err = w.Write(array)
	}
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// otherChecksum changes the checksum of an archive's only array.
func otherChecksum(t *testing.T, archive []byte) []byte {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(archive)
	bad[bytes.LastIndex(bad, binary.LittleEndian.AppendUint32(nil, r.File[0].CRC32))]++ // the directory's, which is believed
	return bad
}

// TestMember reads an array that the archive yields in many pieces, whole and damaged.
func TestMember(t *testing.T) {
	const n = 100_000
	squares := make([]int64, n)
	for i := range squares {
		squares[i] = int64(i) * int64(i)
	}
	content := packed(t, array("<i8", fmt.Sprintf("(%d,)", n), squares))
	name := filepath.Join(t.TempDir(), "a.npz")
	read := func(content []byte) error {
		if err := os.WriteFile(name, content, 0o666); err != nil {
			t.Fatal(err)
		}
		a, err := OpenMember(vfs.OS, name, "x")
		if err != nil {
			return err
		}
		defer a.Close()
		count := 0
		err = a.Each(t.Context(), func(i, v int64) error {
			if v == i*i {
				count++
			}
			return nil
		})
		if err == nil && count != n {
			err = fmt.Errorf("%d elements are right", count)
		}
		return err
	}
	if err := read(content); err != nil {
		t.Fatal(err)
	}
	bad := otherChecksum(t, content)
	if err := read(bad); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "x: cannot be unpacked: zip: checksum error") {
		t.Errorf("of another checksum: %v", err)
	}
	bad = bytes.Clone(content)
	copy(bad[len(content)/2:], make([]byte, 1000))
	if err := read(bad); !errors.Is(err, fault.ErrInput) || !strings.HasPrefix(err.Error(), name+": x: ") {
		t.Errorf("of other bytes: %v", err)
	}
}

// TestRows reads rows from the first and from a later one: the archive's checksum is checked behind
// the last.
func TestRows(t *testing.T) {
	content := packed(t, array("<f4", "(3, 2)", []float32{0, 1, 2, 3, 4, 5}))
	name := filepath.Join(t.TempDir(), "a.npz")
	for _, bad := range []bool{false, true} {
		if bad {
			content = otherChecksum(t, content)
		}
		if err := os.WriteFile(name, content, 0o666); err != nil {
			t.Fatal(err)
		}
		for first := range int64(3) {
			a, err := OpenMember(vfs.OS, name, "x")
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Skip(2 * first); err != nil {
				t.Fatal(err)
			}
			for row := first; row < 3; row++ {
				values := make([]float32, 2)
				if err := a.Floats(values); err != nil || values[0] != float32(2*row) {
					t.Errorf("row %d: %v, %v", row, values, err)
				}
			}
			if err := a.End(); bad != (err != nil) || bad && !errors.Is(err, fault.ErrInput) {
				t.Errorf("from row %d on: %v", first, err)
			}
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestFits refuses a file that is shorter or longer than its header says before anything of it is
// read.
func TestFits(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.npy")
	content := array("<i8", "(3,)", []int64{1, 2, 3})
	for missing := range 2 {
		if err := os.WriteFile(name, content[:len(content)-missing], 0o666); err != nil {
			t.Fatal(err)
		}
		a, err := Open(vfs.OS, name)
		if missing > 0 {
			if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "truncated") {
				t.Errorf("%d bytes less: %v", missing, err)
			}
			continue
		}
		if err == nil {
			err = a.Close()
		}
		if err != nil {
			t.Error(err)
		}
	}
	for more, says := range map[int]string{1: "has 93 bytes, but a header and an array of int64 of shape (3,) have 92", len(content): "has 184 bytes"} {
		long := append(slices.Clone(content), content...)[:len(content)+more]
		if err := os.WriteFile(name, long, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(vfs.OS, name); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), says) {
			t.Errorf("%d bytes more: %v", more, err)
		}
	}
}

func TestText(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.npz")
	if err := os.WriteFile(name, packed(t, array("|S3", "()", []byte("csr"))), 0o666); err != nil {
		t.Fatal(err)
	}
	z, err := OpenArchive(vfs.OS, name)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	if text, err := z.Text("x"); err != nil || text != "csr" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := z.Text("y"); !errors.Is(err, fault.ErrInput) {
		t.Errorf("of no array: %v", err)
	}
}

// FuzzArchive reads every array of an archive in every way: what comes is as many elements as its
// shape has, or bad input, in little memory.
func FuzzArchive(f *testing.F) {
	f.Add(packed(f, array("<i8", "(3,)", []int64{1, 2, 3})))
	f.Add(packed(f, array("<f4", "(2, 3)", make([]float32, 6))))
	f.Add(packed(f, array("|S3", "()", []byte("csr"))))
	f.Add(packed(f, array("|b1", "(1152921504606846976,)", []bool{true})))
	name := filepath.Join(f.TempDir(), "a.npz")
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(name, content, 0o666); err != nil {
			t.Fatal(err)
		}
		n := limittest.Allocated(func() {
			z, err := OpenArchive(vfs.OS, name)
			if err != nil {
				bad(t, err)
				return
			}
			defer z.Close()
			for _, key := range z.Keys()[:min(len(z.Keys()), 4)] {
				if _, err := z.Text(key); err != nil {
					bad(t, err)
				}
				for _, read := range []func(a *Array) error{
					func(a *Array) error { return a.Ints(make([]int64, min(a.Count(), 1000))) },
					func(a *Array) error { return a.Floats(make([]float32, min(a.Count(), 1000))) },
					func(a *Array) error { return a.Doubles(make([]float64, min(a.Count(), 1000))) },
					func(a *Array) error { return a.Skip(min(a.Count(), 1000)) },
				} {
					if err := z.Header(key, func(a *Array) error {
						if err := read(a); err != nil || a.Count() > 1000 {
							return err
						}
						return a.End()
					}); err != nil {
						bad(t, err)
					}
				}
			}
		})
		if n > 16<<20 {
			t.Errorf("%d bytes were allocated for %d", n, len(content))
		}
	})
}

// bad checks that an error is of bad input, and no other error as well, such as the end of a file.
func bad(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, fault.ErrInput) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q", err)
	}
}
