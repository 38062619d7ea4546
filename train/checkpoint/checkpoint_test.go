package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

var disk = vfs.Unsynced(vfs.OS)

// whole returns a file's content.
func whole(t testing.TB, head any, sections map[string][]byte) []byte {
	front, order, err := encode(head, sections)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range order {
		front = append(front, sections[name]...)
	}
	return front
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		head := rapid.MapOf(rapid.String(), rapid.Float64()).Draw(rt, "head")
		sections := rapid.MapOf(rapid.StringMatching("[a-z/.]{0,9}"), rapid.SliceOf(rapid.Byte())).Draw(rt, "sections")
		raw, got, err := Decode(whole(t, head, sections))
		if err != nil {
			rt.Fatal(err)
		}
		var again map[string]float64
		if err := json.Unmarshal(raw, &again); err != nil || fmt.Sprint(again) != fmt.Sprint(head) {
			rt.Fatalf("the head is %v, not %v (%v)", again, head, err)
		}
		if len(got) != len(sections) {
			rt.Fatalf("%d sections of %d", len(got), len(sections))
		}
		for name, b := range sections {
			if !bytes.Equal(got[name], b) {
				rt.Fatalf("%q is %v, not %v", name, got[name], b)
			}
		}
	})
}

// decode decodes a file, and makes sure that Verify says the same of it.
func decode(t testing.TB, b []byte) (json.RawMessage, map[string][]byte, error) {
	t.Helper()
	head, sections, err := Decode(b)
	verified, verr := Verify(bytes.NewReader(b), int64(len(b)))
	if (err == nil) != (verr == nil) || err != nil && err.Error() != verr.Error() || err == nil && !bytes.Equal(head, verified) {
		t.Fatalf("decoded: %s, %v; verified: %s, %v", head, err, verified, verr)
	}
	return head, sections, err
}

// Every byte is checked: any that is wrong, missing or too many is an error.
func TestEveryByte(t *testing.T) {
	b := whole(t, map[string]int{"epoch": 3}, map[string][]byte{"a": {1, 2, 3}, "b": nil, "c": []byte("weights")})
	if _, _, err := decode(t, b); err != nil {
		t.Fatal(err)
	}
	for i := range b {
		for _, mask := range []byte{1, 0x80, 0xFF} {
			wrong := bytes.Clone(b)
			wrong[i] ^= mask
			if _, _, err := decode(t, wrong); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("byte %d: %v", i, err)
			}
		}
		if _, _, err := decode(t, b[:i]); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("cut at %d: %v", i, err)
		}
	}
	if _, _, err := decode(t, append(b, 0)); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a byte too many: %v", err)
	}
}

func TestKeepsTheNewest(t *testing.T) {
	d := Dir{disk, filepath.Join(t.TempDir(), "checkpoints")}
	if names, err := d.List(); err != nil || names != nil {
		t.Errorf("before the first: %v, %v", names, err)
	}
	for step := range int64(5) {
		if err := d.Write(step*1000, step, map[string][]byte{"x": {byte(step)}}, 3); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"step-12.ckpt", "notes.txt", nameOf(7) + ".old"} { // not ours
		if err := os.WriteFile(d.File(name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(d.File(nameOf(9)+partial), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	names, err := d.List()
	if want := "step-000000004000.ckpt step-000000003000.ckpt step-000000002000.ckpt"; err != nil || strings.Join(names, " ") != want {
		t.Errorf("%v, %v; want %s", names, err, want)
	}
	head, sections, err := d.Read(names[0], 100)
	if err != nil || string(head) != "4" || sections["x"][0] != 4 {
		t.Errorf("%s holds %s, %v, %v", names[0], head, sections, err)
	}
	if err := d.Remove(names[0]); err != nil {
		t.Fatal(err)
	}
	if all, _ := disk.List(d.Path); len(all) != 5 {
		t.Errorf("left are %v", all)
	}
	if err := d.Clear(); err != nil {
		t.Error(err)
	}
	if err := errors.Join(d.Clear(), d.Remove("a")); err != nil {
		t.Errorf("where nothing is: %v", err)
	}
}

// Whichever operation fails, the newest checkpoint there is whole: the one before, or
// the new one.
func TestEveryWriteFails(t *testing.T) {
	for n := 0; ; n++ {
		dir := filepath.Join(t.TempDir(), "checkpoints")
		in := &vfs.FailAt{N: n, After: true, Err: errors.New("boom")}
		d := Dir{vfs.Inject(disk, in), dir}
		last := int64(-1)
		for step := range int64(4) {
			if d.Write(step, step, map[string][]byte{"a": make([]byte, 10), "b": {1}}, 2) == nil {
				last = step
			}
		}
		d.FS = disk
		names, err := d.List()
		if err != nil || len(names) > 3 {
			t.Fatalf("%v: %v, %v", in, names, err)
		}
		newest := int64(-1)
		for i, name := range names {
			head, _, err := d.Read(name, 100)
			if err != nil {
				t.Errorf("%v: %v", in, err)
			}
			if i == 0 {
				_ = json.Unmarshal(head, &newest)
			}
		}
		if newest < last {
			t.Errorf("%v: the newest is of step %d, written was %d", in, newest, last)
		}
		if !in.Fired() {
			if n < 15 || last != 3 {
				t.Errorf("after %d faults: %d", n, last)
			}
			return
		}
	}
}

// A file longer than it can be is not read, nor is a header that is longer than any.
func TestTooLong(t *testing.T) {
	d := Dir{disk, filepath.Join(t.TempDir(), "checkpoints")}
	if err := d.Write(1, 1, map[string][]byte{"a": make([]byte, 100)}, 1); err != nil {
		t.Fatal(err)
	}
	name := nameOf(1)
	if _, _, err := d.Read(name, 100); err != nil {
		t.Error(err)
	}
	if err := os.Truncate(d.File(name), 1<<40); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	if _, _, err := d.Read(name, 100); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "the file has 1099511627776 bytes, but a checkpoint of this run has at most 1048692") {
		t.Errorf("%v", err)
	}
	if _, _, err := Decode(sealed(append([]byte(`{"head":1,"sections":[]`), append(bytes.Repeat([]byte(" "), 1<<20), '}')...))); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a header of a mebibyte: %v", err)
	}
}

// shrinking is a file system whose files lose a byte after their length was looked up.
type shrinking struct{ vfs.FS }

type shrinkingFile struct{ vfs.File }

func (s shrinking) Open(name string) (vfs.File, error) {
	f, err := s.FS.Open(name)
	return shrinkingFile{f}, err
}

func (f shrinkingFile) Stat() (fs.FileInfo, error) {
	st, err := f.File.Stat()
	return st, errors.Join(err, os.Truncate(f.Name(), st.Size()-1))
}

func TestBecomesShorter(t *testing.T) {
	d := Dir{shrinking{disk}, filepath.Join(t.TempDir(), "checkpoints")}
	if err := d.Write(1, 1, nil, 1); err != nil {
		t.Fatal(err)
	}
	name := nameOf(1)
	st, err := os.Stat(d.File(name))
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("read %s: the file became shorter than %d bytes while it was read", d.File(name), st.Size())
	if _, _, err := d.Read(name, 100); !errors.Is(err, fault.ErrCorrupt) || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}

func TestOtherVersion(t *testing.T) {
	b := whole(t, 1, nil)
	b[len(magic)] = '3'
	crc := len(b) - crcBytes
	copy(b[crc:], sum(b[:crc]))
	if _, _, err := Decode(b); !errors.Is(err, fault.ErrVersion) {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(whole(f, map[string]int{"epoch": 3}, map[string][]byte{"a": {1, 2, 3}, "b": nil}))
	f.Add(whole(f, nil, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, sealed(b)} {
			head, sections, err := decode(t, b)
			if err != nil {
				if !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrVersion) {
					t.Fatal(err)
				}
				continue
			}
			if _, again, err := Decode(whole(t, head, sections)); err != nil || len(again) != len(sections) {
				t.Fatalf("decoded, encoded, decoded: %v", err)
			}
		}
	})
}

// FuzzForged decodes files that were forged with right checksums: whatever sizes and names
// the header claims, the sections are parts of the file, and no memory is taken beyond it.
func FuzzForged(f *testing.F) {
	f.Add("a", int64(3), "b", int64(0), []byte("abc"))
	f.Add("a", int64(1)<<62, "b", int64(1)<<62, []byte("abc"))
	f.Add("a", int64(-1), "b", int64(4), []byte("abc"))
	f.Add("b", int64(1), "a", int64(2), []byte("abc"))
	f.Fuzz(func(t *testing.T, name string, n int64, name2 string, n2 int64, content []byte) {
		name2 = strings.ToValidUTF8(name2, "?") // as JSON has names
		part := func(from, n int64) []byte {
			from = min(max(from, 0), int64(len(content)))
			return content[from : from+min(max(n, 0), int64(len(content))-from)]
		}
		text, err := json.Marshal(header{Head: json.RawMessage("{}"), Sections: []section{
			{name, n, binio.CRC(part(0, n))}, {name2, n2, binio.CRC(part(n, n2))},
		}})
		if err != nil {
			t.Fatal(err)
		}
		b := append(sealed(text), content...)
		_, sections, err := decode(t, b)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if n < 0 || n2 < 0 || n+n2 != int64(len(content)) || len(sections) != 2 || int64(len(sections[name2])) != n2 {
			t.Fatalf("%d and %d bytes of %d: %d sections", n, n2, len(content), len(sections))
		}
	})
}

// sealed returns b as a header's text with a right checksum.
func sealed(b []byte) []byte {
	front := append([]byte(magic), version, byte(len(b)), byte(len(b)>>8), byte(len(b)>>16), 0)
	front = append(front, b...)
	return append(front, sum(front)...)
}

// sum returns the checksum of b as it lies in a file.
func sum(b []byte) []byte { return binary.LittleEndian.AppendUint32(nil, binio.CRC(b)) }
