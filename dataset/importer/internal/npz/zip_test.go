package npz

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/limittest"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

// archive returns what zip.NewReader reads of an archive of so many members without names:
// the directory, and its end.
func archive(members int) []byte { return archiveOf(members, members >= 0xFFFF) }

// archiveOf may have its numbers in records of 64 bits, however small they are.
func archiveOf(members int, wide bool) []byte {
	b := bytes.Repeat(append([]byte("PK\x01\x02"), make([]byte, 42)...), members)
	size, n := uint64(len(b)), uint16(members)
	if wide {
		n = 0xFFFF
		b = binary.LittleEndian.AppendUint64(append(b, "PK\x06\x06"...), 44)
		b = append(b, 45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0)
		for _, v := range []uint64{uint64(members), uint64(members), size, 0} {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
		b = binary.LittleEndian.AppendUint64(append(b, "PK\x06\x07\x00\x00\x00\x00"...), size)
		b = append(b, 1, 0, 0, 0)
	}
	b = append(b, "PK\x05\x06\x00\x00\x00\x00"...)
	b = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(b, n), n)
	return append(binary.LittleEndian.AppendUint32(b, uint32(size)), 0, 0, 0, 0, 0, 0)
}

func TestZipMembers(t *testing.T) {
	for _, n := range []int{0, 1, 13, 70_000} { // the last in records of 64 bits
		b := archive(n)
		if z, err := zip.NewReader(bytes.NewReader(b), int64(len(b))); err != nil || len(z.File) != n {
			t.Fatalf("%d members: %v", n, err)
		}
		if got, err := zipMembers(bytes.NewReader(b), int64(len(b))); err != nil || got != uint64(n) {
			t.Errorf("%d members, counted %d, %v", n, got, err)
		}
	}
	few := archiveOf(3, true)
	if z, err := OpenZip(bytes.NewReader(few), int64(len(few))); err != nil || len(z.File) != 3 {
		t.Errorf("three members in records of 64 bits: %v", err)
	}
	for n := range 25 { // an end that begins right behind the file's beginning
		b := append(make([]byte, n), archive(0)...)
		if got, err := zipMembers(bytes.NewReader(b), int64(len(b))); err != nil || got != 0 {
			t.Errorf("%d bytes before the end: %d members, %v", n, got, err)
		}
	}
	for _, b := range [][]byte{nil, []byte("PK"), []byte("PK\x05\x06"), make([]byte, 100_000)} {
		if got, err := zipMembers(bytes.NewReader(b), int64(len(b))); err != nil || got != 0 {
			t.Errorf("of no archive: %d, %v", got, err)
		}
	}
}

// TestZipBombs opens archives whose directories would take gigabytes.
func TestZipBombs(t *testing.T) {
	// The end of an archive of 2^36 members, in a file of 4 TB that takes no room.
	const size, members = 4 << 40, 1 << 36
	end := binary.LittleEndian.AppendUint64([]byte("PK\x06\x06"), 44)
	end = append(end, 45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	for _, n := range []uint64{members, members, 1 << 30, size - 1<<31} {
		end = binary.LittleEndian.AppendUint64(end, n)
	}
	at := int64(size - 56 - 20 - 22)
	end = binary.LittleEndian.AppendUint64(append(end, "PK\x06\x07\x00\x00\x00\x00"...), uint64(at))
	end = append(end, "\x01\x00\x00\x00PK\x05\x06\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00"...)
	sparse := filepath.Join(t.TempDir(), "sparse.npz")
	f, err := os.Create(sparse)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(end, at); err != nil {
		t.Skip(err)
	}
	// 65536 members more than the archive says that it has.
	many := archive(65_536 + 3)
	i := bytes.LastIndex(many, []byte("PK\x05\x06"))
	j := bytes.LastIndex(many, []byte("PK\x06\x06"))
	for _, at := range []int{i + 8, i + 10} {
		binary.LittleEndian.PutUint16(many[at:], 3)
	}
	for _, at := range []int{j + 24, j + 32} {
		binary.LittleEndian.PutUint64(many[at:], 3)
	}
	dir := vfstest.TempDir(t)
	for name, b := range map[string][]byte{"wrapped": many, "many": archive(100_000)} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for path, says := range map[string]string{
		sparse:                          "68719476736 members",
		filepath.Join(dir, "many"):      "100000 members",
		filepath.Join(dir, "wrapped"):   "its zip directory has more than",
		filepath.Join(dir, "../nosuch"): "missing",
	} {
		var err error
		n := limittest.Allocated(func() { _, err = OpenArchive(vfs.OS, path) })
		if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", path, err)
		}
		if n > 32<<20 {
			t.Errorf("%s: %d bytes were allocated", path, n)
		}
	}
}

func FuzzZip(f *testing.F) {
	f.Add(archive(3))
	f.Add([]byte("PK\x06\x07PK\x05\x06"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := limittest.Allocated(func() {
			z, err := OpenZip(bytes.NewReader(b), int64(len(b)))
			if err == nil && len(z.File) > 65_535 {
				t.Errorf("%d members", len(z.File))
			}
		})
		if n > 64<<20 {
			t.Errorf("%d bytes were allocated for %d", n, len(b))
		}
	})
}
