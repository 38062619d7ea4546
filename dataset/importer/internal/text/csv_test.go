package text

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// FuzzCSV compares the reader of edge lists with a plain one.
func FuzzCSV(f *testing.F) {
	f.Add([]byte("1,2\n3,4\n"))
	f.Add([]byte(" -1 ,\t2\r\n\n99999999999999999999,0"))
	f.Add([]byte("1,2,3\n"))
	f.Add([]byte("0x1,2\n"))
	f.Add([]byte("\xef\xbb\xbf\"1\",2.0\n3.5,1\n"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte) {
		name := filepath.Join(dir, "x.csv")
		if err := os.WriteFile(name, content, 0o666); err != nil {
			t.Fatal(err)
		}
		want, bad := plainCSV(content)
		got, err := readCSV(name)
		if bad != (err != nil) || err != nil && !errors.Is(err, fault.ErrInput) {
			t.Fatalf("%q: %v, want an error: %t", content, err, bad)
		}
		if err == nil && !bytes.Equal([]byte(join(got)), []byte(join(want))) {
			t.Fatalf("%q: %v, want %v", content, got, want)
		}
	})
}

func readCSV(name string) (all []int64, err error) {
	c, err := Open(vfs.OS, name, 2)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	buf := make([]int64, 7) // not a multiple of the columns
	for {
		n, err := c.Next(buf)
		if err != nil || n == 0 {
			return all, err
		}
		all = append(all, buf[:n]...)
	}
}

// plainCSV splits lines by hand: fields may be in quotes, and numbers may be written like 3.0.
func plainCSV(content []byte) (all []int64, bad bool) {
	for line := range strings.SplitSeq(strings.TrimPrefix(string(content), "\xef\xbb\xbf"), "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		fields, ok := plainFields(line)
		if !ok || len(fields) != 2 {
			return nil, true
		}
		for _, s := range fields {
			v, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				x, err := strconv.ParseFloat(s, 64)
				if err != nil || x != math.Trunc(x) || math.Abs(x) > 1<<53 || strings.ContainsAny(s, "xXpP_") {
					return nil, true
				}
				v = int64(x)
			}
			all = append(all, v)
		}
	}
	return all, false
}

func plainFields(line string) (fields []string, ok bool) {
	for {
		quoted := strings.TrimLeft(line, " \t")
		field, rest, more := strings.Cut(line, ",")
		field = strings.TrimSpace(field)
		if strings.HasPrefix(quoted, "\"") {
			end := 1
			for ; end < len(quoted); end++ {
				if quoted[end] == '"' {
					if strings.HasPrefix(quoted[end+1:], "\"") {
						end++
						continue
					}
					break
				}
			}
			if end >= len(quoted) {
				return nil, false
			}
			var between string
			if between, rest, more = strings.Cut(quoted[end+1:], ","); strings.TrimSpace(between) != "" {
				return nil, false
			}
			field = strings.ReplaceAll(quoted[1:end], "\"\"", "\"")
		}
		if fields = append(fields, field); !more {
			return fields, true
		}
		line = rest
	}
}

func join(v []int64) string {
	var b strings.Builder
	for _, x := range v {
		b.WriteString(strconv.FormatInt(x, 10))
		b.WriteByte(' ')
	}
	return b.String()
}
