package units

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ShellWord returns a path as one word of a POSIX shell's command line: unchanged if that is safe, else
// in quotes. A path that begins with a dash gets a prefix, so that it is not taken for a flag. The result
// is one line of printable text: other characters are written as $'…', which most shells read.
func ShellWord(path string) string {
	if strings.HasPrefix(path, "-") {
		path = "./" + path
	}
	switch {
	case path != "" && strings.IndexFunc(path, special) < 0:
		return path
	case strings.IndexFunc(path, unprintable) < 0:
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return escaped(path)
}

// special reports whether a character has, or may have, a special meaning in a shell.
func special(r rune) bool {
	const plain = "_@%+=:,./-"
	return r >= utf8.RuneSelf && unprintable(r) || r < utf8.RuneSelf && !strings.ContainsRune(plain, r) &&
		(r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}

func unprintable(r rune) bool { return r == utf8.RuneError || !unicode.IsGraphic(r) }

// escaped returns a path with unprintable characters in the form $'…'.
func escaped(path string) string {
	var b strings.Builder
	b.WriteString("$'")
	for i, r := range path {
		_, n := utf8.DecodeRuneInString(path[i:])
		switch {
		case r == '\'' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case !unprintable(r):
			b.WriteRune(r)
		default:
			for _, c := range []byte(path[i : i+n]) {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		}
	}
	b.WriteString("'")
	return b.String()
}
