package exact

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"diskgnn/dataset"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// readNodes reads numbers of nodes, one a line, and returns the nodes ascending, each once. They are counted in the range
// of nodes of all, in the home, which errors name. It skips a first line "node", as in a prediction, empty lines,
// lines that begin with #, and the text after a comma.
func readNodes(fsys vfs.FS, name string, all *targets, home string) ([]uint32, error) {
	ids := []uint32{} // not nil, which would be all
	err := eachID(fsys, name, all.nodes, func(number int, text []byte) error {
		id, err := strconv.ParseUint(string(text), 10, 64)
		if err != nil {
			return fault.New(fault.ErrInput, "%s:%d: %q is not a node id", name, number, shortened(text))
		}
		if id >= uint64(all.nodes) {
			return fault.New(fault.ErrInput, "%s:%d: node %d is outside the %s, which has %d nodes", name, number, id, home, all.nodes)
		}
		ids = append(ids, all.first+uint32(id))
		return nil
	})
	slices.Sort(ids)
	return slices.Compact(ids), err
}

// findNodes is readNodes for a dataset with original ids, which the file lists; ids with commas or
// quotes are in quotes, as in a prediction.
func findNodes(ctx context.Context, fsys vfs.FS, name string, d *dataset.Dataset) ([]uint32, error) {
	var wanted []string
	var lines []int
	err := eachID(fsys, name, d.Facts().Nodes, func(number int, text []byte) error {
		wanted, lines = append(wanted, string(text)), append(lines, number)
		return nil
	})
	if err != nil {
		return nil, err
	}
	nodes, err := d.Nodes(ctx, wanted)
	if err != nil {
		return nil, err
	}
	ids := make([]uint32, len(nodes))
	for i, v := range nodes {
		if v < 0 {
			return nil, fault.New(fault.ErrInput, "%s:%d: %q is not a node of the imported graph", name, lines[i], shortened([]byte(wanted[i])))
		}
		ids[i] = uint32(v)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// eachID calls see for the first field of every line that names a node; there are no more than nodes.
func eachID(fsys vfs.FS, name string, nodes int64, see func(number int, text []byte) error) error {
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.ErrUsage, "--nodes %s: neither a file nor a split; the splits are all, %s", name, strings.Join(splits, ", "))
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	number, found := 0, int64(0)
	for lines.Scan() {
		number++
		text := bytes.TrimSpace(lines.Bytes())
		if quoted, ok := unquoted(text); ok {
			text = quoted
		} else {
			text, _, _ = bytes.Cut(text, []byte(","))
			text = bytes.TrimSpace(text)
			if len(text) == 0 || text[0] == '#' || number == 1 && string(text) == "node" {
				continue
			}
		}
		if found++; found > nodes {
			return fault.New(fault.ErrInput, "%s names nodes twice: it has more lines than the graph has nodes", name)
		}
		if err := see(number, text); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fault.New(fault.ErrInput, "%s:%d: %v", name, number+1, err)
	}
	if found == 0 {
		return fault.New(fault.ErrInput, "%s names no nodes", name)
	}
	return nil
}

// unquoted returns the text in quotes at the beginning of a line; two quotes stand for one.
func unquoted(line []byte) (text []byte, ok bool) {
	if len(line) == 0 || line[0] != '"' {
		return nil, false
	}
	for rest := line[1:]; ; {
		i := bytes.IndexByte(rest, '"')
		if i < 0 {
			return nil, false
		}
		text = append(text, rest[:i]...)
		if rest = rest[i+1:]; len(rest) == 0 || rest[0] != '"' {
			return text, true
		}
		text, rest = append(text, '"'), rest[1:]
	}
}

func shortened(text []byte) string {
	if len(text) > 40 {
		return string(text[:40]) + "…"
	}
	return string(text)
}
