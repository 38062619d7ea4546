package graphsaint

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// scan reads a text by lists, as key, "[" for lists, and integers.
func scan(name string) (all []string, err error) {
	l, err := openLists(vfs.OS, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	err = l.each(func(key string, list bool) error {
		all = append(all, fmt.Sprintf("%q %t", key, list))
		return nil
	}, func(v int64) error {
		all = append(all, fmt.Sprint(v))
		return nil
	})
	return all, err
}

func TestLists(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.json")
	for text, want := range map[string]string{
		`{}`:                                     "",
		" { } \n":                                "",
		`{"7": [0, 1], "a":[],"8": -3}`:          `"7" true|0|1|"a" true|"8" false|-3`,
		`{"0":[1.0,2e1]}`:                        `"0" true|1|20`,
		`{"0":9223372036854775807}`:              `"0" false|9223372036854775807`,
		"{\n\t\"0\" :\r [ 1 ,\n 2 ] , \"1\":2 }": `"0" true|1|2|"1" false|2`,

		`{"` + strings.Repeat("k", 64) + `":1}`:   `"` + strings.Repeat("k", 64) + `" false|1`,
		`{"0":1.` + strings.Repeat("0", 61) + `}`: `"0" false|1`,
	} {
		write(t, name, text)
		got, err := scan(name)
		if err != nil || strings.Join(got, "|") != want {
			t.Errorf("%s: %s, %v; want %s", text, strings.Join(got, "|"), err, want)
		}
	}
	for text, says := range map[string]string{
		``: "byte 0: truncated", `{"0"`: "truncated", `{"0":1`: "truncated", `{"0":[1`: "truncated", `{"0":[1,`: "truncated", `{"0`: "truncated",
		`[1]`: "byte 1: it is not a JSON object of integers and lists of integers", `{"0":"1"}`: "it is not a JSON object of integers and lists of integers", `{"0":{}}`: "it is not a JSON object of integers and lists of integers", `{"0":1,}`: "it is not a JSON object of integers and lists of integers", `{"0":[1,]}`: "it is not a JSON object of integers and lists of integers",
		`{"0":null}`: "it is not a JSON object of integers and lists of integers", `{"\u0030":1}`: "it is not a JSON object of integers and lists of integers", `{"0":1}{`: "it is not a JSON object of integers and lists of integers", `{"0":1 2}`: "it is not a JSON object of integers and lists of integers",
		`{"0":1.5}`: `"1.5" is not an integer of 64 bits`, `{"0":18446744073709551616}`: `"18446744073709551616" is not an integer of 64 bits`, `{"0":+1}`: `"+1" is not an integer of 64 bits`, `{"0":1-2}`: "is not an integer of 64 bits",
		`{"0":` + strings.Repeat("1", 100) + `}`: "it is not a JSON object of integers and lists of integers", `{"` + strings.Repeat("k", 100) + `":1}`: "it is not a JSON object of integers and lists of integers",
		`{"0":1.` + strings.Repeat("0", 62) + `}`: "it is not a JSON object of integers and lists of integers", `{"` + strings.Repeat("k", 65) + `":1}`: "it is not a JSON object of integers and lists of integers",
	} {
		write(t, name, text)
		if got, err := scan(name); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v; want bad input that says %q", text, got, err, says)
		}
	}
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// FuzzLists compares what is read with what encoding/json makes of it.
func FuzzLists(f *testing.F) {
	f.Add(`{"7": [0, 1], "a":[],"8": -3}`)
	f.Add(`{"0":[1.0,2e1]}`)
	f.Add(`{"a":01}`)
	name := filepath.Join(f.TempDir(), "x.json")
	f.Fuzz(func(t *testing.T, text string) {
		write(t, name, text)
		got, err := scan(name)
		if err != nil {
			if !errors.Is(err, fault.ErrInput) || strings.Contains(err.Error(), "\n") {
				t.Fatal(err)
			}
			return
		}
		// encoding/json is stricter about numbers such as 01, and keys that are no UTF-8.
		var want map[string]any
		if json.Unmarshal([]byte(text), &want) != nil {
			return
		}
		numbers := 0
		for _, v := range want {
			if list, ok := v.([]any); ok {
				numbers += len(list)
			} else {
				numbers++
			}
		}
		if read := len(slices.DeleteFunc(got, func(s string) bool { return s[0] == '"' })); read < numbers { // keys may repeat
			t.Fatalf("%s: %d numbers of %d", text, read, numbers)
		}
	})
}
