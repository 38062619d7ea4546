package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"unicode/utf8"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
)

// outcome is a finished command's output: an object for scripts, or a few lines for people.
type outcome struct {
	object any
	lines  []line
	table  string // text after the lines, printed unchanged
	text   string // text in place of lines, printed unchanged
	next   string // the command that usually follows
	noPack string // the command that may follow instead, without a pack; "": none
}

type line struct{ label, text string }

// add adds a line.
func (o *outcome) add(label, format string, args ...any) {
	o.lines = append(o.lines, line{label, fmt.Sprintf(format, args...)})
}

// print writes the outcome to stdout. A closed pipe or terminal is no error, since the work is done.
func (o outcome) print(w io.Writer, asJSON bool) error {
	var out strings.Builder
	if asJSON {
		b, err := json.Marshal(o.object)
		if err != nil {
			return fmt.Errorf("encode the result: %w", err)
		}
		out.Write(append(b, '\n'))
	} else {
		o.human(&out)
	}
	if _, err := io.WriteString(w, out.String()); err != nil && !wentAway(w, err) {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

// wentAway reports whether a write failed because the pipe has no reader, or because the terminal hung up.
// The latter is EIO, which for a file means a damaged disk.
func wentAway(w io.Writer, err error) bool {
	if errors.Is(err, syscall.EPIPE) {
		return true
	}
	f, ok := w.(*os.File)
	if !ok || !errors.Is(err, syscall.EIO) {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&fs.ModeCharDevice != 0
}

func (o outcome) human(out *strings.Builder) {
	out.WriteString(o.text)
	width := 0
	for _, l := range o.lines {
		width = max(width, utf8.RuneCountInString(l.label))
	}
	for _, l := range o.lines {
		fmt.Fprintf(out, "%-*s  %s\n", width, l.label, l.text)
	}
	out.WriteString(o.table)
	if o.next != "" {
		fmt.Fprintf(out, "\nnext: %s\n", o.next)
	}
	if o.noPack != "" {
		fmt.Fprintf(out, "the features fit in memory, where training needs no pack: %s\n", o.noPack)
	}
}

// percent formats a fraction as a percentage.
func percent(x float64) string { return fmt.Sprintf("%.1f%%", 100*x) }

// rows formats a number of rows and their bytes.
func rows(n, bytes int64) string {
	return units.Of(n, "row") + ", " + budget.FormatBytes(bytes)
}

// withoutPack returns the command that trains without a pack, or "" if the features take more than half of the
// memory.
func withoutPack(features, memory int64, dataset, samples string) string {
	if features > memory/2 {
		return ""
	}
	return fmt.Sprintf("diskgnn train --dataset %s --samples %s --out run", units.ShellWord(dataset), units.ShellWord(samples))
}

// made is the line with the directory of a stage, and whether it existed before.
func made(out, fingerprint, state string) line {
	return line{"made", fmt.Sprintf("%s (%.12s)%s", out, fingerprint, how(state))}
}

// how describes the state of a stage's directory: finished before, resumed, or "" for a new one.
func how(state string) string {
	switch state {
	case "done":
		return ", finished before: nothing had to be done"
	case "resumed":
		return ", resumed"
	}
	return ""
}

// held is the line with the memory of a stage.
func held(peakAnon, memory int64) line {
	return line{"memory", fmt.Sprintf("%s at most, of %s", budget.FormatBytes(peakAnon), budget.FormatBytes(memory))}
}

// pageMark identifies pages of this program; it is near their beginning.
const pageMark = `<meta name="generator" content="diskgnn `

// writePage writes a page to a new file, or replaces a page of this program. It refuses to replace other
// files.
func writePage(name string, content func(io.Writer) error) error {
	var b bytes.Buffer
	if err := content(&b); err != nil {
		return err
	}
	f, err := vfs.OS.Open(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := vfs.MakeParents(vfs.OS, name); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		head := make([]byte, 1024)
		n, err := f.ReadAt(head, 0)
		if err = errors.Join(ignoreEnd(err), f.Close()); err != nil {
			return err
		}
		if !bytes.Contains(head[:n], []byte(pageMark)) {
			return fault.New(fault.ErrExists, "%s exists and is no page of this program: remove it or choose another name", name)
		}
	}
	return vfs.ReplaceFile(vfs.OS, name, b.Bytes())
}

func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
