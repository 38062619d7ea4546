package trace

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

func encode(t testing.TB, h Header, files []File, batches []Batch) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, h)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range files {
		if n, err := w.AddFile(f); err != nil || n != int32(i) {
			t.Fatal(n, err)
		}
	}
	for i := range batches {
		if err := w.Append(&batches[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func decode(b []byte) (Header, []File, []Batch, error) {
	r, err := NewReader(bytes.NewReader(b))
	if err != nil {
		return Header{}, nil, nil, err
	}
	var all []Batch
	for {
		var one Batch
		if err := r.Next(&one); errors.Is(err, io.EOF) {
			return r.Header(), r.Files(), all, nil
		} else if err != nil {
			return r.Header(), r.Files(), all, err
		}
		all = append(all, one)
	}
}

var (
	files = []File{{"a.bin", 300, false}, {"b", 10_000, true}}
	small = []Batch{
		{SampleNanos: 3, AssembleNanos: 4, ComputeNanos: 300, Reads: []Read{{4096, 512, 1}, {10, 5, 0}}, Rows: []uint32{5, 2, 9}},
		{},
	}
	rowsOnly = Batch{ComputeNanos: 300, Rows: []uint32{5, 2, 9}}
)

// TestBytes holds a small trace against its bytes, by hand.
func TestBytes(t *testing.T) {
	got := encode(t, Header{Source: "rows", Nodes: 10, RowBytes: 4, Slots: 2, InFlight: 64}, files, small)
	line := `{"format":"diskgnn.trace","version":2,"source":"rows","nodes":10,"row_bytes":4,"slots":2,"in_flight":64}` + "\n"
	if !bytes.HasPrefix(got, []byte(line)) {
		t.Fatalf("%s", got)
	}
	rest := hex.EncodeToString(got[len(line):])
	want := "21000000" + "????????" + "03" + "04" + "ac02" +
		"02" + "05612e62696e" + "ac02" + "00" + "0162" + "904e" + "01" +
		"02" + "01" + "8040" + "8004" + "00" + "eb47" + "05" + // 10 − 4608 = −4598 is 9195
		"03" + "0a" + "05" + "0e" +
		"06000000" + "????????" + "000000000000" +
		"00000000" + "????????" + "0200000000000000"
	if len(rest) != len(want) {
		t.Fatalf("%s, want %s", rest, want)
	}
	for i := range want {
		if want[i] != '?' && want[i] != rest[i] {
			t.Fatalf("%s, want %s", rest, want)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := Header{Format: Format, Version: Version, Source: "x", Nodes: rapid.Int64Range(1, MaxNodes).Draw(t, "nodes"), RowBytes: 512,
			BatchesPerEpoch: rapid.IntRange(0, maxCount).Draw(t, "per epoch"), LongestRead: rapid.IntRange(0, maxCount).Draw(t, "longest")}
		names := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) File {
			return File{rapid.StringN(1, 9, maxName).Draw(t, "name"), rapid.Int64Range(1, MaxBytes).Draw(t, "size"), rapid.Bool().Draw(t, "pages")}
		}), 1, 4).Draw(t, "files")
		batches := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Batch {
			return Batch{
				SampleNanos: rapid.Int64Min(0).Draw(t, "sample"), AssembleNanos: rapid.Int64Min(0).Draw(t, "assemble"), ComputeNanos: rapid.Int64Min(0).Draw(t, "compute"),
				Reads: rapid.SliceOf(rapid.Custom(func(t *rapid.T) Read {
					f := rapid.IntRange(0, len(names)-1).Draw(t, "file")
					n := rapid.Int64Range(1, names[f].Size).Draw(t, "bytes")
					return Read{rapid.Int64Range(0, names[f].Size-n).Draw(t, "offset"), n, int32(f)}
				})).Draw(t, "reads"),
				Rows: rapid.SliceOf(rapid.Uint32Range(0, uint32(h.Nodes-1))).Draw(t, "rows"),
			}
		}), 0, 5).Draw(t, "batches")
		var out bytes.Buffer
		w, err := NewWriter(&out, h)
		named := 0 // some before each batch, all before the first that reads
		for i := range batches {
			until := rapid.IntRange(named, len(names)).Draw(t, "named")
			if len(batches[i].Reads) > 0 {
				until = len(names)
			}
			for ; named < until; named++ {
				_, ferr := w.AddFile(names[named])
				err = errors.Join(err, ferr)
			}
			err = errors.Join(err, w.Append(&batches[i]))
		}
		if err = errors.Join(err, w.Finish()); err != nil {
			t.Fatal(err)
		}
		header, gotFiles, got, err := decode(out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if header != h {
			t.Fatalf("%+v", header)
		}
		if d := cmp.Diff(batches, got, cmpopts.EquateEmpty()) + cmp.Diff(names[:named], gotFiles, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
	})
}

// TestExtent: of 10,000 bytes, the third page has 1808.
func TestExtent(t *testing.T) {
	for _, c := range []struct{ off, n, pages int64 }{
		{0, 1, 4096}, {0, 4096, 4096}, {4095, 1, 4096}, {4095, 2, 8192}, {100, 9000, 10_000}, {8192, 1, 1808}, {9999, 1, 1808}, {4096, 5904, 5904},
	} {
		if got := files[1].Extent(c.off, c.n); got != c.pages {
			t.Errorf("%d bytes at %d move %d, want %d", c.n, c.off, got, c.pages)
		}
		if got := files[0].Extent(c.off, c.n); got != c.n {
			t.Errorf("%d bytes at %d of a file that is not read directly move %d", c.n, c.off, got)
		}
	}
}

// Every prefix and every flipped bit is found.
func TestDamage(t *testing.T) {
	whole := encode(t, Header{Source: "rows", Nodes: 10, RowBytes: 4}, files, small)
	for n := range whole {
		if _, _, _, err := decode(whole[:n]); err == nil {
			t.Fatalf("the first %d bytes are a trace", n)
		}
	}
	if _, _, _, err := decode(append(bytes.Clone(whole), 0)); !errors.Is(err, fault.ErrCorrupt) {
		t.Error("a byte too many:", err)
	}
	for i := range 8 * len(whole) {
		b := bytes.Clone(whole)
		b[i/8] ^= 1 << (i % 8)
		_, _, _, err := decode(b)
		if err == nil || !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrInput) && !errors.Is(err, fault.ErrVersion) || strings.Contains(err.Error(), "\n") {
			t.Fatalf("bit %d: %v", i, err)
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	if _, err := NewWriter(io.Discard, Header{Nodes: 1}); err == nil {
		t.Error("rows of no bytes")
	}
	if _, err := NewWriter(io.Discard, Header{Source: strings.Repeat("x", maxHeader)}); err == nil {
		t.Error("a long header")
	}
	// A row's number has 32 bits.
	for _, h := range []Header{{Nodes: -1, RowBytes: 4}, {Nodes: 1<<32 + 1, RowBytes: 4}, {Nodes: 4, RowBytes: -1}, {Nodes: 4, RowBytes: MaxBytes + 1}} {
		if _, err := NewWriter(io.Discard, h); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%d rows of %d bytes: %v", h.Nodes, h.RowBytes, err)
		}
	}
	if _, err := NewWriter(io.Discard, Header{Nodes: 1 << 32, RowBytes: MaxBytes}); err != nil {
		t.Error(err)
	}
	if _, err := NewWriter(io.Discard, Header{InFlight: -1}); err == nil {
		t.Error("less than no read in flight")
	}
	for _, b := range []Batch{{Rows: []uint32{10}}, {Reads: []Read{{0, 0, 0}}}, {Reads: []Read{{0, 301, 0}}}, {Reads: []Read{{300, 1, 0}}}, {Reads: []Read{{-1, 1, 0}}},
		{Reads: []Read{{math.MaxInt64, 1, 0}}}, {Reads: []Read{{0, 1, 2}}}, {Reads: []Read{{0, 1, -1}}}, {SampleNanos: -1}, {AssembleNanos: -1}, {ComputeNanos: -1}} {
		w, err := NewWriter(io.Discard, Header{Nodes: 10, RowBytes: 4})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if _, err := w.AddFile(f); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range []File{{}, {Name: "x", Size: -1}, {Name: "x", Size: MaxBytes + 1}, {Name: strings.Repeat("x", maxName+1)}} {
			if _, err := w.AddFile(f); err == nil {
				t.Errorf("%.20v is written", f)
			}
		}
		if err := w.Append(&b); err == nil {
			t.Errorf("%+v is written", b)
		}
	}
}

func TestFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "t")
	h := Header{Source: "rows", Nodes: 10, RowBytes: 4}
	full := errors.New("no more")
	if err := Create(vfs.OS, name, h, func(*Writer) error { return full }); !errors.Is(err, full) {
		t.Fatal(err)
	}
	if err := os.WriteFile(name+"2", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Create(vfs.OS, name+"2", h, func(*Writer) error { return nil }); !errors.Is(err, fault.ErrExists) {
		t.Error("a file is overwritten:", err)
	}
	left, err := filepath.Glob(name + "*")
	if err != nil || len(left) != 1 {
		t.Fatal(left, err)
	}
	if err := Create(vfs.OS, name, h, func(w *Writer) error { return w.Append(&rowsOnly) }); err != nil {
		t.Fatal(err)
	}
	n := 0
	got, err := Open(vfs.OS, name, func(_ *Reader, b *Batch) error {
		n++
		if d := cmp.Diff(&rowsOnly, b, cmpopts.EquateEmpty()); d != "" {
			t.Error(d)
		}
		return nil
	})
	if err != nil || n != 1 || got.Source != "rows" {
		t.Fatal(got, n, err)
	}
	if _, err := Open(vfs.OS, name, func(*Reader, *Batch) error { return full }); !errors.Is(err, full) {
		t.Error(err)
	}
}

// A payload, and an end, under checksums that match are held to what the header says.
func TestForged(t *testing.T) {
	h := Header{Source: "rows", Nodes: 10, RowBytes: 4}
	for _, c := range []struct {
		payload []byte
		ok      bool
	}{
		{[]byte{0, 0, 0, 0, 0, 1, 18}, true},                               // node 9
		{[]byte{0, 0, 0, 0, 0, 1, 20}, false},                              // node 10
		{[]byte{0, 0, 0, 0, 0, 1, 1}, false},                               // node -1
		{[]byte{0, 0, 0, 0, 0, 2, 2, 2}, true},                             // nodes 1, 2
		{[]byte{0, 0, 0, 0, 0, 2, 2}, false},                               // one is missing
		{[]byte{0, 0, 0, 0, 0, 1, 2, 2}, false},                            // one too many
		{[]byte{0, 0, 0, 1, 1, 'x', 5, 0, 0, 0}, true},                     // a file
		{[]byte{0, 0, 0, 1, 1, 'x', 5, 2, 0, 0}, false},                    // neither whole pages nor not
		{[]byte{0, 0, 0, 1, 0, 5, 0, 0, 0}, false},                         // without a name
		{[]byte{0, 0, 0, 1, 9, 'x', 5, 0, 0, 0}, false},                    // whose name is cut off
		{[]byte{0, 0, 0, 1, 1, 'x', 5, 0, 1, 0, 0, 5, 0}, true},            // all of it
		{[]byte{0, 0, 0, 1, 1, 'x', 5, 0, 1, 0, 0, 6, 0}, false},           // more than that
		{[]byte{0, 0, 0, 1, 1, 'x', 5, 0, 1, 0, 0, 0, 0}, false},           // a read of no byte
		{[]byte{0, 0, 0, 1, 1, 'x', 5, 0, 1, 1, 0, 5, 0}, false},           // of another file
		{[]byte{0, 0, 0, 1, 1, 'x', 5, 0, 2, 0, 0, 2, 0, 2, 2, 0}, true},   // bytes 0–1, 3–4
		{[]byte{0, 0, 0, 1, 1, 'x', 5, 0, 2, 0, 0, 2, 0, 3, 2, 0}, true},   // and 0–1 once more
		{[]byte{0, 0, 0, 1, 1, 'x', 5, 0, 2, 0, 0, 2, 0, 5, 2, 0}, false},  // −1
		{[]byte{0x80, 0x80, 0x80}, false},                                  // a number without an end
		{append(bytes.Repeat([]byte{0xff}, 9), 1, 0, 0, 0, 0, 0), false},   // 2⁶⁴−1 ns
		{append([]byte{0, 0, 0}, bytes.Repeat([]byte{0xff}, 8)...), false}, // files without end
	} {
		r := Reader{header: h}
		if err := r.decode(c.payload, &Batch{}); (err == nil) != c.ok {
			t.Errorf("% x: %v", c.payload, err)
		}
	}
	b := encode(t, h, files, small)
	n := b[len(b)-8:]
	n[0]++ // a batch more, and a checksum of that
	line := b[:bytes.IndexByte(b, '\n')+1]
	binary.LittleEndian.PutUint32(b[len(b)-12:], crc32.Checksum(append(bytes.Clone(line), n...), crc32.MakeTable(crc32.Castagnoli)))
	if _, _, _, err := decode(b); !errors.Is(err, fault.ErrCorrupt) {
		t.Error("another number of batches:", err)
	}
}

// Whatever operation fails, a trace is there whole or not at all.
func TestEveryFailure(t *testing.T) {
	dir := t.TempDir()
	for n := 0; ; n++ {
		name := filepath.Join(dir, fmt.Sprint(n))
		in := &vfs.FailAt{N: n, Err: errors.New("boom")}
		err := Create(vfs.Inject(vfs.OS, in), name, Header{Source: "rows", Nodes: 10, RowBytes: 4}, func(w *Writer) error { return w.Append(&rowsOnly) })
		if (err != nil) != in.Fired() {
			t.Fatalf("%v: fired %t, %v", in, in.Fired(), err)
		}
		there, xerr := vfs.Exists(vfs.OS, name)
		if xerr != nil || there != (err == nil) {
			t.Errorf("%v: the file is there: %t, %v", in, there, xerr)
		}
		if !in.Fired() {
			break
		}
		if left, _ := vfs.Exists(vfs.OS, name+".partial"); left {
			t.Errorf("%v: what was begun is left", in)
		}
	}
}

// FuzzRead reads any bytes: an error, or batches that are written as they were read.
func FuzzRead(f *testing.F) {
	f.Add(encode(f, Header{Source: "rows", Nodes: 10, RowBytes: 4}, files, small))
	f.Add(encode(f, Header{Source: "ginex", Slots: 3}, files, []Batch{{Reads: []Read{{512, 7, 1}, {0, 300, 0}}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, names, batches, err := decode(b)
		if err != nil {
			return
		}
		h2, names2, again, err := decode(encode(t, h, names, batches))
		if err != nil || h2 != h {
			t.Fatal(h2, err)
		}
		if len(batches) == 0 {
			names2 = names // no record named them
		}
		if d := cmp.Diff(batches, again, cmpopts.EquateEmpty()) + cmp.Diff(names, names2, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
	})
}

// FuzzPayload reads any payload under a checksum that matches.
func FuzzPayload(f *testing.F) {
	f.Add([]byte{3, 4, 0xac, 2, 1, 1, 'x', 5, 1, 2, 0, 0, 2, 0, 2, 2, 3, 10, 5, 14})
	f.Fuzz(func(t *testing.T, p []byte) {
		r := Reader{header: Header{Nodes: 10, RowBytes: 4}}
		var b Batch
		if err := r.decode(p, &b); err != nil {
			return
		}
		for _, v := range b.Rows {
			if v >= 10 {
				t.Fatalf("node %d", v)
			}
		}
		for _, read := range b.Reads {
			if f := r.files[read.File]; read.Bytes < 1 || read.Offset < 0 || read.Offset+read.Bytes > f.Size {
				t.Fatalf("%+v of %+v", read, f)
			}
		}
	})
}
