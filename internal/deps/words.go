package deps

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
)

// Wordings are expressions that make sentences hard to read if they are frequent: each replaces a noun, or
// changes the order of subject, verb and object.
var Wordings = []Wording{
	{"what", regexp.MustCompile(`(?i)\bwhat\b`), 15},
	{"whose", regexp.MustCompile(`(?i)\bwhose\b`), 5},
	{"so many, as many", regexp.MustCompile(`(?i)\b(so|as)\s+many\b`), 3},
	{"those of, that of", regexp.MustCompile(`(?i)\b(those|that)\s+of\b`), 4},
}

// Wording is an expression, and the permitted number of its uses in 10,000 words of documents.
type Wording struct {
	Name    string
	Pattern *regexp.Regexp
	Most    int
}

// Count is the number of words of a text, and of each of Wordings in it.
type Count struct {
	Words int
	Uses  [4]int
}

// Add adds another text's count.
func (c *Count) Add(d Count) {
	c.Words += d.Words
	for i, n := range d.Uses {
		c.Uses[i] += n
	}
}

// Allowed returns the permitted number of uses of each of Wordings in the counted words, rounded up.
func (c Count) Allowed() (most [4]int) {
	for i, w := range Wordings {
		most[i] = (c.Words*w.Most + 9999) / 10000
	}
	return most
}

var word = regexp.MustCompile(`[\pL\pN][\pL\pN_'’-]*`)

// CountText counts the words of a prose text.
func CountText(text string) (c Count) {
	c.Words = len(word.FindAllString(text, -1))
	for i, w := range Wordings {
		c.Uses[i] = len(w.Pattern.FindAllString(text, -1))
	}
	return c
}

var (
	fenced   = regexp.MustCompile("(?ms)^```.*?^```")
	codeSpan = regexp.MustCompile("`[^`]*`")
	target   = regexp.MustCompile(`\]\([^)]*\)`)
)

// CountPage counts the words of a Markdown page without its code and the targets of its links.
func CountPage(text string) Count {
	text = fenced.ReplaceAllString(text, "")
	text = codeSpan.ReplaceAllString(text, "code")
	return CountText(target.ReplaceAllString(text, "]"))
}

// CountComments counts the words of a source's comments in two parts: docs are the package comment
// and the comments of exported declarations, which go doc prints; others are all further comments.
func (s *Source) CountComments() (docs, others Count) {
	printed := s.printed()
	for _, g := range s.File.Comments {
		if printed[g] {
			docs.Add(CountText(g.Text()))
		} else {
			others.Add(CountText(g.Text()))
		}
	}
	return docs, others
}

// CountMessages counts the words of a source's string literals that have three words or more:
// errors, notes and help texts.
func (s *Source) CountMessages() (c Count) {
	ast.Inspect(s.File, func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(literal.Value)
		if one := CountText(text); err == nil && one.Words >= 3 {
			c.Add(one)
		}
		return true
	})
	return c
}

// printed returns the package comment and the comments of exported declarations.
func (s *Source) printed() map[*ast.CommentGroup]bool {
	printed := map[*ast.CommentGroup]bool{}
	add := func(g *ast.CommentGroup) { printed[g] = true }
	add(s.File.Doc)
	for _, d := range s.File.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if receiver := Receiver(d); d.Name.IsExported() && (receiver == "" || token.IsExported(receiver)) {
				add(d.Doc)
			}
		case *ast.GenDecl:
			if exportsAny(d) {
				add(d.Doc)
			}
		}
	}
	return printed
}

// exportsAny reports whether a declaration of types, constants or variables exports one of them.
func exportsAny(d *ast.GenDecl) bool {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() {
				return true
			}
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				if name.IsExported() {
					return true
				}
			}
		}
	}
	return false
}
