package text

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

func TestParseInt(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "7": 7, "120": 120, "-35": -35, "999999999999999999": 999999999999999999,
		"9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64,
	} {
		if got, ok := ParseInt([]byte(text)); !ok || got != want {
			t.Errorf("%s: %d, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "-", "x", "1x", "1.5", "9223372036854775808", "18446744073709551616", "--1"} {
		if got, ok := ParseInt([]byte(text)); ok {
			t.Errorf("%q: %d", text, got)
		}
	}
}

// TestIntegers reads a table of integers, some lines at a time.
func TestIntegers(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.csv")
	write := func(text string) {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	read := func() (all []int64, err error) {
		f, err := Open(vfs.OS, name, 2)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		for dst := make([]int64, 5); ; {
			n, err := f.Next(dst)
			if err != nil || n == 0 {
				return all, err
			}
			all = append(all, dst[:n]...)
		}
	}
	write("1,20\n\n300,4000\r\n50,-6\n")
	if got, err := read(); err != nil || !slices.Equal(got, []int64{1, 20, 300, 4000, 50, -6}) {
		t.Errorf("%v, %v", got, err)
	}
	for text, says := range map[string]string{
		"1,2\n3\n": "line 2 is \"3\" instead of 2 integers",
		"1,2\n" + strings.Repeat("1", bufferBytes+1): "line 2 is too long",
	} {
		write(text)
		if _, err := read(); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.20q: %v; want it to say %q", text, err, says)
		}
	}
	lists := filepath.Join(t.TempDir(), "x.graph-txt.gz")
	if err := os.WriteFile(lists, []byte("1\n\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenLists(vfs.OS, lists); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "cannot be unpacked") {
		t.Errorf("a list that is not packed: %v", err)
	}
}

// TestLinesOfSmallFiles reads files of few bytes, with and without a line feed at the end.
func TestLinesOfSmallFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "small.csv")
	for n := range 40 {
		for _, end := range []string{"", "\n"} {
			word := strings.Repeat("7", n)
			if err := os.WriteFile(name, []byte(word+end), 0o666); err != nil {
				t.Fatal(err)
			}
			lines, err := Head(vfs.OS, name, "", 5)
			if want := slices.DeleteFunc([]string{word}, func(w string) bool { return w == "" }); err != nil || !slices.Equal(lines, want) {
				t.Errorf("%d bytes and %q: %q, %v", n, end, lines, err)
			}
		}
	}
}
