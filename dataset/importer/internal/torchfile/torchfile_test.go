package torchfile

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/internal/pickle"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// TestFixtures reads what two versions of torch wrote, and compares it with what they load.
func TestFixtures(t *testing.T) {
	names, err := filepath.Glob(filepath.Join("testdata", "*-*.pt"))
	if err != nil || len(names) < 10 {
		t.Fatalf("fixtures: %q, %v", names, err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			f := open(t, name)
			want, err := os.ReadFile(strings.TrimSuffix(name, ".pt") + ".txt")
			if errors.Is(err, os.ErrNotExist) { // one tensor alone
				if got := line(t, f, "int64", f.Root()); got != "int64 int64 3,4 0 1 2 3 4 5 6 7 8 9 10 11\n" {
					t.Errorf("%s", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			items, ok := Dict(f.Root())
			if !ok {
				t.Fatalf("the root is %v", f.Root())
			}
			var got strings.Builder
			for i, k := range items.Keys {
				if IsArray(items.Values[i]) {
					got.WriteString(line(t, f, k.(string), items.Values[i]))
				}
			}
			if got.String() != string(want) {
				t.Errorf("read\n%s, torch loads\n%s", &got, want)
			}
		})
	}
}

func open(t *testing.T, name string) *File {
	t.Helper()
	f, err := Open(vfs.OS, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// line writes a tensor as make.py does. Values are read one by one, in row-major order.
func line(t *testing.T, f *File, key string, v any) string {
	t.Helper()
	if o, ok := isNumPy(v, "_reconstruct"); ok {
		h, r, err := numpyArray(o)
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		return key + numbers(t, Type{h.Kind, h.Size}, h.Shape, r, h.Fortran)
	}
	x, err := f.Tensor(v)
	if err != nil {
		t.Fatal(err)
	}
	r, fortran, err := x.Reader()
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return key + numbers(t, x.Type, x.Shape, r, fortran)
}

// numbers writes the type, the shape and the elements of an array.
func numbers(t *testing.T, x Type, dims []int64, r io.Reader, fortran bool) string {
	t.Helper()
	names := map[byte]string{'i': "int", 'u': "uint", 'f': "float", 'b': "bool", 'B': "bfloat"}
	kind := names[x.Kind]
	if x.Kind != 'b' {
		kind += fmt.Sprint(8 * x.Size)
	}
	shape := strings.Trim(strings.ReplaceAll(fmt.Sprint(dims), " ", ","), "[]")
	if shape == "" {
		shape = "-"
	}
	s := fmt.Sprintf(" %s %s", kind, shape)
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	count := 1
	for _, d := range dims {
		count *= int(d)
	}
	if len(b) != count*x.Size {
		t.Fatalf("%s: %d bytes of %d elements", s, len(b), count)
	}
	for i := range count {
		if fortran {
			rows, cols := int(dims[0]), int(dims[1])
			i = i%cols*rows + i/cols
		}
		s += fmt.Sprintf(" %g", value(x, b[i*x.Size:][:x.Size]))
	}
	return s + "\n"
}

func value(t Type, b []byte) float64 {
	var wide [8]byte
	copy(wide[:], b)
	u := binary.LittleEndian.Uint64(wide[:])
	shift := 64 - 8*t.Size
	switch t.Kind {
	case 'i':
		return float64(int64(u<<shift) >> shift)
	case 'u', 'b':
		return float64(u)
	case 'B':
		return float64(math.Float32frombits(uint32(u) << 16))
	}
	switch t.Size {
	case 2:
		out := make([]byte, 4)
		dtype.Convert(out, dtype.Float32, b, dtype.Float16)
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(out)))
	case 4:
		return float64(math.Float32frombits(uint32(u)))
	}
	return math.Float64frombits(u)
}

// TestSeek reads parts of views from where they begin.
func TestSeek(t *testing.T) {
	f := open(t, filepath.Join("testdata", "tensors-2.2.1.pt"))
	items, _ := Dict(f.Root())
	for _, key := range []string{"int64", "columns", "repeated", "transposed", "cube"} {
		v, _ := items.Get(key)
		x, err := f.Tensor(v)
		if err != nil {
			t.Fatal(err)
		}
		r, _, err := x.Reader()
		if err != nil {
			t.Fatal(err)
		}
		whole, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		for at := range int64(len(whole)) {
			if _, err := r.Seek(at, io.SeekStart); err != nil {
				t.Fatal(err)
			}
			if n, err := r.Seek(0, io.SeekCurrent); n != at || err != nil {
				t.Fatalf("at %d instead of %d, %v", n, at, err)
			}
			rest, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(rest, whole[at:]) {
				t.Fatalf("%s from %d on: % x, %v; want % x", key, at, rest, err, whole[at:])
			}
		}
		if n, err := r.Seek(-8, io.SeekEnd); err != nil || n != int64(len(whole)-8) {
			t.Errorf("8 bytes before the end: %d, %v", n, err)
		}
		if _, err := r.Seek(-1, io.SeekStart); err == nil {
			t.Error("a place before the beginning")
		}
	}
}

// parts are what a file of one tensor consists of; write makes the file.
type parts struct {
	pickle    string
	storage   []byte
	order     string
	method    uint16
	name, key string
	cut       int // bytes from the end
	flags     uint16
}

// tensorOf is the pickle of a tensor.
func tensorOf(storage, key string, elements int64, offset int64, shape, stride []int64) string {
	num := func(v int64) string {
		return "\x8a\x08" + string(binary.LittleEndian.AppendUint64(nil, uint64(v)))
	}
	tuple := func(v []int64) string {
		s := "("
		for _, x := range v {
			s += num(x)
		}
		return s + "t"
	}
	text := func(s string) string { return "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s }
	return "\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\n" + storage + "\n" + text(key) + text("cpu") + num(elements) + "tQ" +
		num(offset) + tuple(shape) + tuple(stride) + "\x89ccollections\nOrderedDict\n)RtR."
}

// storage is the identifier of good's elements, and made the pickle of the first of them: the least that a tensor is made of.
const storage = "(X\x07\x00\x00\x00storagectorch\nLongStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x06tQ"

func made(storage string) string {
	return "\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + storage + "K\x00))tR."
}

// sized is made with other sizes.
func sized(shape string) string { return strings.Replace(made(storage), "))tR", shape+")tR", 1) }

func good() parts {
	return parts{pickle: tensorOf("LongStorage", "0", 6, 0, []int64{2, 3}, []int64{3, 1}), storage: make([]byte, 48), order: "little", name: "archive/", key: "0"}
}

func (p parts) write(t testing.TB, name string) {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	add := func(name string, method, flags uint16, content []byte) {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: method, Flags: flags})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	add(p.name+"data.pkl", p.method, p.flags, []byte(p.pickle))
	if p.order != "" {
		add(p.name+"byteorder", zip.Store, 0, []byte(p.order))
	}
	add(p.name+"data/"+p.key, p.method, 0, p.storage)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b.Bytes()[:b.Len()-p.cut], 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestRefuses changes one thing of a good file at a time.
func TestRefuses(t *testing.T) {
	tensor := func(storage, key string, elements, offset int64, shape, stride []int64) func(*parts) {
		return func(p *parts) { p.pickle = tensorOf(storage, key, elements, offset, shape, stride) }
	}
	dims := func(shape, stride []int64) func(*parts) { return tensor("LongStorage", "0", 6, 0, shape, stride) }
	const long = math.MaxInt64
	for what, c := range map[string]struct {
		change func(*parts)
		says   string
	}{
		"no archive":            {func(p *parts) { p.cut = 30 }, "not an archive of torch.save"},
		"no pickle":             {func(p *parts) { p.name = "a/b/" }, "the archive has no data.pkl: torch.save did not write it"},
		"big-endian":            {func(p *parts) { p.order = "big" }, `its byte order is "big": only little-endian files can be read`},
		"a long order":          {func(p *parts) { p.order = strings.Repeat("little", 10) }, "has 60 bytes, more than 16"},
		"compressed":            {func(p *parts) { p.method = zip.Deflate }, "is compressed"},
		"encrypted":             {func(p *parts) { p.flags = 1 }, "is compressed"},
		"os.system":             {func(p *parts) { p.pickle = "\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R." }, `it uses "os.system", which is not one of the supported classes of tensors, arrays and graphs; nothing was run`},
		"a huge pickle":         {func(p *parts) { p.pickle = "\x80\x02" + strings.Repeat("N", 1<<20+1) }, "more than 32768 values"},
		"no tensor":             {func(p *parts) { p.pickle = "\x80\x02]." }, "it has a list instead of a tensor"},
		"no storage":            {tensor("LongStorage", "7", 6, 0, nil, nil), `no record "archive/data/7"`},
		"a storage elsewhere":   {tensor("LongStorage", "../0", 6, 0, nil, nil), `the storage "../0"`},
		"another type":          {tensor("ComplexStorage", "0", 6, 0, nil, nil), `"torch.ComplexStorage"`},
		"a name for a type":     {tensor("Size", "0", 6, 0, nil, nil), "a tensor has a storage of an unknown type"},
		"a short storage":       {func(p *parts) { p.storage = p.storage[:40] }, "40 bytes instead of 6 elements of 8"},
		"negative elements":     {tensor("LongStorage", "0", -6, 0, nil, nil), "unknown form"},
		"overflowing elements":  {tensor("LongStorage", "0", long, 0, nil, nil), "unknown form"},
		"a negative offset":     {tensor("LongStorage", "0", 6, -1, nil, nil), "offset -1"},
		"an offset outside":     {tensor("LongStorage", "0", 6, 6, nil, nil), ", from element 6 on, reaches beyond its storage of"},
		"a far offset":          {tensor("LongStorage", "0", 6, long, []int64{2}, []int64{1}), "strides"},
		"a negative shape":      {dims([]int64{-2, 3}, []int64{3, 1}), "the sizes of a tensor contain -2"},
		"negative strides":      {dims([]int64{2, 3}, []int64{3, -1}), "the strides of a tensor contain -1"},
		"overlong strides":      {dims([]int64{2, 3}, []int64{4, 1}), "on, reaches beyond its storage of 6 elements"},
		"overflowing strides":   {dims([]int64{3, 3}, []int64{long, 1}), "strides"},
		"an overflowing shape":  {dims([]int64{long, long}, []int64{0, 0}), "shape"},
		"an overflowing empty":  {dims([]int64{0, long, long}, []int64{0, 0, 0}), "shape"},
		"other dimensions":      {dims([]int64{2, 3}, []int64{3}), "a tensor has 2 dimensions, but 1 strides"},
		"many dimensions":       {dims(make([]int64, 9), make([]int64, 9)), "of a tensor are not a tuple of at most 8 numbers"},
		"a sum of sizes":        {dims([]int64{1 << 40, 1 << 40}, []int64{0, 0}), "shape"},
		"-1 elements":           {tensor("LongStorage", "0", -1, 0, nil, nil), "unknown form"},
		"sizes by another call": {func(p *parts) { p.pickle = sized("ccollections\nOrderedDict\n)R") }, "the sizes of a tensor are not a tuple of at most"},
		"sizes of no value":     {func(p *parts) { p.pickle = sized("ctorch\nSize\n)R") }, "the sizes of a tensor are not a tuple of at most"},
		"sizes of two values":   {func(p *parts) { p.pickle = sized("ctorch\nSize\n))\x86R") }, "the sizes of a tensor are not a tuple of at most"},
		"no id":                 {func(p *parts) { p.pickle = made("N") }, "a tensor has None instead of a storage"},
		"an id that is a name":  {func(p *parts) { p.pickle = made(text("storage") + "Q") }, "unknown form"},
		"an id of four":         {func(p *parts) { p.pickle = made(strings.Replace(storage, text("cpu"), "", 1)) }, "unknown form"},
		"an id of a module":     {func(p *parts) { p.pickle = made(strings.Replace(storage, text("storage"), text("module"), 1)) }, "unknown form"},
		"an id without a key":   {func(p *parts) { p.pickle = made(strings.Replace(storage, text("0"), "K\x00", 1)) }, "unknown form"},
		"an id without a count": {func(p *parts) { p.pickle = made(strings.Replace(storage, "K\x06", "N", 1)) }, "unknown form"},
		"an id without a type":  {func(p *parts) { p.pickle = made(strings.Replace(storage, "ctorch\nLongStorage\n", "N", 1)) }, "a tensor has a storage of an unknown type"},
		"three values":          {func(p *parts) { p.pickle = strings.Replace(made(storage), "))tR", ")tR", 1) }, "a tensor has 3 arguments instead of at least 4"},
		"an offset of a name":   {func(p *parts) { p.pickle = strings.Replace(made(storage), "QK\x00", "Q"+text("a"), 1) }, "a tensor has the offset text"},
		"sizes of a name":       {func(p *parts) { p.pickle = strings.Replace(made(storage), "))tR", text("a")+")tR", 1) }, "the sizes of a tensor are not a tuple of at most"},
		"strides of a name":     {func(p *parts) { p.pickle = strings.Replace(made(storage), "))tR", ")"+text("a")+"tR", 1) }, "the strides of a tensor are not a tuple of at most"},
		"a folder too deep":     {func(p *parts) { p.name = "a/b" }, "the archive has no data.pkl: torch.save did not write it"},
		"a folder by a name":    {func(p *parts) { p.name = "a" }, "the archive has no data.pkl: torch.save did not write it"},
		"a tensor of one value": {func(p *parts) { p.pickle = "\x80\x02ctorch._utils\n_rebuild_tensor_v2\nN\x85R." }, "a tensor has 1 arguments instead of at least 4"},
		"a truncated storage":   {func(p *parts) { p.storage = nil }, "0 bytes instead of"},
	} {
		t.Run(what, func(t *testing.T) {
			p := good()
			c.change(&p)
			name := filepath.Join(t.TempDir(), "x.pt")
			p.write(t, name)
			err := read(name)
			if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), name) {
				t.Errorf("%v; want bad input in one line that names the file and says %q", err, c.says)
			}
		})
	}
	for what, change := range map[string]func(*parts){
		"unchanged":         func(*parts) {},
		"four values":       func(p *parts) { p.pickle = made(storage) },
		"a torch.Size":      func(p *parts) { p.pickle = sized("ctorch\nSize\n)\x85R") },
		"no folder":         func(p *parts) { p.name = "" },
		"no order of bytes": func(p *parts) { p.order = "" },
		"eight dimensions":  dims([]int64{1, 1, 1, 1, 1, 1, 2, 3}, []int64{6, 6, 6, 6, 6, 6, 3, 1}),
		"the last element":  tensor("LongStorage", "0", 6, 5, []int64{1}, []int64{1}),
		"no element":        tensor("LongStorage", "0", 6, 7, []int64{0}, []int64{1}),
	} {
		p := good()
		change(&p)
		name := filepath.Join(t.TempDir(), "x.pt")
		p.write(t, name)
		if err := read(name); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for name, says := range map[string]string{
		filepath.Join("testdata", "old.pt"): "if torch before 1.6 wrote it",
		filepath.Join("testdata", "nosuch"): "is missing",
		"testdata":                          "is a directory",
	} {
		if err := read(name); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// read reads the one tensor of a file, which it finds closed in the end.
func read(name string) (err error) {
	files := importertest.NewFiles(vfs.OS)
	defer func() {
		if open := files.StillOpen(); len(open) > 0 {
			err = fmt.Errorf("%v: %q are open", err, open)
		}
	}()
	f, err := Open(files, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	x, err := f.Tensor(f.Root())
	if err != nil {
		return err
	}
	r, _, err := x.Reader()
	if err != nil {
		return f.fail(err)
	}
	n, err := io.Copy(io.Discard, r)
	if err == nil && n != x.Count()*int64(x.Size) {
		err = fmt.Errorf("%d bytes of %d elements", n, x.Count())
	}
	return err
}

// TestLargest computes with tensors whose elements are almost as many as can be counted.
func TestLargest(t *testing.T) {
	for _, c := range []struct {
		shape, stride []int64
		elements      int64
		says          string
	}{
		{[]int64{1, 1 << 59}, []int64{0, 0}, 1, ""},
		{[]int64{1, 1 << 60}, []int64{0, 0}, 1, "the shape of a tensor,"},
		{[]int64{math.MaxInt64 / 8}, []int64{0}, 1, ""},
		{[]int64{math.MaxInt64/8 + 1}, []int64{0}, 1, "the shape of a tensor,"},
		{[]int64{2, 2}, []int64{math.MaxInt64 - 2, 1}, math.MaxInt64, ""},
		{[]int64{2, 2}, []int64{math.MaxInt64 - 1, 1}, math.MaxInt64, "on, reaches beyond its storage of"},
		{[]int64{2, 2}, []int64{math.MaxInt64, 1}, math.MaxInt64, "the strides of a tensor,"},
	} {
		x := Tensor{Type: Type{'i', 8}, Shape: c.shape, Stride: c.stride}
		if err := x.check(c.elements); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, strides %v: %v; want %q", c.shape, c.stride, err, c.says)
		}
	}
}

// TestOutside refuses a record of a byte more than the file has from its beginning on.
func TestOutside(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.pt")
	write := func(size int64) {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		w, err := z.CreateHeader(&zip.FileHeader{Name: "archive/data.pkl", Method: zip.Store})
		if err == nil {
			elements := "J" + string(binary.LittleEndian.AppendUint32(nil, uint32(size)))
			_, err = io.WriteString(w, made(strings.NewReplacer("K\x06", elements, "Long", "Byte").Replace(storage)))
		}
		if err == nil {
			_, err = z.CreateRaw(&zip.FileHeader{Name: "archive/data/0", CompressedSize64: uint64(size), UncompressedSize64: uint64(size)})
		}
		if err = errors.Join(err, z.Close()); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(0)
	z, err := zip.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	at, err := z.File[1].DataOffset()
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	write(st.Size() - at)
	if err := read(name); err != nil {
		t.Errorf("up to the end: %v", err)
	}
	write(st.Size() - at + 1)
	if err := read(name); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), fmt.Sprint(st.Size()-at+1, " bytes reaches beyond the end of the file")) {
		t.Errorf("%v", err)
	}
}

// TestLargePickle refuses a byte more than 64 MiB before it is read.
func TestLargePickle(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.pt")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	const size = 64<<20 + 1
	z := zip.NewWriter(f)
	w, err := z.CreateRaw(&zip.FileHeader{Name: "archive/data.pkl", CompressedSize64: size, UncompressedSize64: size})
	mib := make([]byte, 1<<20)
	for range 64 {
		if err == nil {
			_, err = w.Write(mib)
		}
	}
	if err = errors.Join(err, z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := read(name); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "has 67108865 bytes, more than 67108864") {
		t.Errorf("%v", err)
	}
}

// TestArray reads a tensor as an array, and refuses one that is not contiguous.
func TestArray(t *testing.T) {
	p := good()
	p.storage = binio.Bytes([]int64{5, 6, 7, 8, 9, 10})
	name := filepath.Join(t.TempDir(), "x.pt")
	p.write(t, name)
	files := importertest.NewFiles(vfs.OS)
	a, err := Array(files, name, "what", Only)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]int64, 6)
	if err := a.Ints(values); err != nil || a.Name() != name+": what" || fmt.Sprint(a.Shape, values) != "[2 3] [5 6 7 8 9 10]" {
		t.Errorf("%s %v %v, %v", a.Name(), a.Shape, values, err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	p.pickle = tensorOf("LongStorage", "0", 6, 0, []int64{3}, []int64{2})
	p.write(t, name)
	if _, err := Array(files, name, "what", Only); !errors.Is(err, fault.ErrInput) || !strings.HasPrefix(err.Error(), name+": what: ") || !strings.Contains(err.Error(), ".contiguous()") {
		t.Errorf("apart: %v", err)
	}
	if _, err := Array(files, name, "", func(any) (any, error) { return nil, nil }); !errors.Is(err, fault.ErrInput) || !strings.HasPrefix(err.Error(), name+": it has None instead of a tensor") {
		t.Errorf("nothing: %v", err)
	}
	if open := files.StillOpen(); len(open) > 0 {
		t.Errorf("%q are open", open)
	}
}

// TestReadFails returns the error of a file that is closed.
func TestReadFails(t *testing.T) {
	p := good()
	name := filepath.Join(t.TempDir(), "x.pt")
	p.write(t, name)
	f, err := Open(vfs.OS, name)
	if err != nil {
		t.Fatal(err)
	}
	x, err := f.Tensor(f.Root())
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := x.Reader()
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Read(make([]byte, 8)); n != 0 || !errors.Is(err, os.ErrClosed) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestStridesApart refuses what could only be read element by element.
func TestStridesApart(t *testing.T) {
	p := good()
	p.pickle = tensorOf("LongStorage", "0", 6, 0, []int64{3}, []int64{2})
	name := filepath.Join(t.TempDir(), "x.pt")
	p.write(t, name)
	if err := read(name); err == nil || !strings.Contains(err.Error(), ".contiguous()") {
		t.Errorf("%v", err)
	}
}

// FuzzOpen checks that no file makes the reader panic, and that it reads no tensor that has not
// the bytes that its shape calls for.
func FuzzOpen(f *testing.F) {
	fixtures, _ := filepath.Glob(filepath.Join("testdata", "*.pt"))
	for _, name := range fixtures {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte) {
		name := filepath.Join(dir, "x.pt")
		if err := os.WriteFile(name, content, 0o666); err != nil {
			t.Fatal(err)
		}
		check(t, name)
	})
}

// FuzzTensor is FuzzOpen for pickles in whole archives.
func FuzzTensor(f *testing.F) {
	f.Add(good().pickle)
	f.Add(tensorOf("HalfStorage", "0", 24, 3, []int64{2, 3}, []int64{1, 2}))
	f.Add(tensorOf("BoolStorage", "0", 48, 0, []int64{4, 3, 2}, []int64{6, 2, 1}))
	f.Add(tensorOf("LongStorage", "0", 6, 0, []int64{1 << 40}, []int64{0}))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		p := good()
		p.pickle = text
		name := filepath.Join(dir, "x.pt")
		p.write(t, name)
		check(t, name)
	})
}

func check(t *testing.T, name string) {
	f, err := Open(vfs.OS, name)
	if err != nil {
		if !errors.Is(err, fault.ErrInput) || strings.Contains(err.Error(), "\n") {
			t.Fatal(err)
		}
		return
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}()
	values := []any{f.Root()}
	if d, ok := Dict(f.Root()); ok {
		values = d.Values
	}
	for _, v := range values {
		x, err := f.Tensor(v)
		if err != nil {
			continue
		}
		r, _, err := x.Reader()
		if err != nil {
			continue
		}
		// A tensor that repeats its elements may be much larger than the file.
		const enough = 1 << 16
		n, err := io.Copy(io.Discard, io.LimitReader(r, enough))
		if want := min(x.Count()*int64(x.Size), enough); err != nil || n != want {
			t.Fatalf("%v: %d bytes of %d, %v", v.(*pickle.Object).Args, n, want, err)
		}
	}
}

// Tensor returns the tensor that a value of the pickle stands for.
func (t *File) Tensor(v any) (*Tensor, error) {
	x, err := t.tensor(v)
	if err != nil {
		return nil, t.fail(err)
	}
	return x, nil
}
