package pickle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/internal/fault"
)

// TestValues has a pickle of each kind of value, as Python 3.11 wrote it or by hand.
func TestValues(t *testing.T) {
	shared := &List{Items: []any{int64(1)}}
	for text, want := range map[string]any{
		"\x80\x02N.":                                nil,
		"\x80\x03\x88.":                             true,
		"\x80\x04\x89.":                             false,
		"\x80\x02K\xff.":                            int64(255),
		"\x80\x02M\x34\x12.":                        int64(0x1234),
		"\x80\x02J\xfe\xff\xff\xff.":                int64(-2),
		"\x80\x02\x8a\x00.":                         int64(0),
		"\x80\x02\x8a\x01\x80.":                     int64(-128),
		"\x80\x02\x8a\x06\x00\x00\x00\x00\x00\x01.": int64(1 << 40),
		"\x80\x02\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f.": int64(1<<63 - 1),
		"\x80\x02G\x3f\xf8\x00\x00\x00\x00\x00\x00.":        1.5,
		"\x80\x02X\x02\x00\x00\x00ab.":                      "ab",
		"\x80\x04\x8c\x02ab.":                               "ab",
		"\x80\x04\x8d\x02\x00\x00\x00\x00\x00\x00\x00ab.":   "ab",
		"\x80\x02U\x02ab.":                                  "ab",
		"\x80\x02T\x02\x00\x00\x00ab.":                      "ab",
		"\x80\x03C\x02\x00\xff.":                            Bytes("\x00\xff"),
		"\x80\x03B\x01\x00\x00\x00x.":                       Bytes("x"),
		"\x80\x04\x8e\x01\x00\x00\x00\x00\x00\x00\x00x.":    Bytes("x"),
		"\x80\x02).":                             &Tuple{},
		"\x80\x02K\x01\x85.":                     &Tuple{[]any{int64(1)}},
		"\x80\x02K\x01K\x02\x86.":                &Tuple{[]any{int64(1), int64(2)}},
		"\x80\x02K\x01K\x02K\x03\x87.":           &Tuple{[]any{int64(1), int64(2), int64(3)}},
		"\x80\x02(K\x01K\x02K\x03K\x04t.":        &Tuple{[]any{int64(1), int64(2), int64(3), int64(4)}},
		"\x80\x02]K\x01a(K\x02K\x03e.":           &List{[]any{int64(1), int64(2), int64(3)}},
		"\x80\x02}K\x01K\x02s(NK\x03\x88K\x04u.": &Dict{[]any{int64(1), nil, true}, []any{int64(2), int64(3), int64(4)}},
		// Shared by the memo, in its three forms, and doubled.
		"\x80\x02]q\x00K\x01ah\x00\x86.":                                    &Tuple{[]any{shared, shared}},
		"\x80\x02]r\x05\x00\x00\x00K\x01aj\x05\x00\x00\x00\x86.":            &Tuple{[]any{shared, shared}},
		"\x80\x04\x95\x09\x00\x00\x00\x00\x00\x00\x00]\x94K\x01ah\x00\x86.": &Tuple{[]any{shared, shared}},
		"\x80\x02]K\x01a2\x86.":                                             &Tuple{[]any{shared, shared}},
		// Left out again: a value, a mark, all above a mark.
		"\x80\x02NK\x010.":       nil,
		"\x80\x02N(0.":           nil,
		"\x80\x02N(K\x01K\x021.": nil,
		// Names, calls, instances and states.
		"\x80\x02ctorch\nSize\n.":                           Global{"torch", "Size"},
		"\x80\x04\x8c\x05torch\x8c\x04Size\x93.":            Global{"torch", "Size"},
		"\x80\x02ctorch\nSize\nK\x01\x85R.":                 &Object{Class: Global{"torch", "Size"}, Args: []any{int64(1)}},
		"\x80\x02ctorch\nScriptObject\n)\x81K\x01b.":        &Object{Class: Global{"torch", "ScriptObject"}, State: int64(1)},
		"\x80\x02ccollections\nOrderedDict\n)RK\x01K\x02s.": &Object{Class: Global{"collections", "OrderedDict"}, Items: Dict{[]any{int64(1)}, []any{int64(2)}}},
		"\x80\x02ctorch\nSize\n)RK\x01a.":                   &Object{Class: Global{"torch", "Size"}, List: []any{int64(1)}},
		"\x80\x02K\x07Q.":                                   &Persistent{int64(7)},
		// Sets: by a call, and by their opcodes, empty, filled twice, and frozen.
		"\x80\x02c__builtin__\nset\n]K\x01a\x85R.": &Object{Class: Global{"__builtin__", "set"}, Args: []any{shared}},
		"\x80\x04\x8f.":                          &Object{Class: Global{"builtins", "set"}},
		"\x80\x04\x8f(K\x01K\x02\x90(K\x03\x90.": &Object{Class: Global{"builtins", "set"}, List: []any{int64(1), int64(2), int64(3)}},
		"\x80\x04(K\x01K\x02\x91K\x03\x86.":      &Tuple{[]any{&Object{Class: Global{"builtins", "frozenset"}, List: []any{int64(1), int64(2)}}, int64(3)}},
	} {
		got, err := Load(text, Default)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q: %s", text, d)
		}
	}
}

func TestSharedIsOne(t *testing.T) {
	v, err := Load("\x80\x02]q\x00h\x00\x86.", Default)
	if err != nil {
		t.Fatal(err)
	}
	if items := v.(*Tuple).Items; items[0] != items[1] {
		t.Error("a list that is named twice became two")
	}
}

func TestDictGet(t *testing.T) {
	d := &Dict{[]any{"a", int64(1), "a"}, []any{int64(1), int64(2), int64(3)}}
	if v, ok := d.Get("a"); v != int64(3) || !ok {
		t.Errorf("the last of two: %v, %t", v, ok)
	}
	if _, ok := d.Get("b"); ok {
		t.Error("there is no b")
	}
}

// evil are pickles that must be refused, with what the error says.
var evil = map[string]string{
	"\x80\x02cos\nsystem\nX\x05\x00\x00\x00ls -a\x85R.":                     `byte 2 of its pickle: it uses "os.system"`,
	"\x80\x02cscipy.sparse._csr\ncsr_array\n.":                              `it uses "scipy.sparse._csr.csr_array": SciPy's matrices in pickles are not read; save the matrix with scipy.sparse.save_npz; nothing was run`,
	"\x80\x02cposix\nsystem\n.":                                             `"posix.system"`,
	"\x80\x04\x8c\x08builtins\x8c\x04eval\x93.":                             `"builtins.eval"`,
	"\x80\x02ctorch.storage\n_load_from_bytes\n.":                           `"torch.storage._load_from_bytes"`,
	"\x80\x02c__builtin__\ngetattr\nctorch\nSize\nX\x01\x00\x00\x00a\x86R.": `"__builtin__.getattr"`,
	"\x80\x02ctorch\nSize.__init__\n.":                                      `"torch.Size.__init__"`,
	"\x80\x02ctorch\nSize\n)R)R.":                                           "it calls a value that is not a class or a function",
	"\x80\x02K\x01)R.":                                                      "it calls a value that is not a class or a function",
	"\x80\x02ctorch\nSize\nK\x01R.":                                         "not a tuple",
	"\x80\x02ios\nsystem\n.":                                                "opcode 'i'",
	"\x80\x02(cos\nsystem\nX\x02\x00\x00\x00lso.":                           `"os.system"`,
	"\x80\x02(ctorch\nSize\no.":                                             "opcode 'o'",
	"\x80\x02\x82\x01.":                                                     "opcode 0x82",                                    // EXT1
	"\x80\x04\x90.":                                                         "an opcode takes more values than the stack has", // ADDITEMS
	"\x80\x04(N\x90.":                                                       "an opcode takes more values than the stack has",
	"\x80\x04K\x01(N\x90.":                                                  "it appends to a value that is not a list",
	"\x80\x04\x91.":                                                         "an opcode takes more values than the stack has", // FROZENSET
	"\x80\x04]\x94(h\x00\x91a.":                                             "contains itself",
	"\x80\x04ctorch\nSize\n)}\x92.":                                         "opcode 0x92", // NEWOBJ_EX
	"\x80\x02P1\n.":                                                         "opcode 'P'",
	"\x80\x01N.":                                                            "it has protocol 1; the program reads protocols 2 to 4",
	"\x80\x05N.":                                                            "protocol 5",
	"\x80":                                                                  "it is truncated",
	"N.":                                                                    "it is not a pickle of protocol",
	"":                                                                      "it is not a pickle of protocol",
	"\x80\x02":                                                              "it is truncated",
	"\x80\x02.":                                                             "it does not end with exactly one value",
	"\x80\x02NN.":                                                           "it does not end with exactly one value",
	"\x80\x02(N.":                                                           "it does not end with exactly one value",
	"\x80\x020.":                                                            "an opcode takes more values than the stack has",
	"\x80\x022.":                                                            "an opcode takes more values than the stack has",
	"\x80\x02N(\x85.":                                                       "an opcode takes more values than the stack has", // below the mark
	"\x80\x02N(2.":                                                          "an opcode takes more values than the stack has",
	"\x80\x02t.":                                                            "an opcode takes more values than the stack has",
	"\x80\x02q\x00.":                                                        "an opcode takes more values than the stack has",
	"\x80\x02Na.":                                                           "an opcode takes more values than the stack has",
	"\x80\x02NNa.":                                                          "it appends to a value that is not a list",
	"\x80\x02NNNs.":                                                         "it sets items of a value that is not a dictionary",
	"\x80\x02}(Nu.":                                                         "a key without a value",
	"\x80\x02]Nb.":                                                          "it gives a state to a value that is not an object",
	"\x80\x02h\x00.":                                                        "it reads entry 0 of its memo, which is not set",
	"\x80\x02Nq\x02h\x01.":                                                  "it reads entry 1 of its memo, which is not set",
	"\x80\x02Nr\xff\xff\xff\xff.":                                           "it stores entry 4294967295 of its memo, which has at most 32768 entries",
	"\x80\x02X\xff\xff\xff\xffab.":                                          "it is truncated",
	"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xffab.":       "it is truncated",
	"\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00.": "an integer has 9 bytes, more than 8", // 2⁶³
	"\x80\x02G\x00.":                               "it is truncated",
	"\x80\x02ctorch\nSize":                         "it is truncated",
	"\x80\x04NN\x93.":                              "it refers to a class by a name that is not a string",
	"\x80\x02]q\x00h\x00a.":                        "contains itself",
	"\x80\x02}q\x00Nh\x00s.":                       "contains itself",
	"\x80\x02N" + strings.Repeat("\x85", 65) + ".": "nested more than 64 deep",
	"\x80\x02" + strings.Repeat("]", 70) + strings.Repeat("a", 69) + ".": "nested more than 64 deep",
	"\x80\x02" + strings.Repeat("N", 32769) + ".":                        "more than 32768 values",
	"\x80\x02" + strings.Repeat("(", 32769) + ".":                        "more than 32768 values",
	strings.Repeat("x", 1<<20+1):                                         "its pickle has 1048577 bytes, more than 1048576",
}

func TestRefuses(t *testing.T) {
	for text, says := range evil {
		_, err := Load(text, Default)
		if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.80q: %v; want bad input that says %q in one line", text, err, says)
		}
	}
}

// TestLongest loads a pickle of as many bytes as are read, whatever follows its end.
func TestLongest(t *testing.T) {
	const whole = "\x80\x02N."
	if v, err := Load(whole+strings.Repeat("x", int(Default.Bytes)-len(whole)), Default); v != nil || err != nil {
		t.Errorf("%v, %v", v, err)
	}
}

// TestObjectInItself checks that an object may refer to itself, as PyTorch Geometric's do, and that
// depth is bounded all the same.
func TestObjectInItself(t *testing.T) {
	v, err := Load("\x80\x02ctorch\nSize\n)Rq\x00}K\x01h\x00sb.", Default)
	if err != nil {
		t.Fatal(err)
	}
	o := v.(*Object)
	if o.State.(*Dict).Values[0] != any(o) {
		t.Errorf("%v", o)
	}
	if _, err := Load("\x80\x02ctorch\nSize\n)Rq\x00h\x00"+strings.Repeat("\x85", 64)+"b.", Default); err == nil || !strings.Contains(err.Error(), "nested") {
		t.Errorf("an object 65 levels inside itself: %v", err)
	}
}

// laughs is a pickle whose value is a list of n levels, each of two times the next: few bytes
// that stand for 2ⁿ values.
func laughs(n int) string {
	s := "\x80\x02]"
	for range n {
		s += "2\x86" // the value twice, as a tuple
	}
	return s + "."
}

// TestSharedDepth checks that sharing is neither walked twice nor hides depth.
func TestSharedDepth(t *testing.T) {
	if _, err := Load(laughs(63), Default); err != nil {
		t.Errorf("64 levels: %v", err)
	}
	if _, err := Load(laughs(64), Default); err == nil {
		t.Error("65 levels pass")
	}
	// The inner value is measured first by itself, then 40 levels down.
	inner := "N" + strings.Repeat("\x85", 40) + "q\x00"
	deep := "\x80\x02" + inner + "h\x00" + strings.Repeat("\x85", 40) + "\x86."
	if _, err := Load(deep, Default); err == nil || !strings.Contains(err.Error(), "nested") {
		t.Errorf("81 levels, of which 41 are shared: %v", err)
	}
}

// TestNames compares the table with the names that pickletools finds in the fixtures.
func TestNames(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "globals.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[Global]bool{}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		found[Global{f[0], f[1]}] = true
	}
	if d := cmp.Diff(found, allowed); d != "" {
		t.Errorf("the files of the libraries have other names than the table: %s", d)
	}
}

// FuzzLoad checks that no text makes the machine panic, or hold more than its limits allow.
func FuzzLoad(f *testing.F) {
	for text := range evil {
		if len(text) < 1000 {
			f.Add(text)
		}
	}
	f.Add(laughs(10))
	fixtures, _ := filepath.Glob(filepath.Join("testdata", "*.pkl"))
	for _, name := range fixtures {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("\x80\x02X" + string(binary.LittleEndian.AppendUint32(nil, 1<<31)) + "x.")
	limits := Limits{Bytes: 1 << 12, Values: 1 << 8, Depth: 16}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := Load(text, limits)
		if err != nil {
			if !errors.Is(err, fault.ErrInput) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if n := count(v, map[any]bool{}, 0); n > 4*limits.Values {
			t.Fatalf("%q: %d values", text, n)
		}
	})
}

// count walks a value by plain recursion, objects that are shared once.
func count(v any, seen map[any]bool, depth int) (n int) {
	if depth > 16 {
		panic(fmt.Sprintf("level %d", depth))
	}
	var parts []any
	switch v := v.(type) {
	case *Tuple:
		parts = v.Items
	case *List:
		parts = v.Items
	case *Dict:
		parts = append(append(parts, v.Keys...), v.Values...)
	case *Persistent:
		parts = []any{v.ID}
	case *Object:
		parts = append(append(append(append(append(parts, v.Args...), v.State), v.Items.Keys...), v.Items.Values...), v.List...)
	default:
		return 1
	}
	if seen[v] { // an object may contain itself
		return 1
	}
	seen[v] = true
	n = 1
	for _, p := range parts {
		n += count(p, seen, depth+1)
	}
	return n
}
