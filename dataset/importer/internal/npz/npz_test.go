package npz

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// TestMember reads an array that the archive yields in many pieces, whole and damaged.
func TestMember(t *testing.T) {
	const n = 100_000
	header := fmt.Sprintf("{'descr': '<i8', 'fortran_order': False, 'shape': (%d,), }", n)
	content := append(binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header))), header...)
	for i := range uint64(n) {
		content = binary.LittleEndian.AppendUint64(content, i*i)
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create("x.npy")
	if err == nil {
		_, err = w.Write(content)
	}
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
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
	if err := read(b.Bytes()); err != nil {
		t.Fatal(err)
	}
	r, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	checksum := bytes.LastIndex(b.Bytes(), binary.LittleEndian.AppendUint32(nil, r.File[0].CRC32))
	bad := bytes.Clone(b.Bytes())
	bad[checksum]++ // of the directory, which is what is believed
	if err := read(bad); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "x: cannot be unpacked: zip: checksum error") {
		t.Errorf("of another checksum: %v", err)
	}
	bad = bytes.Clone(b.Bytes())
	copy(bad[b.Len()/2:], make([]byte, 1000))
	if err := read(bad); !errors.Is(err, fault.ErrInput) || !strings.HasPrefix(err.Error(), name+": x: ") {
		t.Errorf("of other bytes: %v", err)
	}
}
