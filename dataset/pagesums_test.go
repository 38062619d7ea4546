package dataset_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

// notes keeps what is reported.
type notes struct {
	progress.Reporter
	lines []string
}

func newNotes() *notes { return &notes{Reporter: progress.Discard} }

func (n *notes) Logf(format string, args ...any) {
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

// features returns the bytes of a dataset's features.
func features(t *testing.T, d *dataset.Dataset) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(d.Dir(), dataset.FeaturesFile))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// pageSums computes the table, by slices.
func pageSums(b []byte) (crcs []uint32) {
	for page := range slices.Chunk(b, 4096) {
		crcs = append(crcs, binio.CRC(page))
	}
	return crcs
}

// wide has features of more than a granule, whose last page is short.
func wide(t *testing.T) *dataset.Dataset {
	return datasettest.Create(t, t.TempDir(), datasettest.Params{Nodes: 1003, Dim: 301}.Raw())
}

func TestPageSumsByValue(t *testing.T) {
	d := datasettest.Create(t, t.TempDir(), datasettest.Tiny(t))
	s, read, err := d.PageSums(t.Context(), progress.Discard)
	if err != nil || read != 96 || s.Granule != 4096 || s.Size != 96 || !slices.Equal(s.CRC, []uint32{binio.CRC(features(t, d))}) || d.PageSumsBytes() != 4 {
		t.Fatalf("%+v, %d bytes read, %v", s, read, err)
	}
	want := []byte("DGNNSUM1")
	want = binary.LittleEndian.AppendUint64(want, 4096)
	want = binary.LittleEndian.AppendUint64(want, 96)
	want = binary.LittleEndian.AppendUint32(want, s.CRC[0])
	want = binary.LittleEndian.AppendUint32(want, binio.CRC(want))
	if got, err := os.ReadFile(filepath.Join(d.Dir(), "features.bin.pages")); err != nil || string(got) != string(want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

// The first reader makes the table and the second reads it, whatever is damaged of it: what
// does not agree with the dataset is made again, and said.
func TestPageSumsAreMadeOnce(t *testing.T) {
	d := wide(t)
	b := features(t, d)
	want := pageSums(b)
	name := filepath.Join(d.Dir(), dataset.PageSumsFile)
	get := func(what string, made bool) {
		t.Helper()
		n := newNotes()
		s, read, err := d.PageSums(t.Context(), n)
		if err != nil || !slices.Equal(s.CRC, want) || s.Size != int64(len(b)) {
			t.Fatalf("%s: %v", what, err)
		}
		if again := read == int64(len(b)); again != made || !made && read != binio.SumsBytes(s.Size, 4096) {
			t.Errorf("%s: %d bytes were read", what, read)
		}
		if said := strings.Contains(strings.Join(n.lines, ""), name+" is made again: "); said != (made && what != "absent") {
			t.Errorf("%s: reported %q", what, n.lines)
		}
	}
	get("absent", true)
	get("there", false)
	table, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	put := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(name, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []int{0, 8, 9, 16, 24, 25, len(table) / 2, len(table) - 5, len(table) - 1} {
		flipped := slices.Clone(table)
		flipped[at] ^= 0x10
		put(flipped)
		get(fmt.Sprintf("byte %d", at), true)
	}
	put(table[:len(table)-4])
	get("truncated", true)
	put(append(slices.Clone(table), 0))
	get("longer", true)
	// Tables that are right in themselves, of other features.
	for what, s := range map[string]binio.Sums{
		"another page":  {Granule: 4096, Size: int64(len(b)), CRC: append(slices.Clone(want[:7]), append([]uint32{want[7] ^ 1}, want[8:]...)...)},
		"the last page": {Granule: 4096, Size: int64(len(b)), CRC: append(slices.Clone(want[:len(want)-1]), 7)},
		"shorter":       {Granule: 4096, Size: 4096, CRC: want[:1]},
		"granules":      {Granule: 8192, Size: int64(len(b)), CRC: want[:(len(b)+8191)/8192]},
	} {
		put(s.Encode())
		get(what, true)
	}
	get("there again", false)
	if err := d.Verify(t.Context(), progress.Discard, 0); err != nil {
		t.Errorf("verify with the table: %v", err)
	}
}

// A directory that cannot be written has its table made by every run, and nothing is left.
func TestPageSumsInMemory(t *testing.T) {
	made := wide(t)
	want := pageSums(features(t, made))
	for n := range 20 {
		_ = os.Remove(filepath.Join(made.Dir(), dataset.PageSumsFile))
		fail := &vfs.FailAt{N: n, Err: syscall.EROFS}
		d, err := dataset.Open(vfs.Inject(vfs.OS, fail), made.Dir())
		if err != nil {
			t.Fatal(err)
		}
		said := newNotes()
		s, _, err := d.PageSums(t.Context(), said)
		if err != nil || !slices.Equal(s.CRC, want) {
			t.Fatalf("operation %d fails: %v", n, err)
		}
		if !fail.Fired() {
			if n < 4 {
				t.Fatalf("%d operations", n)
			}
			return
		}
		if !strings.Contains(strings.Join(said.lines, ""), "cannot save the checksums") {
			t.Errorf("operation %d fails: reported %q", n, said.lines)
		}
		if names, err := vfs.OS.List(made.Dir()); err != nil || slices.Contains(names, dataset.PageSumsFile+vfs.TempSuffix) {
			t.Errorf("operation %d fails: left %v, %v", n, names, err)
		}
	}
	t.Fatal("the failures do not end")
}

func TestPageSumsRefuse(t *testing.T) {
	d := wide(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := d.PageSums(ended, progress.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	b := features(t, d)
	b[dataset.Granule+5] ^= 1
	if err := os.WriteFile(filepath.Join(d.Dir(), dataset.FeaturesFile), b, 0o666); err != nil {
		t.Fatal(err)
	}
	_, _, err := d.PageSums(t.Context(), progress.Discard)
	if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "features.bin: bytes 1048576 to ") || !strings.Contains(err.Error(), d.Dir()+" is damaged") {
		t.Errorf("damaged features: %v", err)
	}
	if ok, err := vfs.Exists(vfs.OS, filepath.Join(d.Dir(), dataset.PageSumsFile)); ok || err != nil {
		t.Errorf("a table of damaged features was left: %t, %v", ok, err)
	}
	raw := datasettest.Params{}.Raw()
	raw.Compress = true
	d = datasettest.Create(t, t.TempDir(), raw)
	if _, _, err := d.PageSums(t.Context(), progress.Discard); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "import it again without --compress, or pack it") {
		t.Errorf("compressed: %v", err)
	}
}

// Several processes that make the table at once each have it, and leave it to one: they say
// nothing, and nothing is left besides. It has the permissions of other files.
func TestPageSumsOfSeveral(t *testing.T) {
	d := wide(t)
	want := pageSums(features(t, d))
	name := filepath.Join(d.Dir(), dataset.PageSumsFile)
	lock, err := vfs.OS.Lock(name + vfs.TempSuffix)
	if err != nil {
		t.Fatal(err)
	}
	for _, there := range []bool{false, true} {
		n := newNotes()
		s, _, err := d.PageSums(t.Context(), n)
		if err != nil || !slices.Equal(s.CRC, want) || len(n.lines) > 0 {
			t.Errorf("%v, reported %q", err, n.lines)
		}
		if _, err := os.Stat(name); (err == nil) != there {
			t.Errorf("the table is there: %v", err)
		}
		_, err = os.Stat(name + vfs.TempSuffix)
		if (err == nil) == there {
			t.Errorf("the other process's file is there: %v", err)
		}
		if !there {
			if err := lock.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	made, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := os.Stat(filepath.Join(d.Dir(), dataset.FeaturesFile)); err != nil || made.Mode() != other.Mode() {
		t.Errorf("the table has permissions %v, the features %v, %v", made.Mode(), other.Mode(), err)
	}
}

// What may write nothing makes the table for itself, and does not speak of the disk.
func TestPageSumsOfAPlan(t *testing.T) {
	made := wide(t)
	want := pageSums(features(t, made))
	_ = os.Remove(filepath.Join(made.Dir(), dataset.PageSumsFile))
	before, err := vfs.OS.List(made.Dir())
	if err != nil {
		t.Fatal(err)
	}
	d, err := dataset.Open(vfs.ReadOnly(vfs.OS), made.Dir())
	if err != nil {
		t.Fatal(err)
	}
	said := newNotes()
	s, _, err := d.PageSums(t.Context(), said)
	if err != nil || !slices.Equal(s.CRC, want) || len(said.lines) > 0 {
		t.Errorf("%v, reported %q", err, said.lines)
	}
	if after, err := vfs.OS.List(made.Dir()); err != nil || !slices.Equal(after, before) {
		t.Errorf("left %v, %v", after, err)
	}
}
