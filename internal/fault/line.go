package fault

import (
	"strconv"
	"strings"
	"unicode"
)

// Line returns a text as one line for a terminal, whoever chose the names in it: lines are joined,
// and other control characters, which may move the cursor or change colours, are written as in a
// quoted string.
func Line(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' }), "; ")
	if strings.IndexFunc(text, unicode.IsControl) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unicode.IsControl(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
