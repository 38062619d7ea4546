package torchfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/importer/internal/pickle"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// An ndarray is the pickle of an array of NumPy, by parts. They are pickles themselves.
type ndarray struct {
	module, shape, class, args, order, fields, fortran, bytes string
}

func text(s string) string {
	return "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s
}

// vector is an array of two int16, 513 and -1.
func vector() ndarray {
	return ndarray{
		module: "numpy.core.multiarray", shape: "K\x02\x85", class: "cnumpy\ndtype\n", args: text("i2") + "\x89\x88\x87", order: text("<"), fields: "NNN",
		fortran: "\x89", bytes: "c_codecs\nencode\n" + text("\x01\x02ÿÿ") + text("latin1") + "\x86R",
	}
}

func (a ndarray) pickle() string {
	return "\x80\x02c" + a.module + "\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01" + a.shape +
		a.class + a.args + "R(K\x03" + a.order + a.fields + "J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb" + a.fortran + a.bytes + "tb."
}

// readArray reads the one array of a file.
func readArray(t *testing.T, text string) (values []float64, err error) {
	t.Helper()
	p := good()
	p.pickle = text
	name := filepath.Join(t.TempDir(), "x.pt")
	p.write(t, name)
	a, err := Array(vfs.OS, name, "what", Only)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	values = make([]float64, a.Count())
	return values, a.Doubles(values)
}

// TestNumPyRefuses changes one thing of a good array at a time.
func TestNumPyRefuses(t *testing.T) {
	encoded := func(s string) func(*ndarray) {
		return func(a *ndarray) { a.bytes = "c_codecs\nencode\n" + text(s) + text("latin1") + "\x86R" }
	}
	dtype := func(name string) func(*ndarray) {
		return func(a *ndarray) { a.args = text(name) + "\x89\x88\x87" }
	}
	long := "\x8a\x08" + string(binary.LittleEndian.AppendUint64(nil, math.MaxInt64))
	for what, c := range map[string]struct {
		change func(*ndarray)
		says   string
	}{
		"objects":             {func(a *ndarray) { dtype("O8")(a); a.bytes = "](K\x01K\x02e" }, `its elements have the type "<O8": only integers, floats and booleans can be read`},
		"objects as numbers":  {func(a *ndarray) { a.bytes = "](K\x01K\x02e" }, "an array of NumPy has a list as elements: only numbers can be read"},
		"text":                {dtype("U1"), `its elements have the type "<U1", text: save words as a table, as with numpy.savetxt("y.csv", y, "%s", header="label", comments="")`},
		"raw bytes":           {dtype("V2"), `its elements have the type "<V2": only integers, floats and booleans can be read`},
		"complex numbers":     {dtype("c8"), `its elements have the type "<c8": only integers, floats and booleans can be read`},
		"times":               {dtype("M8"), `its elements have the type "<M8": only integers, floats and booleans can be read`},
		"no type":             {dtype(""), "an array of NumPy has an unknown dtype"},
		"a type of one":       {dtype("i"), "an array of NumPy has an unknown dtype"},
		"fields":              {func(a *ndarray) { a.fields = "N" + text("a") + "\x85}" }, "an array of NumPy has fields: only plain numbers can be read"},
		"subarrays":           {func(a *ndarray) { a.fields = "]NN" }, "an array of NumPy has fields: only plain numbers can be read"},
		"big-endian":          {func(a *ndarray) { a.order = text(">") }, "big-endian"},
		"no order":            {func(a *ndarray) { a.order = text("") }, "an array of NumPy has fields: only plain numbers can be read"},
		"another type":        {func(a *ndarray) { a.class = "cnumpy\nndarray\n" }, "an array of NumPy has numpy.ndarray instead of a dtype"},
		"a type of no state":  {func(a *ndarray) { a.args, a.order, a.fields = text("i2")+"\x85", "", "" }, "an array of NumPy has an unknown dtype"},
		"a negative shape":    {func(a *ndarray) { a.shape = "J\xfe\xff\xff\xff\x85" }, "the sizes of a tensor contain -2"},
		"a shape of a bomb":   {func(a *ndarray) { a.shape = long + long + "\x86" }, "shape"},
		"a large shape":       {func(a *ndarray) { a.shape = "J\xff\xff\xff\x7f\x85" }, "an array of NumPy of shape (2147483647,) and type int16 has 4 bytes"},
		"another shape":       {func(a *ndarray) { a.shape = "K\x01\x85" }, "an array of NumPy of shape (1,) and type int16 has 4 bytes"},
		"no shape":            {func(a *ndarray) { a.shape = "N" }, "not a tuple"},
		"nine dimensions":     {func(a *ndarray) { a.shape = "(" + strings.Repeat("K\x01", 9) + "t" }, "of a tensor are not a tuple of at most 8 numbers"},
		"no order of columns": {func(a *ndarray) { a.fortran = "K\x00" }, "unknown form"},
		"no bytes":            {func(a *ndarray) { a.bytes = "N" }, "an array of NumPy has None as elements: only numbers can be read"},
		"empty bytes":         {func(a *ndarray) { a.bytes = "c__builtin__\nbytes\n)R" }, "has 0 bytes"},
		"bytes of a text":     {func(a *ndarray) { a.bytes = "c__builtin__\nbytes\n" + text("1234") + "\x85R" }, "an array of NumPy has __builtin__.bytes as elements: only numbers can be read"},
		"three bytes":         {encoded("\x01\x02\x03"), "has 3 bytes"},
		"letters":             {encoded("\x01\x02\x03Ā"), "an array of NumPy has elements that are not encoded as bytes"},
		"no UTF-8":            {encoded("\x01\x02\x03\xff"), "an array of NumPy has elements that are not encoded as bytes"},
		"another code":        {func(a *ndarray) { a.bytes = "c_codecs\nencode\n" + text("1234") + text("utf8") + "\x86R" }, "an array of NumPy has _codecs.encode as elements: only numbers can be read"},
		"another maker":       {func(a *ndarray) { a.module = "numpy.core.numeric" }, `it uses "numpy.core.numeric._reconstruct"`},
	} {
		t.Run(what, func(t *testing.T) {
			a := vector()
			c.change(&a)
			_, err := readArray(t, a.pickle())
			if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "x.pt: ") {
				t.Errorf("%v; want bad input in one line that names the file and says %q", err, c.says)
			}
		})
	}
	a := vector()
	if got, err := readArray(t, a.pickle()); err != nil || fmt.Sprint(got) != "[513 -1]" {
		t.Errorf("unchanged: %v, %v", got, err)
	}
	// No state at all, and a call of another function.
	for _, text := range []string{"\x80\x02cnumpy.core.multiarray\n_reconstruct\n)R.", "\x80\x02cnumpy.core.multiarray\nscalar\n)R."} {
		if _, err := readArray(t, text); !errors.Is(err, fault.ErrInput) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestInt reads integers of Python and of NumPy.
func TestInt(t *testing.T) {
	f := open(t, filepath.Join("testdata", "numpy2-2.15.0.pt"))
	items, _ := Dict(f.Root())
	for key, want := range map[string]int64{"a number": -7, "another": 1 << 40} {
		v, _ := items.Get(key)
		if got, ok := Int(v); !ok || got != want {
			t.Errorf("%s: %d, %v", key, got, ok)
		}
	}
	scalar := func(kind string, content any) *pickle.Object {
		return &pickle.Object{Class: pickle.Global{Module: "numpy._core.multiarray", Name: "scalar"}, Args: []any{
			&pickle.Object{Class: pickle.Global{Module: "numpy", Name: "dtype"}, Args: []any{kind}, State: &pickle.Tuple{Items: []any{int64(3), "<", nil, nil, nil}}}, content,
		}}
	}
	for _, c := range []struct {
		v    any
		want int64
		ok   bool
	}{
		{int64(5), 5, true},
		{scalar("i2", pickle.Bytes("\xff\xff")), -1, true},
		{scalar("u2", pickle.Bytes("\xff\xff")), 65535, true},
		{scalar("u8", pickle.Bytes("\xff\xff\xff\xff\xff\xff\xff\xff")), -1, false},
		{scalar("i2", pickle.Bytes("\xff")), 0, false},
		{scalar("f4", pickle.Bytes("\x00\x00\x00\x00")), 0, false},
		{scalar("i2", nil), 0, false},
		{5.0, 0, false},
		{true, 0, false},
	} {
		if got, ok := Int(c.v); ok != c.ok || ok && got != c.want {
			t.Errorf("%v: %d, %v", c.v, got, ok)
		}
	}
}

// TestLatin1 reads a text byte by byte; nothing is no end.
func TestLatin1(t *testing.T) {
	r, n, err := encode("aÿ")
	if err != nil || n != 2 {
		t.Fatal(n, err)
	}
	b := make([]byte, 1)
	for _, want := range []byte{'a', 0xff} {
		if n, err := r.Read(b); n != 1 || err != nil || b[0] != want {
			t.Errorf("%d, %x, %v", n, b, err)
		}
	}
	if n, err := r.Read(nil); n != 0 || err != nil {
		t.Errorf("nothing behind the end: %d, %v", n, err)
	}
	if n, err := r.Read(b); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("behind the end: %d, %v", n, err)
	}
}

// TestHeld counts the bytes of large pickles, and refuses the largest.
func TestHeld(t *testing.T) {
	p := good()
	a := vector()
	a.args, a.bytes, a.shape = text("u1")+"\x89\x88\x87", "B\x00\x00\x20\x00"+strings.Repeat("x", 2<<20), "J\x00\x00\x20\x00\x85"
	p.pickle = a.pickle()
	name := filepath.Join(t.TempDir(), "x.pt")
	p.write(t, name)
	want := int64(pickle.Memory + len(p.pickle) - 1<<20)
	if got, err := Held(vfs.OS, name, filepath.Join("testdata", "tensors-2.2.1.pt")); err != nil || got != want {
		t.Errorf("%d, %v; want %d", got, err, want)
	}
	if values, err := readArray(t, p.pickle); err != nil || len(values) != 2<<20 || values[1<<20] != 'x' {
		t.Errorf("%d values, %v", len(values), err)
	}
	if _, err := openLimited(vfs.OS, name, pickle.Default); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "bytes, more than 1048576") {
		t.Errorf("%v", err)
	}
	if _, err := Held(vfs.OS, "testdata"); !errors.Is(err, fault.ErrInput) {
		t.Errorf("%v", err)
	}
}

// FuzzNumPy checks that an array of NumPy has as many bytes as its header calls for, or is refused.
func FuzzNumPy(f *testing.F) {
	good := vector()
	f.Add(good.pickle())
	good.module, good.fortran, good.shape = "numpy._core.multiarray", "\x88", "K\x02K\x01\x86"
	f.Add(good.pickle())
	good.bytes = "U\x041234"
	f.Add(good.pickle())
	f.Fuzz(func(t *testing.T, text string) {
		v, err := pickle.Load(text, pickle.Limits{Bytes: 1 << 14, Values: 1 << 10, Depth: 16})
		if err != nil {
			return
		}
		Int(v)
		o, ok := isNumPy(v, "_reconstruct")
		if !ok {
			return
		}
		h, r, err := numpyArray(o)
		if err != nil {
			if !errors.Is(err, fault.ErrInput) || strings.Contains(err.Error(), "\n") {
				t.Fatal(err)
			}
			return
		}
		n, err := io.Copy(io.Discard, r)
		if err != nil || n != h.Count()*int64(h.Size) || n > int64(len(text)) {
			t.Fatalf("%d bytes of %s × %s, %v", n, h.ShapeString(), h.Type(), err)
		}
	})
}
