package stagetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"diskgnn/internal/stage"
)

// Forgeries changes every content parameter and every fact of a finished directory, one at a time, each
// in several ways, and computes the fingerprint again. It returns the changes that verify accepts, in
// order, in the form "facts.nodes: 5, not 4".
func Forgeries(t testing.TB, dir string, verify func() error) (accepted []string) {
	t.Helper()
	name := filepath.Join(dir, stage.MetaFile)
	good, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.WriteFile(name, good, 0o666); err != nil {
			t.Fatal(err)
		}
	}()
	if err := verify(); err != nil {
		t.Fatalf("unchanged: %v", err)
	}
	var m stage.Meta
	if err := json.Unmarshal(good, &m); err != nil {
		t.Fatal(err)
	}
	for _, part := range []struct {
		name string
		raw  *json.RawMessage
	}{{"params", &m.Params}, {"facts", &m.Facts}} {
		was := *part.raw
		tree := decode(t, was)
		forge(part.name, tree, func(v any) { tree = v }, func(what string) {
			*part.raw = encode(t, tree)
			WriteMeta(t, name, &m)
			if verify() == nil {
				accepted = append(accepted, what)
			}
		})
		*part.raw = was
	}
	slices.Sort(accepted)
	return accepted
}

// forge replaces v, by put, and each value inside v with other values, and calls try after each
// replacement.
func forge(path string, v any, put func(v any), try func(what string)) {
	one := func(other any) {
		put(other)
		try(fmt.Sprintf("%s: %v, not %v", path, other, v))
	}
	switch v := v.(type) {
	case json.Number:
		n, err := v.Int64()
		if err != nil {
			f, _ := v.Float64()
			one(f + 0.125)
			break
		}
		one(n + 1)
		if n > 0 {
			one(n - 1)
		}
	case string:
		one(v + "x")
		if other, ok := others[v]; ok {
			one(other)
		}
	case bool:
		one(!v)
	case []any:
		if len(v) > 0 {
			one([]any{})
			one(v[:len(v)-1])
		}
		for i := range v {
			forge(fmt.Sprintf("%s.%d", path, i), v[i], func(x any) { put(slices.Concat(v[:i], []any{x}, v[i+1:])) }, try)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			with := func(x any) {
				c := maps.Clone(v)
				c[key] = x
				put(c)
			}
			forge(path+"."+key, v[key], with, try)
			if zero(v[key]) {
				continue // a missing member means the same value
			}
			c := maps.Clone(v)
			delete(c, key)
			put(c)
			try(fmt.Sprintf("%s.%s: none, not %v", path, key, v[key]))
		}
	}
	put(v)
}

// zero reports whether a value equals the value of a missing member.
func zero(v any) bool {
	switch v := v.(type) {
	case json.Number:
		return v == "0"
	case string:
		return v == ""
	case bool:
		return !v
	case []any:
		return len(v) == 0
	case map[string]any:
		for _, x := range v {
			if !zero(x) {
				return false
			}
		}
	}
	return true
}

// others maps a value to another valid one.
var others = map[string]string{"float32": "bfloat16", "float16": "bfloat16", "bfloat16": "float16", "accuracy": "f1", "f1": "accuracy", "class": "multi-hot", "random": "overlap", "none": "zstd", "static": "min"}

func decode(t testing.TB, raw json.RawMessage) (tree any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

func encode(t testing.TB, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// WriteMeta computes the fingerprint of m and writes m to the file name.
func WriteMeta(t testing.TB, name string, m *stage.Meta) {
	t.Helper()
	m.Fingerprint = ""
	sum := sha256.Sum256(encode(t, decode(t, encode(t, m)))) // keys in order, without spaces
	m.Fingerprint = hex.EncodeToString(sum[:])
	if err := os.WriteFile(name, encode(t, m), 0o666); err != nil {
		t.Fatal(err)
	}
}
