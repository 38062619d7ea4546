package trace

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"diskgnn/dataset"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/presample"
	"diskgnn/presample/mbfile"
)

func encode(t testing.TB, h Header, batches []Batch) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, h)
	if err != nil {
		t.Fatal(err)
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

func decode(b []byte) (Header, []Batch, error) {
	r, err := NewReader(bytes.NewReader(b))
	if err != nil {
		return Header{}, nil, err
	}
	var all []Batch
	for {
		var one Batch
		if err := r.Next(&one); errors.Is(err, io.EOF) {
			return r.Header(), all, nil
		} else if err != nil {
			return r.Header(), all, err
		}
		all = append(all, one)
	}
}

var small = []Batch{
	{SampleNanos: 3, ComputeNanos: 300, Reads: []Read{{4096, 2}}, Rows: []uint32{5, 2, 9}},
	{},
}

// TestBytes holds a small trace against its bytes, by hand.
func TestBytes(t *testing.T) {
	got := encode(t, Header{Source: "rows", Nodes: 10, RowBytes: 4}, small)
	line := `{"format":"diskgnn.trace","version":1,"source":"rows","nodes":10,"row_bytes":4}` + "\n"
	if !bytes.HasPrefix(got, []byte(line)) {
		t.Fatalf("%s", got)
	}
	rest := hex.EncodeToString(got[len(line):])
	want := "0b000000" + "????????" + "03" + "ac02" + "01" + "8020" + "02" + "03" + "0a" + "05" + "0e" +
		"04000000" + "????????" + "00000000" +
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
		h := Header{Format: Format, Version: Version, Source: "x", Nodes: rapid.Int64Range(1, MaxNodes).Draw(t, "nodes"), RowBytes: 512}
		batches := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Batch {
			return Batch{
				SampleNanos: rapid.Int64Min(0).Draw(t, "sample"), ComputeNanos: rapid.Int64Min(0).Draw(t, "compute"),
				Reads: rapid.SliceOf(rapid.Custom(func(t *rapid.T) Read {
					return Read{rapid.Int64Range(1, MaxReads).Draw(t, "bytes"), rapid.Int64Range(0, MaxReads).Draw(t, "count")}
				})).Draw(t, "reads"),
				Rows: rapid.SliceOf(rapid.Uint32Range(0, uint32(h.Nodes-1))).Draw(t, "rows"),
			}
		}), 0, 5).Draw(t, "batches")
		var out bytes.Buffer
		w, err := NewWriter(&out, h)
		for i := range batches {
			err = errors.Join(err, w.Append(&batches[i]))
		}
		if err = errors.Join(err, w.Finish()); err != nil {
			t.Fatal(err)
		}
		header, got, err := decode(out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if header != h {
			t.Fatalf("%+v", header)
		}
		if d := cmp.Diff(batches, got, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
	})
}

// Every prefix and every flipped bit is found.
func TestDamage(t *testing.T) {
	whole := encode(t, Header{Source: "rows", Nodes: 10, RowBytes: 4}, small)
	for n := range whole {
		if _, _, err := decode(whole[:n]); err == nil {
			t.Fatalf("the first %d bytes are a trace", n)
		}
	}
	if _, _, err := decode(append(bytes.Clone(whole), 0)); !errors.Is(err, fault.ErrCorrupt) {
		t.Error("a byte too many:", err)
	}
	for i := range 8 * len(whole) {
		b := bytes.Clone(whole)
		b[i/8] ^= 1 << (i % 8)
		_, _, err := decode(b)
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
	for _, b := range []Batch{{Rows: []uint32{10}}, {Reads: []Read{{0, 1}}}, {Reads: []Read{{1, -1}}}, {Reads: []Read{{MaxReads + 1, 1}}}, {SampleNanos: -1}, {ComputeNanos: -1}} {
		w, err := NewWriter(io.Discard, Header{Nodes: 10, RowBytes: 4})
		if err != nil {
			t.Fatal(err)
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
	if err := Create(vfs.OS, name, h, func(w *Writer) error { return w.Append(&small[0]) }); err != nil {
		t.Fatal(err)
	}
	n := 0
	got, err := Open(vfs.OS, name, func(_ Header, b *Batch) error {
		n++
		if d := cmp.Diff(&small[0], b); d != "" {
			t.Error(d)
		}
		return nil
	})
	if err != nil || n != 1 || got.Source != "rows" {
		t.Fatal(got, n, err)
	}
	if _, err := Open(vfs.OS, name, func(Header, *Batch) error { return full }); !errors.Is(err, full) {
		t.Error(err)
	}
}

// A trace of samples has their input nodes, batch by batch.
func TestSamples(t *testing.T) {
	dir := t.TempDir()
	data, samples, other := filepath.Join(dir, "d"), filepath.Join(dir, "s"), filepath.Join(dir, "o")
	generate := func(out string, seed uint64) *dataset.Dataset {
		if _, err := dataset.Generate(t.Context(), vfs.OS, out, dataset.GenerateOptions{Nodes: 200, Dim: 3, Classes: 2, DType: dtype.Float32, Seed: seed, TrainRatio: 0.2}, progress.Discard); err != nil {
			t.Fatal(err)
		}
		d, err := dataset.Open(vfs.OS, out)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := generate(data, 0)
	if _, err := presample.Run(t.Context(), vfs.OS, presample.Options{Dataset: data, Out: samples, BatchSize: 10, Fanout: []int{2, 2}, Epochs: 2}, progress.Discard); err != nil {
		t.Fatal(err)
	}
	r, err := mbfile.Open(vfs.OS, samples)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	h, err := Samples(d, r)
	if err != nil || h.Nodes != 200 || h.RowBytes != 12 || h.Samples != r.Fingerprint() || h.Dataset != d.Fingerprint() {
		t.Fatal(h, err)
	}
	if _, err := Samples(generate(other, 1), r); !errors.Is(err, fault.ErrLineage) {
		t.Error(err)
	}
	for _, limit := range []int{3, 1000} {
		n := 0
		if err := Each(t.Context(), r, limit, func(b *Batch) error {
			want, _, err := r.Inputs(t.Context(), n, nil)
			if d := cmp.Diff(want, b.Rows); d != "" || err != nil {
				t.Error(d, err)
			}
			n++
			return nil
		}); err != nil || n != min(limit, r.Facts().BatchesPerEpoch) {
			t.Error(n, err)
		}
	}
}

// A payload, and an end, under checksums that match are held to what the header says.
func TestForged(t *testing.T) {
	h := Header{Source: "rows", Nodes: 10, RowBytes: 4}
	r := Reader{header: h}
	for _, c := range []struct {
		payload []byte
		ok      bool
	}{
		{[]byte{0, 0, 0, 1, 18}, true},                             // node 9
		{[]byte{0, 0, 0, 1, 20}, false},                            // node 10
		{[]byte{0, 0, 0, 1, 1}, false},                             // node -1
		{[]byte{0, 0, 0, 2, 2, 2}, true},                           // nodes 1, 2
		{[]byte{0, 0, 0, 2, 2}, false},                             // one is missing
		{[]byte{0, 0, 0, 1, 2, 2}, false},                          // one too many
		{[]byte{0, 0, 1, 1, 0, 0}, true},                           // no read of a byte
		{[]byte{0, 0, 1, 0, 1, 0}, false},                          // a read of none
		{[]byte{0x80, 0x80, 0x80}, false},                          // a number without an end
		{append(bytes.Repeat([]byte{0xff}, 9), 1, 0, 0, 0), false}, // 2⁶⁴−1 ns
	} {
		if err := r.decode(c.payload, &Batch{}); (err == nil) != c.ok {
			t.Errorf("% x: %v", c.payload, err)
		}
	}
	b := encode(t, h, small)
	n := b[len(b)-8:]
	n[0]++ // a batch more, and a checksum of that
	line := b[:bytes.IndexByte(b, '\n')+1]
	binary.LittleEndian.PutUint32(b[len(b)-12:], crc32.Checksum(append(bytes.Clone(line), n...), castagnoli))
	if _, _, err := decode(b); !errors.Is(err, fault.ErrCorrupt) {
		t.Error("another number of batches:", err)
	}
}

// Whatever operation fails, a trace is there whole or not at all.
func TestEveryFailure(t *testing.T) {
	dir := t.TempDir()
	for n := 0; ; n++ {
		name := filepath.Join(dir, fmt.Sprint(n))
		in := &vfs.FailAt{N: n, Err: errors.New("boom")}
		err := Create(vfs.Inject(vfs.OS, in), name, Header{Source: "rows", Nodes: 10, RowBytes: 4}, func(w *Writer) error { return w.Append(&small[0]) })
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
	f.Add(encode(f, Header{Source: "rows", Nodes: 10, RowBytes: 4}, small))
	f.Add(encode(f, Header{Source: "ginex"}, []Batch{{Reads: []Read{{512, 7}, {1 << 20, 1}}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, batches, err := decode(b)
		if err != nil {
			return
		}
		h2, again, err := decode(encode(t, h, batches))
		if err != nil || h2 != h {
			t.Fatal(h2, err)
		}
		if d := cmp.Diff(batches, again, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
	})
}

// FuzzPayload reads any payload under a checksum that matches.
func FuzzPayload(f *testing.F) {
	f.Add([]byte{3, 0xac, 2, 1, 0x80, 0x20, 2, 3, 10, 5, 14})
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
			if read.check() != nil {
				t.Fatalf("%+v", read)
			}
		}
	})
}
