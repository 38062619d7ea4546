package main

import (
	"fmt"
	"slices"
	"testing"
)

const program = `package p

import "errors"

type t struct{ a [3]int }

func f(n int, g func() error) (int, error) {
	if n < 2 && n != 1 {
		n++
		return n + 1, errors.New("few")
	}
	for !(n > 4) {
		n = n * 2
	}
	g(
	)
	return 0, errors.Join(g(), nil)
}
`

// TestMutants lists what is changed of a small program.
func TestMutants(t *testing.T) {
	list, err := inFile("p.go", []byte(program))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range list {
		got = append(got, fmt.Sprintf("%d %s: %q → %q", m.row, m.kind, m.text[m.from:m.to], m.by))
		if _, err := inFile("p.go", m.source()); err != nil {
			t.Errorf("%s: %v", &m, err)
		}
		lines := func(s []byte) int {
			return len(slices.DeleteFunc(slices.Clone(s), func(c byte) bool { return c != '\n' }))
		}
		if lines(m.source()) != lines(m.text) {
			t.Errorf("%s: other lines follow", &m)
		}
	}
	slices.Sort(got)
	want := []string{
		`10 arithmetic: "+" → "-"`,
		`10 constant: "1" → "0"`,
		`10 constant: "1" → "2"`,
		`10 error made nil: "errors.New(\"few\")" → "nil"`,
		`12 boundary: ">" → ">="`,
		`12 constant: "4" → "3"`,
		`12 constant: "4" → "5"`,
		`12 negated condition: "!(n > 4)" → "!(!(n > 4))"`,
		`13 arithmetic: "*" → "/"`,
		`13 constant: "2" → "1"`,
		`13 constant: "2" → "3"`,
		`13 removed statement: "n = n * 2" → ""`,
		`15 removed statement: "g(\n\t)" → ""`,
		`17 constant: "0" → "-1"`,
		`17 constant: "0" → "1"`,
		`17 error made nil: "errors.Join(g(), nil)" → "nil"`,
		`17 removed call: "g()" → "nil"`,
		`8 boundary: "<" → "<="`,
		`8 comparison: "!=" → "=="`,
		`8 constant: "1" → "0"`,
		`8 constant: "1" → "2"`,
		`8 constant: "2" → "1"`,
		`8 constant: "2" → "3"`,
		`8 logic: "&&" → "||"`,
		`8 negated condition: "n < 2 && n != 1" → "!(n < 2 && n != 1)"`,
		`8 removed statement: "if n < 2 && n != 1 {\n\t\tn++\n\t\treturn n + 1, errors.New(\"few\")\n\t}" → ""`,
		`9 arithmetic: "++" → "--"`,
		`9 removed statement: "n++" → ""`,
	}
	if !slices.Equal(got, want) {
		for _, g := range got {
			if !slices.Contains(want, g) {
				t.Errorf("found %s", g)
			}
		}
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Errorf("missed %s", w)
			}
		}
	}
}
