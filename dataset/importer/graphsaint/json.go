package graphsaint

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"

	"diskgnn/dataset/importer"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// lists reads a JSON file with one object as a stream; the values are integers or lists of integers:
// {"7": [0, 1], "8": 3}. It holds only the file's buffer; encoding/json would hold each value, or all.
// Escapes in keys are not supported, and floats must have a fraction of zero.
type lists struct {
	name string
	r    *bufio.Reader
	f    vfs.File
	at   int64 // bytes that were read
}

func openLists(fsys vfs.FS, name string) (*lists, error) {
	f, err := importer.OpenFile(fsys, name)
	if err != nil {
		return nil, err
	}
	return &lists{name: name, r: bufio.NewReaderSize(f, 64<<10), f: f}, nil
}

func (l *lists) Close() error { return l.f.Close() }

// maxToken bounds a number or a key.
const maxToken = 64

var errJSON = fault.New(fault.ErrInput, "it is not a JSON object of integers and lists of integers")

func (l *lists) fail(err error) error {
	if errors.Is(err, io.EOF) {
		err = fault.New(fault.ErrInput, "truncated: it ends within its JSON object")
	}
	return fmt.Errorf("%s: byte %d: %w", l.name, l.at, err)
}

func (l *lists) next() (byte, error) {
	for {
		c, err := l.r.ReadByte()
		if err != nil {
			return 0, err
		}
		l.at++
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c, nil
		}
	}
}

func (l *lists) unread() {
	if l.r.UnreadByte() == nil {
		l.at--
	}
}

func (l *lists) expect(want byte) error {
	c, err := l.next()
	if err == nil && c != want {
		err = errJSON
	}
	return err
}

// more reads a comma, or the end of the list or object.
func (l *lists) more(end byte) (bool, error) {
	c, err := l.next()
	switch {
	case err != nil:
		return false, err
	case c == ',':
		return true, nil
	case c == end:
		return false, nil
	}
	return false, errJSON
}

// key reads a text without escapes.
func (l *lists) key() (string, error) {
	if err := l.expect('"'); err != nil {
		return "", err
	}
	var b []byte
	for {
		c, err := l.r.ReadByte()
		if err != nil {
			return "", err
		}
		l.at++
		if c == '"' {
			return string(b), nil
		}
		if b = append(b, c); c == '\\' || c < ' ' || len(b) > maxToken {
			return "", errJSON
		}
	}
}

func (l *lists) number() (int64, error) {
	var buf [maxToken]byte
	b := buf[:0]
	c, err := l.next()
	for ; err == nil; c, err = l.r.ReadByte() {
		if len(b) > 0 {
			l.at++
		}
		if c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E' && (c < '0' || c > '9') {
			l.unread()
			break
		}
		if b = append(b, c); len(b) == maxToken {
			return 0, errJSON
		}
	}
	if err != nil {
		return 0, err // an object ends with a brace
	}
	if v, ok := integer(string(b)); ok {
		return v, nil
	}
	if len(b) == 0 {
		return 0, errJSON
	}
	return 0, fault.New(fault.ErrInput, "%q is not an integer of 64 bits", b)
}

// integer parses an integer in JSON, which may have a fraction of zero or an exponent.
func integer(s string) (int64, bool) {
	if v, err := strconv.ParseInt(s, 10, 64); err == nil {
		return v, s[0] != '+'
	}
	const exact = 1 << 53
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != float64(int64(f)) || f > exact || f < -exact {
		return 0, false
	}
	return int64(f), true
}

// each calls begin for every key, with whether its value is a list, and then value for each
// integer of it: a value that is no list is one integer.
func (l *lists) each(begin func(key string, list bool) error, value func(v int64) error) error {
	if err := l.object(begin, value); err != nil {
		return l.fail(err)
	}
	return nil
}

func (l *lists) object(begin func(key string, list bool) error, value func(v int64) error) error {
	if err := l.expect('{'); err != nil {
		return err
	}
	c, err := l.next()
	if err != nil {
		return err
	}
	if c != '}' {
		l.unread()
		for more := true; more; {
			if err := l.entry(begin, value); err != nil {
				return err
			}
			if more, err = l.more('}'); err != nil {
				return err
			}
		}
	}
	if _, err := l.next(); !errors.Is(err, io.EOF) {
		return errors.Join(err, errJSON)
	}
	return nil
}

func (l *lists) entry(begin func(key string, list bool) error, value func(v int64) error) error {
	key, err := l.key()
	if err != nil {
		return err
	}
	if err := l.expect(':'); err != nil {
		return err
	}
	c, err := l.next()
	if err != nil {
		return err
	}
	if err := begin(key, c == '['); err != nil {
		return err
	}
	if c != '[' {
		l.unread()
		return l.one(value)
	}
	if c, err = l.next(); err != nil || c == ']' {
		return err
	}
	l.unread()
	for more := true; more; {
		if err := l.one(value); err != nil {
			return err
		}
		if more, err = l.more(']'); err != nil {
			return err
		}
	}
	return nil
}

func (l *lists) one(value func(v int64) error) error {
	v, err := l.number()
	if err != nil {
		return err
	}
	return value(v)
}
