package text

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// FuzzLists compares the reader of WebGraph's ASCII graphs with a plain one.
func FuzzLists(f *testing.F) {
	for _, s := range []string{"3\n1 2\n\n0\n", "2\n1\n0", "1\n\n", "3\r\n 1\t2 \r\n\r\n0\r\n", "0\n", "2\n1\n", "99999999999999999999\n", "1\n-1\n", "5\n1 2 3", "1\n0\n \n\r\n\t", "1\n0\n0\n", "1\n0\nx"} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte) {
		name := filepath.Join(dir, "x.graph-txt")
		if err := os.WriteFile(name, content, 0o666); err != nil {
			t.Fatal(err)
		}
		want, bad := plainLists(string(content))
		got, err := readLists(name)
		if bad != (err != nil) || err != nil && !errors.Is(err, fault.ErrInput) {
			t.Fatalf("%q: %v, want an error: %t", content, err, bad)
		}
		if err == nil && got != want {
			t.Fatalf("%q: %s, want %s", content, got, want)
		}
	})
}

func readLists(name string) (string, error) {
	l, err := OpenLists(vfs.OS, name)
	if err != nil {
		return "", err
	}
	defer l.Close()
	var b strings.Builder
	for i := 0; ; i++ {
		u, v, err := l.Edge()
		if errors.Is(err, io.EOF) || err == nil && i == 10_000 {
			return b.String(), nil
		}
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%d>%d ", u, v)
	}
}

func plainLists(s string) (string, bool) {
	number := func(s string) (int64, bool) {
		n, err := strconv.ParseUint(s, 10, 64)
		return int64(n), err == nil && n <= 10*(1<<40)+9 && strings.Trim(s, "0123456789") == ""
	}
	return plainPrefix(s, number)
}

// plainPrefix reads lines by splitting; behind the last node's, all must be blank.
func plainPrefix(s string, number func(string) (int64, bool)) (string, bool) {
	lines := strings.Split(s, "\n")
	// A carriage return is nothing, wherever it is; so it does not end a number.
	clean := func(line string) []string {
		return strings.FieldsFunc(strings.ReplaceAll(line, "\r", ""), func(r rune) bool { return r == ' ' || r == '\t' })
	}
	first := strings.ReplaceAll(lines[0], "\r", "")
	if strings.TrimLeft(first, " \t") != strings.Trim(first, " \t") {
		return "", true // a blank behind the number
	}
	n, ok := number(strings.TrimLeft(first, " \t"))
	if !ok || n < 1 {
		return "", true
	}
	var b strings.Builder
	edges := 0
	for v := int64(0); v < n; v++ {
		if v+1 >= int64(len(lines)) {
			return b.String(), v > 0 || n > 1 // no line is as good as an empty one for the first node alone
		}
		for _, field := range clean(lines[v+1]) {
			u, ok := number(field)
			if !ok {
				return "", true
			}
			if edges++; edges > 10_000 {
				return b.String(), false
			}
			fmt.Fprintf(&b, "%d>%d ", v, u)
		}
	}
	behind := lines[min(n+1, int64(len(lines))):]
	return b.String(), len(clean(strings.Join(behind, " "))) > 0
}

// FuzzFloats compares the reader of tables with strconv's.
func FuzzFloats(f *testing.F) {
	for _, s := range []string{"1,2\n3,4\n", "1.5,-0\n,nan\n", "1e400,2\n", "0x1,1\n", "1_0,2\n", "inf,-inf\n", "\"\",1\n", "1,2,3\n", "99999999999999999,1e-400\n"} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte) {
		name := filepath.Join(dir, "x.csv")
		if err := os.WriteFile(name, content, 0o666); err != nil {
			t.Fatal(err)
		}
		table, err := Open(vfs.OS, name, 2)
		if err != nil {
			t.Fatal(err)
		}
		defer table.Close()
		got := make([]float64, 200)
		n, err := table.Doubles(got)
		if err != nil {
			if !errors.Is(err, fault.ErrInput) {
				t.Fatal(err)
			}
			return
		}
		at := 0
		for line := range strings.SplitSeq(string(content), "\n") {
			if line = string(bytes.TrimSpace([]byte(line))); line == "" {
				continue
			}
			if at == n {
				if n < len(got) {
					t.Fatalf("%q: read %d numbers", content, n)
				}
				return
			}
			fields := strings.Split(line, ",")
			if len(fields) != 2 {
				t.Fatalf("%q passes for two numbers", line)
			}
			for _, s := range fields {
				want := math.NaN() // of a missing number, which pandas may write as ""
				s = strings.TrimSpace(s)
				if len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"' { // a field in quotes has no comma here
					s = strings.TrimSpace(strings.ReplaceAll(s[1:len(s)-1], `""`, `"`))
				}
				if s != "" && s != `""` {
					if want, err = strconv.ParseFloat(s, 64); err != nil {
						t.Fatalf("%q passes for a number", s)
					}
				}
				if x := got[at]; x != want && (x == x || want == want) {
					t.Fatalf("%q is %v, want %v", s, x, want)
				}
				at++
			}
		}
	})
}

// FuzzGzip reads packed text: any bytes end in lines or an error, in little memory.
func FuzzGzip(f *testing.F) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte("1,2\n3,4\n")); err != nil {
		f.Fatal(err)
	}
	if err := z.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(b.Bytes()[:b.Len()-3])
	f.Add([]byte("1,2\n"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte) {
		name := filepath.Join(dir, "x.csv.gz")
		if err := os.WriteFile(name, content, 0o666); err != nil {
			t.Fatal(err)
		}
		l, err := OpenLines(vfs.OS, name, "#")
		for range 1000 {
			if err != nil {
				break
			}
			_, err = l.Next()
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, fault.ErrInput) {
			t.Fatal(err)
		}
		if l != nil {
			l.Close()
		}
	})
}

// FuzzWords reads names of nodes: any bytes end in words without line ends, or in bad input.
func FuzzWords(f *testing.F) {
	for _, s := range []string{"a,b\n", "\"a,b\",\"c \"\"d\"\"\"\n", "id, source\nx y\n", "\"a\"b,c\n", "\"", "a,,b\n", "# a\n\"x\ty\"\r\n"} {
		f.Add([]byte(s), 2, false, true)
		f.Add([]byte(s), 1, true, false)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte, columns int, blanks, exact bool) {
		if columns < 1 || columns > 10 {
			t.Skip()
		}
		name := filepath.Join(dir, "x.csv")
		if err := os.WriteFile(name, b, 0o666); err != nil {
			t.Fatal(err)
		}
		w, err := OpenWords(vfs.OS, name, Format{Columns: columns, Blanks: blanks}, WordOptions{Exact: exact})
		for n := 0; err == nil; n++ {
			if n == 0 {
				defer w.Close()
			}
			var words [][]byte
			if words, err = w.Next(); err != nil {
				break
			}
			for _, word := range words {
				if len(words) != columns || len(word) == 0 || len(word) > len(b) || bytes.IndexByte(word, '\n') >= 0 {
					t.Fatalf("%q of %q", words, b)
				}
			}
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, fault.ErrInput) {
			t.Fatal(err)
		}
	})
}
