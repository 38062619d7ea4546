// Package yaml reads YAML of unknown origin within limits. A few bytes of YAML can expand to gigabytes,
// by nesting and by aliases of aliases. So it limits texts before they are parsed, and the parsed
// documents before they are decoded.
//
// A text has at most MaxBytes bytes. Brackets, and the entries of one line, nest at most 64 deep. A
// document has at most 100,000 values, with aliases replaced by their values. Merge keys (<<) are errors.
// The limits are far above any configuration or list of files. Reading takes less than 64 MiB.
package yaml

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// MaxBytes is the largest accepted text, in bytes.
const MaxBytes = 64 << 10

const (
	maxDepth  = 64
	maxValues = 100_000
)

// Parse returns the documents of a text.
func Parse(text []byte) (*ast.File, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("the text has %d bytes, more than the limit of %d", len(text), MaxBytes)
	}
	tokens := lexer.Tokenize(string(text))
	if err := checkDepth(tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, oneLine(err)
	}
	for _, doc := range file.Docs {
		c := counter{anchors: map[string]int{}}
		if _, err := c.count(doc.Body); err != nil {
			return nil, err
		}
	}
	return file, nil
}

// Unmarshal decodes the first document of a text into v.
func Unmarshal(text []byte, v any) error { return unmarshal(text, v) }

// Strict is Unmarshal, but keys without a field in v are errors.
func Strict(text []byte, v any) error { return unmarshal(text, v, yaml.Strict()) }

func unmarshal(text []byte, v any, o ...yaml.DecodeOption) error {
	file, err := Parse(text)
	if err != nil || len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return err
	}
	if err := yaml.NodeToValue(file.Docs[0].Body, v, o...); err != nil {
		return oneLine(err)
	}
	return nil
}

// oneLine returns the beginning of the line of the library's message that has the error and its place.
// The line may repeat a long line of the text.
func oneLine(err error) error {
	const longest = 300
	line, _, _ := strings.Cut(yaml.FormatError(err, false, false), "\n")
	if len(line) > longest {
		line = strings.ToValidUTF8(line[:longest], "") + " (and more)"
	}
	return fmt.Errorf("%s", line)
}

// checkDepth returns an error for texts that are nested too deep. It does not count indented blocks:
// every level needs more bytes, so a text has at most a few hundred levels.
func checkDepth(tokens token.Tokens) error {
	flow, entries, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			entries, line = 0, t.Position.Line
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType:
			entries++
		case token.MergeKeyType:
			return fmt.Errorf("line %d: merge keys (<<) are not read: write the entries out", line)
		}
		if flow > maxDepth || entries > maxDepth {
			return fmt.Errorf("line %d: nested more than %d deep", line, maxDepth)
		}
	}
	return nil
}

// counter counts the values of a document, with aliases replaced.
type counter struct {
	anchors map[string]int // values of those seen so far
}

// count returns the number of values of a node, with aliases replaced.
func (c *counter) count(n ast.Node) (int, error) {
	values := 1
	add := func(nodes ...ast.Node) error {
		for _, n := range nodes {
			k, err := c.count(n)
			if err != nil {
				return err
			}
			if values += k; values > maxValues {
				return fmt.Errorf("more than %d values", maxValues)
			}
		}
		return nil
	}
	var err error
	switch n := n.(type) {
	case nil:
		return 0, nil
	case *ast.MappingNode:
		for _, v := range n.Values {
			if err == nil {
				err = add(v)
			}
		}
	case *ast.MappingValueNode:
		err = add(n.Key, n.Value)
	case *ast.MappingKeyNode:
		err = add(n.Value)
	case *ast.SequenceNode:
		err = add(n.Values...)
	case *ast.TagNode:
		err = add(n.Value)
	case *ast.AnchorNode:
		if err = add(n.Value); err == nil {
			c.anchors[n.Name.GetToken().Value] = values
		}
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		k, ok := c.anchors[name]
		if !ok { // also if the alias lies inside its own anchor
			return 0, fmt.Errorf("line %d: the alias *%.80s has no anchor before it", n.GetToken().Position.Line, strings.Trim(strconv.Quote(name), `"`))
		}
		values = k
	}
	return values, err
}
