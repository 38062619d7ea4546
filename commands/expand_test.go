package commands

import (
	"errors"
	"strings"
	"testing"

	"diskgnn/internal/fault"
)

func TestExpanded(t *testing.T) {
	lookup := func(name string) (string, bool) {
		v, ok := map[string]string{"HOME": "/root", "EMPTY": "", "A_1": "${HOME}$$"}[name]
		return v, ok
	}
	for value, want := range map[string]string{
		"":                   "",
		"plain":              "plain",
		"${HOME}/g":          "/root/g",
		"a${HOME}b${EMPTY}c": "a/rootbc",
		"${A_1}":             "${HOME}$$",
		"$${HOME}":           "${HOME}",
		"$$$${HOME}":         "$${HOME}",
		"$$$${HOME}$${HOME}": "$${HOME}${HOME}",
		"$$$" + "{HOME}":     "$/root",
		"$HOME":              "$HOME",
		"a$":                 "a$",
		"a}b{":               "a}b{",
		"${HOME}${HOME}}":    "/root/root}",
	} {
		if got, err := expanded(value, lookup); got != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", value, got, err, want)
		}
	}
	for value, says := range map[string]string{
		"${NOWHERE}":    "no variable NOWHERE",
		"x${HOME}${X}":  "no variable X",
		"${}":           `"${}" is no`,
		"${HOME":        `"${HOME" is no`,
		"${HOME:-/tmp}": `"${HOME:-/tmp}" is no`,
		"${1A}":         `"${1A}" is no`,
		"${A B}":        `"${A B}" is no`,
	} {
		if got, err := expanded(value, lookup); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), says) || got != "" {
			t.Errorf("%q: %q, %v, want one that says %q", value, got, err, says)
		}
	}
}

// TestExpandedEscapes: any text can be given with its dollar signs doubled. These are all texts of up to
// five of the characters that mean something.
func TestExpandedEscapes(t *testing.T) {
	none := func(string) (string, bool) { return "", false }
	texts, last := []string{""}, []string{""}
	for range 5 {
		var longer []string
		for _, text := range last {
			for _, c := range "a${}A_1" {
				longer = append(longer, text+string(c))
			}
		}
		texts, last = append(texts, longer...), longer
	}
	for _, text := range texts {
		got, err := expanded(strings.ReplaceAll(text, "$", "$$"), none)
		if got != text || err != nil {
			t.Fatalf("%q: %q, %v", text, got, err)
		}
	}
}
