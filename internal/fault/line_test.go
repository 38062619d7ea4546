package fault

import "testing"

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"a graph's, größer":      "a graph's, größer",
		"one\ntwo\n\nthree\n":    "one; two; three",
		"a\x1b[31mred\x00\u009b": `a\x1b[31mred\x00\u009b`,
		"tab\tand return\r\n":    `tab\tand return\r`,
	} {
		if got := Line(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
